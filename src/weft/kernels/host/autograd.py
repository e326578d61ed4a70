# SPDX-License-Identifier: Apache-2.0
"""Autograd adapter: decides when a call goes through an operator of torch, and when it is a plain one.

In: a function of ``weft.kernels``, shapes of its result, and its derivative. Out: the same function. Plain calls with
tensors of torch run as they are, as those with other arrays do. Where torch has to know of a call, since it
differentiates, transforms, traces, casts or watches, the call is one of the operator ``weft::<name>``, made by
`weft.torch_operators`. torch is imported by nothing here.
"""

from __future__ import annotations

import sys
from functools import wraps
from importlib import import_module
from inspect import Signature, signature
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft.errors import brief
from weft.kernels.annotations import Arguments, Array, Function, Keywords
from weft.kernels.host.jax import with_jax
from weft.kernels.host.sharding import has_strategy, register_strategy
from weft.torch_operators import (
    Declaration,
    Parameter,
    is_inside,
    is_transformed,
    make_operator,
    no_derivative,
    recorder,
    schema_of,
    transformed,
    update_flop_counters,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

NARROW: Final = {"cpu": "narrow", "cuda": "narrow"}
"""Under `torch.autocast`: in the requested 16-bit type, like torch's matmuls."""
WIDE_ON_GPUS: Final = {"cuda": "wide"}
"""Under `torch.autocast`: on a GPU in f32, as torch's exponentials and norms."""
WIDEST: Final = {"cpu": "widest", "cuda": "widest"}
"""Under `torch.autocast`: all in the type of the widest."""


_TYPES: Final = {
    "int": "SymInt",
    "int | None": "SymInt",
    "float": "float",
    "float | None": "float",
    "bool": "bool",
    "str": "str",
    "str | None": "str",
    "Activation": "str",
    "ElementType": "str",
    "Function": "str",
    "Number": "Scalar",
    "Sequence[int] | None": "SymInt[]",
    "tuple[float, float] | None": "float[]",
}


_DECLARED: Final[dict[str, Declaration]] = {}
_MADE: Final[dict[str, Any]] = {}
_LIBRARY: Final[list[Any]] = []
_SHARDED: Final[set[str]] = set()  # torch knows how these shard a `DTensor`
_LOCK: Final = RLock()


def declare(
    function: Callable[..., Any],
    like: Callable[..., Any],
    backward: Callable[..., Any] | None,
    kept: tuple[str, Callable[..., Any]] | None,
    **rules: Any,
) -> Declaration:
    """Declares a function's operator; `make_operators` registers all."""
    own, written = rules.get("run", function), ["out"]
    count = str(signature(own).return_annotation).count("Array")
    if kept is not None:
        count = 2
        written.append(kept[0])
    parameters = [p for p in signature(own).parameters.values() if p.name not in written]
    made = Declaration(
        function.__name__,
        own if kept is None else kept[1],
        tuple((p.name, p.default) for p in parameters),
        schema_of(list(map(_parameter, parameters)), count),
        like,
        backward,
        kept is not None,
        rules.get("autocast", {}),
        rules.get("rows", {}),
        rules.get("flops"),
        rules.get("saves"),
    )
    _DECLARED[made.name] = made
    return made


def make_operators() -> bool:
    """Registers the operators of all functions of `weft.kernels` once; true.

    A graph that torch has kept, of a program that it does not trace again, names them by their names alone, and the
    derivative of one is another.
    """
    with _LOCK:
        is_new = False
        if not _LIBRARY:
            package = cast("Any", import_module("weft.kernels"))
            for module in dict.fromkeys(package._MODULES.values()):
                import_module(f"weft.kernels.{module}")
            _LIBRARY.append(cast("Any", import_module("torch")).library.Library("weft", "FRAGMENT"))
        if len(_MADE) < len(_DECLARED):  # each call of an operator asks
            for name in _DECLARED.keys() - _MADE.keys():
                _MADE[name] = make_operator(_LIBRARY[0], _DECLARED[name])
            is_new = True
        if is_new:
            update_flop_counters(sys.modules["torch"], _MADE)
        if len(_SHARDED) < len(_MADE) and "torch.distributed.tensor" in sys.modules:
            for name in _MADE.keys() - _SHARDED:
                if has_strategy(_DECLARED[name]):
                    register_strategy(_DECLARED[name], _MADE[name])
                _SHARDED.add(name)
    return True


# torch's tracer calls it and takes the result for a constant, as `torch.compiler.assume_constant_result` says.
make_operators._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _parameter(parameter: Any) -> Parameter:
    """A parameter of the operator; without a known annotation it is a tensor."""
    kind = _TYPES.get(parameter.annotation, "Tensor")
    if parameter.default is parameter.empty:
        return Parameter(parameter.name, kind)
    return Parameter(parameter.name, kind + "?" * (parameter.default is None), parameter.default)


def differentiable(
    like: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    accepted: Callable[..., tuple[Any, ...]] | None = None,
    kept: tuple[str, Callable[..., Any]] | None = None,
    result: Callable[..., Any] | None = None,
    **rules: Any,
) -> Callable[[_F], _F]:
    """Registers a function of arrays with torch.

    Args:
        like: makes new tensors like the results, from the function's arguments.
        backward: the derivatives by the arguments, a tuple with None for those that have none, from the result's
            gradient (of several floating-point results: a tuple of theirs), the result, or all, and the arguments;
            None: it has no derivative.
        accepted: makes the operator's arguments of a call's, or refuses them; None: they are the same.
        kept: a parameter that is written to, which the operator returns besides the result, as `like` does, and the
            function of the other arguments that returns both, new; it has no gradient.
        result: makes a call's result of the operator's and the call's arguments; None: it is the same.
        rules: `run`, the operator's function instead of this one, and `autocast`, `rows`, `flops` and `saves`, as in
            `weft.torch_operators.Declaration`.
    """

    def decorate(function: _F) -> _F:
        operator = declare(function, like, backward, kept, **rules)
        written = _Written.of(function, kept)
        end = result or (_first if kept else None)
        through = _operator_call(function, operator, written, accepted, end)
        record = None if backward is None else _Recorded(operator, function, accepted, end)
        return _dispatched(function, through, record, written)

    return decorate


class _Written(NamedTuple):
    """The parameters of a function that it writes to.

    Attributes:
        names: ``"out"``, and those that are kept.
        first: the place of the first one, or the number of all parameters.
    """

    names: tuple[str, ...]
    first: int

    @staticmethod
    def of(function: Callable[..., Any], kept: tuple[str, Callable[..., Any]] | None) -> _Written:
        parameters = list(signature(function).parameters)
        names = tuple([one for one in ("out", kept and kept[0]) if one in parameters])
        return _Written(names, min(map(parameters.index, names), default=len(parameters)))

    def are_given(self, arguments: Arguments, keywords: Keywords) -> bool:
        """Whether a call has an output argument."""
        rest = (*arguments[self.first :], *[keywords.get(one) for one in self.names])
        return any(one is not None for one in rest)


def _dispatched(
    function: _F,
    through: Callable[..., Any],
    record: _Recorded | None,
    written: _Written,
) -> _F:
    """The public function: a plain call, a node of autograd around one, or a call of the operator."""

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Array:
        torch: Any = sys.modules.get("torch")
        jax: Any = sys.modules.get("jax")
        if torch is None:
            if jax is not None:
                return with_jax(jax, function, arguments, keywords)
            return function(*arguments, **keywords)
        if torch.compiler.is_compiling():
            return through(torch, arguments, dict(keywords))
        values = (*arguments, *keywords.values())
        reason = _concerns(torch, values)
        if reason and not is_inside():
            if reason is _TRACKED and record is not None:
                found = record(torch, arguments, keywords)
                if found is not None:
                    return found
            if reason is not _WATCHED or not written.are_given(arguments, keywords):
                return through(torch, arguments, keywords)
        try:
            if jax is not None:
                return with_jax(jax, function, arguments, keywords)
            return function(*arguments, **keywords)
        except (TypeError, ValueError):
            if not _has_no_memory(torch, values):
                raise
        return through(torch, arguments, keywords)

    return call  # type: ignore[return-value]


class _Recorded:
    """Calls that torch only differentiates, without the operator: the function in a node of autograd."""

    __slots__ = (
        "_accepted",
        "_declared",
        "_defaults",
        "_names",
        "_node",
        "_others",
        "_rest",
        "_result",
        "_signature",
    )

    def __init__(
        self,
        declared: Declaration,
        function: Callable[..., Any],
        accepted: Callable[..., tuple[Any, ...]] | None,
        result: Callable[..., Any] | None,
    ) -> None:
        self._signature = signature(function)
        self._defaults = dict(declared.parameters)
        if accepted is not None:
            self._defaults = {k: p.default for k, p in signature(accepted).parameters.items()}
        self._names, every = list(self._defaults), list(self._defaults.values())
        # By the number of arguments by position: those that are left away, None if they have to be there.
        self._rest = [
            None if Signature.empty in every[count:] else every[count:]
            for count in range(len(every) + 1)
        ]
        own = signature(declared.run).parameters
        # Numbers and names: of other kinds they are the operator's to refuse or to convert.
        names = [name for name, _ in declared.parameters]
        self._others = [k for k, one in enumerate(names) if own[one].annotation in _TYPES]
        self._declared, self._accepted, self._result = declared, accepted, result
        self._node: Any = None

    def __call__(self, torch: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The result, or None where the operator has to say more."""
        values: Any = self._bound(arguments, keywords)
        if values is None:
            return None
        given = values
        if self._accepted is not None:
            values = self._accepted(*values)
        for place in self._others:
            if type(values[place]) not in _ORDINARY:
                return None
        if self._node is None:
            self._node = recorder(self._declared)
        try:
            found = self._node(*values)
        except (TypeError, ValueError):
            if not _has_no_memory(torch, values):
                raise
            return None
        return found if self._result is None else self._result(found, *given)

    def _bound(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any] | None:
        """All arguments, or None where they do not fit."""
        if not keywords and len(arguments) < len(self._rest):
            rest = self._rest[len(arguments)]
            if rest is not None:
                return [*arguments, *rest]
        values, taken = list(arguments), 0
        for name in self._names[len(arguments) :]:
            value = keywords.get(name, _MISSING)
            if value is _MISSING:
                value = self._defaults[name]
                if value is Signature.empty:
                    break
            else:
                taken += 1
            values.append(value)
        if len(values) != len(self._names) or taken != len(keywords):
            self._signature.bind(*arguments, **keywords)  # names what does not fit
            return None
        return values


def _refused(
    name: str, function: Callable[..., Any], operator: Declaration, is_converted: bool
) -> Callable[[Any, Arguments, Keywords], None]:
    """The check of a call of the operator: arguments that require a gradient, and have none."""
    declared = signature(function).parameters
    parameters = list(declared)
    # A conversion of arguments gives the derivatives with respect to these scalars.
    own = ("alpha", "beta") if is_converted else ()
    numbers = [k for k, p in declared.items() if p.annotation in _NUMBERS and k not in own]
    has_none = operator.backward is None and is_converted

    def check(torch: Any, arguments: Arguments, keywords: Keywords) -> None:
        for one, value in (*zip(parameters, arguments, strict=False), *keywords.items()):
            if one in numbers and is_tracked(value):
                raise TypeError(
                    f"{name}: {one} requires a gradient, but is a number, by which there is no derivative; "
                    f"pass {one}.item()"
                )
        if has_none and torch.is_grad_enabled():  # before a function is asked for its name
            for one in (*arguments, *keywords.values()):
                if is_tracked(one):
                    raise no_derivative(name)

    return check


def is_tracked(value: Any) -> bool:
    """Whether a value is a tensor that requires a gradient or has a tangent."""
    torch: Any = sys.modules["torch"]
    if not isinstance(value, torch.Tensor):
        return False
    if value.requires_grad or torch.compiler.is_compiling():
        return value.requires_grad
    forward_mode = sys.modules.get("torch.autograd.forward_ad")
    if forward_mode is None or forward_mode._current_level < 0:
        return False
    return forward_mode.unpack_dual(value).tangent is not None


def _operator_call(
    function: Callable[..., Any],
    operator: Declaration,
    written: _Written,
    accepted: Callable[..., tuple[Any, ...]] | None,
    result: Callable[..., Any] | None,
) -> Callable[..., Any]:
    """Calls the operator; torch's tracer follows it."""
    name = operator.name
    check = _refused(name, function, operator, accepted is not None)

    def through(torch: Any, arguments: Arguments, keywords: Keywords) -> Array:
        check(torch, arguments, keywords)
        make_operators()
        sharded: Any = sys.modules.get("torch.distributed.tensor")
        if sharded is not None and not has_strategy(operator):
            if any(isinstance(one, sharded.DTensor) for one in (*arguments, *keywords.values())):
                raise TypeError(
                    f"{name} has no sharding strategy for a DTensor; call it on tensor.to_local() or on "
                    "tensor.full_tensor()"
                )
        if written.are_given(arguments, keywords):
            raise TypeError(
                f"{name}: a result written to {written.names[0]}= has no derivative and no place in a graph; leave it "
                "away, or call the function under torch.no_grad(), outside of torch.compile, modes and transforms"
            )
        arguments = arguments[: written.first]
        keywords = {k: value for k, value in keywords.items() if k not in written.names}
        given, named = arguments, keywords
        if accepted is not None:
            arguments, keywords = accepted(*arguments, **keywords), {}
        if torch.compiler.is_compiling() or not is_transformed(torch):
            found = getattr(torch.ops.weft, name)(*arguments, **keywords)
        else:
            found = transformed(name, arguments, keywords)
        return found if result is None else result(found, *given, **named)

    return through


def _first(found: Array, *_: object, **__: object) -> Array:
    return found[0]


_NUMBERS: Final = ("int", "int | None", "float", "float | None", "Number")
_MISSING: Final = object()
_WATCHED: Final = "watched"
_TRACKED: Final = "gradient"
_ORDINARY: Final = frozenset(
    (int, float, bool, str, tuple, list, type(None))
)  # asked sooner than others
_PLAIN_KEYS: Final = ("BackendSelect", "ADInplaceOrView")


def _concerns(torch: Any, values: Arguments) -> str:
    """The reason why a call goes through the operator, or nothing.

    ``"watched"``: it only watches, or casts, which it does to no call that writes to a tensor of the user's.
    ``"gradient"``: it only differentiates.
    """
    has_tensors = needs_gradient = False
    for value in values:
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            has_tensors = True
            needs_gradient = needs_gradient or value.requires_grad
        elif kind not in _ORDINARY and hasattr(kind, "__torch_function__"):
            return kind.__name__
    if not has_tensors:
        return ""
    level = torch._C
    tracks = needs_gradient and level.is_grad_enabled()
    if level._dispatch_tls_local_include_set().raw_repr() & ~_plain_keys(torch):
        return "mode"
    if level._len_torch_function_stack():
        stack = torch.overrides._get_current_function_mode_stack()
        device_alone = all(type(mode).__name__ == "DeviceContext" for mode in stack)
        return _WATCHED if device_alone and not tracks else "mode"
    forward_mode = sys.modules.get("torch.autograd.forward_ad")
    if forward_mode is not None and forward_mode._current_level >= 0:
        return "tangent"
    if level._is_any_autocast_enabled() or torch.autograd._profiler_enabled():
        return "mode" if tracks else _WATCHED
    return _TRACKED if tracks else ""


_KNOWN_KEYS: Final[list[int]] = []


def _plain_keys(torch: Any) -> int:
    """The dispatch keys of plain eager execution, as bits."""
    if not _KNOWN_KEYS:
        key, bits = torch._C.DispatchKey, 0
        for name in _PLAIN_KEYS:
            bits |= torch._C.DispatchKeySet(getattr(key, name)).raw_repr()
        _KNOWN_KEYS.append(bits)
    return _KNOWN_KEYS[0]


def _has_no_memory(torch: Any, values: Arguments) -> bool:
    """Whether a tensor has no materialized values: meta, wrapped, lazily negated or conjugated."""
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # beyond its transformation
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return any(
        one.is_meta or is_wrapped(one) or one.is_neg() or one.is_conj() or one._is_zerotensor()
        for one in tensors
    )


def name_of_function(function: Function) -> str:
    """The name by which torch's operators take a function that kernels call.

    Raises:
        TypeError: for one that has no name in a module, or none at all.
    """
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '<')}"
    if not callable(function) or "<" in name or function_of(name) is not function:
        raise TypeError(
            f"function is {brief(function)}, expected one that a module has by name: torch's operators take "
            "names, so that a graph can be kept; define it at the top of a module"
        )
    return name


