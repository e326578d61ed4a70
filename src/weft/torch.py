# SPDX-License-Identifier: Apache-2.0
"""Host functions as operators of torch, which `torch.compile`, autograd and export take for one node.

In: a host function, or a compiled one. Out: an operator of `torch.library`. Plain calls need none of this: weft's
functions take torch's tensors as they are. The import makes the operators ``weft::<name>`` of all functions of
`weft.kernels`, for programs that load graphs with them.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, cast

from weft import _native
from weft.api import JitFunction
from weft.arguments.base import MISSING, annotation_text
from weft.arguments.constant import ConstantAnnotation
from weft.arguments.scalar import ScalarKind
from weft.arguments.shape import SizeKind
from weft.arguments.signature import check_effects, without_none
from weft.arguments.stream import EnvironmentStream
from weft.arguments.tensor import TensorKind
from weft.arguments.tensor_spec import Tensor, TensorSpec
from weft.errors import SignatureError, UnavailableError, brief
from weft.runtime.specializations import identifier
from weft.torch_operators import Declaration, Parameter, differentiate, schema_of
from weft.tracebacks import one_frame
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weft.runtime.specializations import Compiled

__all__ = ("custom_op",)
__tracebackhide__ = True

_NAME: Final = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")
_NUMBERS: Final = {"bool": "bool", "int": "SymInt", "uint": "SymInt", "float": "float"}
_PYTHON_TYPES: Final[dict[object, str]] = {bool: "bool", int: "SymInt", float: "float"}
# A new value of a constant is a new compilation, so torch is not to make a symbol of it.
_CONSTANTS: Final[dict[object, str]] = {bool: "bool", int: "int", float: "float", str: "str"}


@one_frame("weft.torch.custom_op")
def custom_op(
    function: Any,
    /,
    *,
    mutates_args: Iterable[str] = (),
    outputs: Mapping[str, Callable[..., Any]] | None = None,
    backward: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Makes an operator of torch from a host function.

    `torch.compile` and `torch.export` take a call of it for one node. Each parameter of the function is one of the
    operator: by its annotation a tensor, a number, or a constant such as ``Constexpr[int]``. One without an
    annotation is a tensor, or from its default. The function's result is dropped.

    Args:
        function: made by ``@weft.jit``, or the result of `weft.compile`.
        mutates_args: names of the tensors that its kernels write and that the caller passes.
        outputs: the other tensors that its kernels write: name → a function of the operator's arguments that makes one,
            uninitialized. The operator does not take them, and returns them, in this order; they are new ones at each
            call. torch accepts a derivative only for operators that write nothing else.
        backward: the derivatives by the operator's arguments, None for those without: a function of the result's
            gradient, the result and the arguments, as `weft.kernels` has them; of several results it gets tuples. It
            has derivatives itself where it calls functions that have.
        name: ``"namespace::name"``; by default made of the function's module and its name.
    Returns:
        torch's `CustomOpDef`: call it, and give it other rules by its `register_vmap` and the like.
    Raises:
        TypeError: if `function` is neither.
        SignatureError: if a name is not that of a tensor, if torch's schemas have no type for a parameter, or, at a
            call, if the kernels write a tensor that was not named.
        UnavailableError: if torch is not installed.
    Example:
        >>> import torch
        >>> @weft.kernel
        ... def scale_kernel(a: weft.Tensor, out: weft.Tensor, factor):
        ...     for i in weft.each(a.shape[0]):
        ...         out[i] = factor * a[i]
        >>> @weft.jit
        ... def scale(a: weft.Tensor[weft.f32, ("n",)], out: weft.Tensor[weft.f32, ("n",)], factor: weft.f32 = 2.0):
        ...     scale_kernel(a, out, factor).launch(over=a.shape[0])
        >>> op = weft.torch.custom_op(
        ...     scale, outputs={"out": lambda a, factor: torch.empty_like(a)}, name="example::scale"
        ... )
        >>> op(torch.ones(2), 3.0)
        tensor([3., 3.])
    """
    parameters = list(_parameters(function))
    if backward is not None and not callable(backward):
        raise _error(function, f"backward is {brief(backward)}, expected a function")
    mutated = [mutates_args] if isinstance(mutates_args, str) else list(mutates_args)
    made = dict(outputs or {})
    _check_names(function, parameters, mutated, made)
    if backward is not None and (mutated or not made):
        raise _error(
            function,
            "backward= is for operators that write nothing but outputs=",
            "a derivative is of the operator's results: name the tensors that it writes in outputs=",
        )
    if name is None:
        name = f"{function.__module__.replace('.', '_')}::{identifier(function.__name__)}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _error(function, f"name is {brief(name)}, expected 'namespace::name'")
    taken = [parameter for parameter in parameters if parameter.name not in made]
    operator = _Operator(function, parameters, made, {*mutated, *made})
    schema = schema_of(taken, len(made), mutated)
    defined = _library().custom_op(name, operator, mutates_args=mutated, schema=schema)
    defined.register_fake(operator.outputs)
    if backward is not None:
        defaults = tuple((parameter.name, parameter.default) for parameter in taken)
        declared = Declaration(name, operator, defaults, schema, operator.outputs, backward)
        differentiate(defined, declared)
    return defined


class _Operator:
    """Called by torch: makes the outputs, and passes everything to the function."""

    def __init__(
        self,
        function: Any,
        parameters: Sequence[Parameter],
        made: Mapping[str, Callable[..., Any]],
        written: set[str],
    ) -> None:
        self._function = function
        self._names = [p.name for p in parameters if not p.keyword_only and p.name not in made]
        self._by_position = [p.name for p in parameters if p.positional_only]
        given = [p for p in parameters if p.default is not MISSING and p.name not in made]
        self._defaults = {p.name: p.default for p in given if not p.keyword_only}
        self._named = {p.name: p.default for p in given if p.keyword_only}
        self._makers = [(make, *_accepted_by(make)) for make in made.values()]
        self._made = made
        self._written = written
        self._checked = 0
        self.__name__ = identifier(function.__name__)  # for torch's messages

    def outputs(self, *arguments: Any, **keywords: Any) -> Any:
        """New tensors, one alone or several in a tuple; of fake arguments fake ones."""
        # torch omits values equal to the default.
        by_place = [
            self._defaults[name] for name in self._names[len(arguments) :] if name not in keywords
        ]
        by_name = {name: value for name, value in self._named.items() if name not in keywords}
        made = tuple(
            _made_by(make, arguments, keywords, by_place, by_name) for make in self._makers
        )
        return made[0] if len(made) == 1 else made or None

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Runs the function on the arguments and on new outputs, which it returns.

        Raises:
            SignatureError: if the kernels write a tensor that was not declared to torch.
        """
        result = self.outputs(*arguments, **keywords)
        made = (result,) if len(self._made) == 1 else result or ()
        values = dict(zip(self._names, arguments, strict=False)) | keywords
        values.update(zip(self._made, made, strict=True))
        self._function(*[values.pop(name) for name in self._by_position], **values)
        self._check_written()
        return result

    def _check_written(self) -> None:
        compiled = _compiled(self._function)
        for one in compiled[self._checked :]:
            for name in one.plan.written:
                if name not in self._written:
                    raise _error(
                        self._function,
                        f"kernels write '{name}', which is neither in mutates_args nor in outputs",
                        "name each tensor that kernels write: torch moves and drops calls that "
                        "seem to write nothing",
                    )
        self._checked = len(compiled)


def _compiled(function: Any) -> Sequence[Compiled]:
    return function.specializations if isinstance(function, JitFunction) else (function,)


def _accepted_by(make: Callable[..., Any]) -> tuple[int, set[str] | None]:
    """Number of positional arguments of a user's function, and its keywords; None: any."""
    try:
        own = signature(make).parameters.values()
    except ValueError:  # some functions of extensions do not tell
        return 0, set()
    kinds = {one.kind for one in own}
    by_place = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in own)
    names = {one.name for one in own if one.kind is one.KEYWORD_ONLY}
    return (
        sys.maxsize if inspect.Parameter.VAR_POSITIONAL in kinds else by_place,
        None if inspect.Parameter.VAR_KEYWORD in kinds else names,
    )