# torch's tracer calls it: a graph is of one function.
name_of_function._dynamo_marked_constant = True  # type: ignore[attr-defined]


def function_of(name: str) -> Array:
    """The function of a name as `name_of_function` gives it; None where it is not there."""
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def like_first(x: Array, *_: object, **__: object) -> Array:
    """A new tensor like the first argument."""
    return x.new_empty(x.shape)


def like_total(x: Array, like: Array) -> Array:
    """A tensor like another one, of the type in which x's elements are added up: 64 bits for integers."""
    if x.is_floating_point():
        return like
    torch: Any = sys.modules["torch"]
    unsigned = torch.uint8, torch.uint16, torch.uint32, torch.uint64
    return like.to(torch.uint64 if x.dtype in unsigned else torch.int64)


def like_second(_: object, x: Array, *__: object, **___: object) -> Array:
    """A new tensor like the second argument; the first one is the result's gradient."""
    return x.new_empty(x.shape)


def composite_backward(formula: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The backward function of an operator, by differentiating an equivalent formula of torch."""

    def backward(gradient: Array, _: object, *arguments: Any) -> Arguments:
        torch: Any = sys.modules["torch"]
        places = [
            place
            for place, one in enumerate(arguments)
            if isinstance(one, torch.Tensor) and (one.is_floating_point() or one.is_complex())
        ]

        def run(*tensors: Array) -> Array:
            given = list(arguments)
            for place, tensor in zip(places, tensors, strict=True):
                given[place] = tensor
            return formula(*given)

        found = vjp(run, gradient, *[arguments[place] for place in places])
        every: list[Any] = [None] * len(arguments)
        for place, grad in zip(places, found, strict=True):
            every[place] = grad
        return tuple(every)

    backward.formula = formula  # type: ignore[attr-defined]
    return backward


def vjp(function: Callable[..., Any], gradient: Array, *tensors: Array) -> Arguments:
    """The vector-Jacobian products of a function of tensors."""
    torch: Any = sys.modules["torch"]
    results, pull = torch.func.vjp(function, *tensors)
    if isinstance(results, tuple):
        pairs = zip(
            cast("tuple[Any, ...]", gradient), cast("tuple[Any, ...]", results), strict=True
        )
        return pull(tuple(one.to(result.dtype) for one, result in pairs))
    return pull(gradient.to(results.dtype))


def upcast(tensor: Array) -> Array:
    """A tensor in the type in which kernels compute: at least f32."""
    return tensor.float() if tensor.itemsize < 4 else tensor