def _made_by(
    maker: tuple[Callable[..., Any], int, set[str] | None],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    by_place: list[Any],
    by_name: dict[str, Any],
) -> Any:
    """The result of a user's function of the arguments and the defaults that it takes."""
    make, most, names = maker
    places = by_place[: max(most - len(arguments), 0)]
    named = {name: value for name, value in by_name.items() if names is None or name in names}
    return make(*arguments, *places, **keywords, **named)


def _parameters(function: Any) -> Iterator[Parameter]:
    """The function's parameters that a caller passes.

    Raises:
        TypeError: if it is not a function of weft.
        SignatureError: if torch has no type for one.
    """
    if isinstance(function, JitFunction):
        from weft.frontend.source import read_source

        for declared in read_source(function).parameters:
            annotation, is_optional = without_none(declared.annotation)
            if isinstance(annotation, EnvironmentStream):
                continue
            kind = _declared_type(annotation, declared.default)
            if kind is None:
                raise _untyped(function, declared.name, annotation_text(annotation))
            optional = "?" if is_optional or declared.default is None else ""
            yield Parameter(
                declared.name,
                kind + optional,
                declared.default,
                declared.keyword_only,
                declared.positional_only,
            )
    elif isinstance(function, _native.Function) and hasattr(function, "signature"):
        for p in function.signature.passed:
            kind = _compiled_type(p.kind)
            if kind is None:
                raise _untyped(function, p.name, p.kind.text)
            yield Parameter(p.name, kind, p.default, p.keyword_only, p.positional_only)
    else:
        raise TypeError(
            "weft.torch.custom_op takes a @weft.jit function or the result of weft.compile, "
            f"received {type(function).__name__} {brief(function)}"
        )


def _declared_type(annotation: object, default: object) -> str | None:
    """torch's type for an annotation, or for a parameter without one; None: it has none."""
    if annotation is MISSING:
        return _PYTHON_TYPES.get(type(default)) if default not in (MISSING, None) else "Tensor"
    if annotation is Tensor or isinstance(annotation, TensorSpec):
        return "Tensor"
    if isinstance(annotation, DType):
        return _NUMBERS[annotation.kind]
    if isinstance(annotation, ConstantAnnotation):
        return _CONSTANTS.get(annotation.type)
    return _PYTHON_TYPES.get(annotation)


def _compiled_type(kind: object) -> str | None:
    if isinstance(kind, TensorKind):
        return "Tensor"
    if isinstance(kind, ScalarKind):
        return _NUMBERS[kind.dtype.kind]
    return "SymInt" if isinstance(kind, SizeKind) else None


def _check_names(
    function: Any,
    parameters: Sequence[Parameter],
    mutated: Sequence[str],
    made: Mapping[str, object],
) -> None:
    tensors = [p.name for p in parameters if p.type.startswith("Tensor")]
    check_effects(tensors, mutated, made, "makes the tensor", lambda said: _error(function, said))


def _register() -> None:
    """Makes the operators of `weft.kernels`, if torch is installed."""
    try:
        import_module("torch")
    except ModuleNotFoundError:
        return
    cast("Any", import_module("weft.kernels.host.autograd")).make_operators()


def _library() -> Any:
    try:
        return import_module("torch.library")
    except ModuleNotFoundError as error:
        raise UnavailableError(
            "TORCH_MISSING", "weft.torch needs torch, which is not installed", hint="install torch"
        ) from error


def _untyped(function: Any, name: str, annotation: str) -> SignatureError:
    if annotation == "Constexpr":
        hint = "say which: weft.Constexpr[int], [float], [bool] or [str]"
    else:
        hint = (
            "operators of torch take tensors and numbers; wrap the function in one that takes these"
        )
    return _error(
        function, f"parameter '{name}: {annotation}' has no type in torch's schemas", hint
    )


def _error(function: Any, message: str, hint: str = "") -> SignatureError:
    return SignatureError("TORCH_OPERATOR", f"{function.__name__}: {message}", hint=hint)


_register()
