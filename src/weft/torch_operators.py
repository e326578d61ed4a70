# SPDX-License-Identifier: Apache-2.0
"""Functions of arrays as operators of torch: those of ``weft.kernels``, and the user's of `weft.torch.custom_op`.

In: declarations. Out: for each an operator with a schema, a kernel, a fake implementation, derivatives in reverse and
forward mode, rules for `vmap` and `autocast`, and a FLOP count. torch is not imported until operators are made.
"""

from __future__ import annotations

import sys
from importlib import import_module
from threading import local
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft.arguments.base import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Parameter(NamedTuple):
    """A parameter of an operator.

    Attributes:
        name: in calls by keyword.
        type: in torch's schema language, ``"Tensor"``, ``"float?"``.
        default: or `MISSING`.
        keyword_only, positional_only: as Python's.
    """

    name: str
    type: str
    default: object = MISSING
    keyword_only: bool = False
    positional_only: bool = False

    def declared(self, alias: str = "") -> str:
        """As in a schema: ``Tensor(a!) out``, ``float alpha=2.0``."""
        kind = f"Tensor{alias}{self.type.removeprefix('Tensor')}" if alias else self.type
        if self.default is MISSING:
            return f"{kind} {self.name}"
        default = f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)
        return f"{kind} {self.name}={default}"


def schema_of(parameters: Sequence[Parameter], results: int, mutated: Sequence[str] = ()) -> str:
    """``(Tensor a, Tensor(a0!) b, *, float alpha=2.0) -> ()``."""
    parts: list[str] = []
    for index, parameter in enumerate(parameters):
        if parameter.keyword_only and not (index and parameters[index - 1].keyword_only):
            parts.append("*")
        parts.append(parameter.declared(f"(a{index}!)" if parameter.name in mutated else ""))
    returned = ", ".join(["Tensor"] * results)
    return f"({', '.join(parts)}) -> {returned if results == 1 else f'({returned})'}"


class Declaration(NamedTuple):
    """A function that is an operator of torch.

    Attributes:
        name: of the operator.
        run: its computation, on plain tensors.
        parameters: their names and defaults, without those that are written.
        schema: in torch's terms.
        like: makes new tensors like the results, from the arguments.
        backward: the derivatives; None: it has none.
        keeps: whether all results but the first are kept for the derivative alone.
        autocast: the types that `torch.autocast` computes it in, by device: ``"narrow"``, ``"wide"``, ``"widest"``.
        rows: tensors that have the same leading dims, any number of them, as the results do, and how many dims follow
            at least.
        flops: the operations, from the results and the arguments; None: not counted.
        saves: the parameters whose elements the backward reads, ``"result"`` among them, or a function that makes them
            of whether each argument requires a gradient, and the arguments; None: all. Of other tensors the
            backward gets `Unsaved`.
    """

    name: str
    run: Callable[..., Any]
    parameters: tuple[tuple[str, Any], ...]
    schema: str
    like: Callable[..., Any]
    backward: Callable[..., Any] | None
    keeps: bool = False
    autocast: Mapping[str, str] = MappingProxyType({})
    rows: Mapping[str, int] = MappingProxyType({})
    flops: Callable[..., int] | None = None
    saves: frozenset[str] | Callable[..., frozenset[str]] | None = None

    def filled(
        self, arguments: tuple[Any, ...], keywords: Mapping[str, Any] | None = None
    ) -> tuple[Any, ...]:
        """All arguments: torch leaves those away that are as by default."""
        rest = self.parameters[len(arguments) :]
        if not keywords:  # in each call from a graph
            return (*arguments, *[default for _, default in rest])
        return (*arguments, *[keywords.get(name, default) for name, default in rest])


class Unsaved:
    """A tensor whose elements a backward does not read, so that torch need not keep them.

    Attributes:
        dtype, shape: the tensor's.
        requires_grad: whether its gradient is asked for.
    """

    __slots__ = ("_strides", "dtype", "requires_grad", "shape")

    def __init__(self, tensor: Any, requires_grad: bool) -> None:
        self.dtype, self.shape, self._strides = tensor.dtype, tensor.shape, tensor.stride()
        self.requires_grad = requires_grad

    def stride(self) -> tuple[int, ...]:
        """The tensor's."""
        return self._strides

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize


_NODES: Final[dict[str, Any]] = {}


def make_operator(library: Any, declared: Declaration) -> Any:
    """Makes an operator in a `torch.library.Library`, with its derivatives in both modes and its other rules."""
    torch: Any = sys.modules["torch"]
    name = declared.name
    library.define(name + declared.schema, tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(torch.ops.weft, name).default
    library.impl(name, _marked(declared.run), "CompositeExplicitAutograd")
    torch.library.register_fake(f"weft::{name}", declared.like, lib=library)
    rule, methods = _batched(torch, operator, declared), _methods(torch, operator, declared)
    above = _differentiated(torch, operator, methods, declared)
    library.impl(name, above, "Autograd", with_keyset=True)
    methods["vmap"] = staticmethod(_after_state(rule))
    node = cast("Any", type(f"weft_{name}", (torch.autograd.Function,), methods))
    _NODES[name] = declared, node
    torch.library.register_vmap(f"weft::{name}", rule, lib=library)
    for device, type_rule in declared.autocast.items():
        library.impl(
            name, _autocast(torch, operator, type_rule, device), f"Autocast{device.upper()}"
        )
    if declared.flops is not None:
        counter: Any = import_module("torch.utils.flop_counter")
        counter.register_flop_formula(operator.overloadpacket, get_raw=True)(_counted(declared))
    return operator


class _Place(local):
    """A thread's state."""

    is_inside = False
    is_pushing = False


_PLACE: Final = _Place()


def is_inside() -> bool:
    """Whether this thread runs an operator's kernel: torch knows of the call, and all calls in it are plain ones."""
    return _PLACE.is_inside


def _marked(run: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        was_inside, _PLACE.is_inside = _PLACE.is_inside, True
        try:
            return run(*arguments)
        finally:
            _PLACE.is_inside = was_inside

    return call


def _counted(declared: Declaration) -> Callable[..., int]:
    count: Any = declared.flops

    def flops(*arguments: Any, out_val: Any = None, **named: Any) -> int:
        return count(_tupled(out_val)[0], *declared.filled(arguments, named))

    return flops


def update_flop_counters(torch: Any, names: Iterable[str]) -> None:
    """Adds the FLOP formulas of operators to counters that are active and have a copy of torch's registry."""
    formulas: Any = import_module("torch.utils.flop_counter").flop_registry
    modes: Any = import_module("torch.utils._python_dispatch")
    for mode in modes._get_current_dispatch_mode_stack():
        registry = getattr(getattr(mode, "counter", mode), "flop_registry", None)
        if registry is not None:
            for name in names:
                packet = getattr(torch.ops.weft, name)
                if packet in formulas:
                    registry.setdefault(packet, formulas[packet])


def _differentiated(
    torch: Any, operator: Any, methods: dict[str, Any], declared: Declaration
) -> Callable[..., Any]:
    """The autograd kernel: saves tensors for the backward, or refuses a function without one."""
    level, functorch = torch._C, torch._C._functorch
    forward_mode: Any = import_module("torch.autograd.forward_ad")
    kinds = (torch.autograd.function._SingleLevelFunction,)
    node = cast("Any", type(f"weft_{declared.name}", kinds, methods))
    run = _marked(declared.run)

    def call(keyset: Any, *arguments: Any) -> Any:
        arguments, is_graded = declared.filled(arguments), torch.is_grad_enabled()
        is_transformed = functorch.peek_interpreter_stack() is not None
        is_tracked = is_graded and level._any_requires_grad(*arguments)
        if not (is_transformed or is_tracked or forward_mode._current_level >= 0):
            if _is_eager(keyset):
                return run(*arguments)
            with level._AutoDispatchBelowAutograd():
                return operator.redispatch(keyset & level._after_autograd_keyset, *arguments)
        modes = (is_graded, level._is_fwd_grad_enabled()) if is_transformed else (False, False)
        # As torch's own operators do, a transformation of `torch.func` records at its level alone, and calls the next.
        was_allowed = functorch.get_single_level_autograd_function_allowed()
        functorch.set_single_level_autograd_function_allowed(True)
        try:
            return node.apply((keyset, is_graded, *modes), *arguments)
        finally:
            functorch.set_single_level_autograd_function_allowed(was_allowed)

    return call


_EAGER: Final = tuple(f"DispatchKeySet({one}, Autograd{one})" for one in ("CPU", "CUDA"))
_SEEN_KEYSETS: Final[dict[int, bool]] = {}


def _is_eager(keyset: Any) -> bool:
    """Whether nothing but the kernel of one device is left below autograd: no mode, tracer or lazy view."""
    bits = keyset.raw_repr()
    found = _SEEN_KEYSETS.get(bits)
    if found is None:
        found = _SEEN_KEYSETS[bits] = str(keyset) in _EAGER
    return found


def recorder(declared: Declaration) -> Callable[..., Any]:
    """A node of autograd around a plain call: what torch records where nothing else asks for a call.

    Its operator would pass the dispatcher twice, and a derivative that every transformation of `torch.func` takes.
    """
    torch: Any = sys.modules["torch"]
    run, keeps, count = declared.run, declared.keeps, len(declared.parameters)

    def forward(ctx: Any, *arguments: Any) -> Any:
        found: Any = run(*arguments)
        outputs = _tupled(found)
        _save(torch, ctx, declared, outputs, arguments, ctx.needs_input_grad)
        if len(outputs) > 1:
            own: list[int] = ctx.own
            ctx.mark_non_differentiable(*[v for k, v in enumerate(outputs) if k not in own])
            ctx.set_materialize_grads(not keeps)
        elif not ctx.own:
            ctx.mark_non_differentiable(found)
        return found

    def backward(ctx: Any, *gradients: Any) -> Any:
        if gradients[ctx.own[0]] is None:
            return (None,) * count
        return _input_gradients(declared, ctx, gradients)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    base = torch.autograd.Function
    # Beyond the base's own `apply` in Python, which asks for transformations of `torch.func`: there are none here.
    node = cast("Any", super(base, cast("Any", type(f"weft_{declared.name}", (base,), methods))))
    return node.apply


def transformed(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls an operator under `torch.func`: a node with a rule for each transformation."""
    declared, node = _NODES[name]
    values = declared.filled(arguments, keywords)
    formula = getattr(declared.backward, "formula", None)
    if formula is not None and _PLACE.is_pushing:
        return formula(*values)
    return node.apply(None, *values)


def is_transformed(torch: Any) -> bool:
    """Whether transformations of `torch.func` are active; functionalization takes operators as they are."""
    own = torch._C._functorch
    stack = own.get_interpreter_stack() or ()
    return bool(stack) and all(one.key() != own.TransformType.Functionalize for one in stack)


def _outside(torch: Any, operator: Any, name: str) -> Callable[..., Any]:
    """The operator as transformations around the one that is done see it."""
    if not is_transformed(torch):
        return operator
    return lambda *arguments: transformed(name, arguments, {})


def _methods(torch: Any, operator: Any, declared: Declaration) -> dict[str, Any]:
    """The methods of an operator's `torch.autograd.Function`."""
    level, derive, name = torch._C, declared.backward, declared.name
    forward_mode: Any = import_module("torch.autograd.forward_ad")

    def forward(state: Any, *arguments: Any) -> Any:
        if state is None:
            return _outside(torch, operator, name)(*arguments)
        keyset, _, is_graded, is_forward = state
        with (
            torch.set_grad_enabled(is_graded),
            forward_mode._set_fwd_grad_enabled(is_forward),
            level._AutoDispatchBelowAutograd(),
        ):
            return operator.redispatch(keyset & level._after_autograd_keyset, *arguments)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        state, *arguments = inputs
        outputs = _tupled(output)
        whole = [one for one in outputs if not _is_continuous(one)]
        is_graded = any(ctx.needs_input_grad) and (state is None or state[1])
        # In a pass backward the second derivative may not be asked for.
        is_first = level._current_graph_task_id() == -1
        if derive is None and is_graded and is_first and len(whole) < len(outputs):
            raise no_derivative(name)
        ctx.mark_non_differentiable(*(outputs[1:] if declared.keeps else whole))
        tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
        ctx.save_for_forward(*outputs, *tensors)
        _save(torch, ctx, declared, outputs, arguments, ctx.needs_input_grad[1:])
        ctx.arguments = [None if isinstance(one, torch.Tensor) else (one,) for one in arguments]
        ctx.is_inner = state is not None

    def without_tangents(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(without_tangents, cast("tuple[Any, ...]", value)))
        if not isinstance(value, torch.Tensor) or not _is_continuous(value):
            return value
        return forward_mode.unpack_dual(value).primal

    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, *_input_gradients(declared, ctx, gradients)

    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        if ctx.is_inner and level._functorch.peek_interpreter_stack() is not None:
            raise TypeError(
                f"torch.ops.weft.{name} has no rule for torch.func.jvp; call weft.kernels.{name}"
            )
        everything = iter(ctx.saved_tensors)
        results = [next(everything) for _ in range(ctx.outputs)]
        arguments: list[Any] = ctx.arguments
        inputs = [next(everything) if one is None else one[0] for one in arguments]
        output: Any = tuple(results) if len(results) > 1 else results[0]
        output, *inputs = (without_tangents(one) for one in (output, *inputs))
        outputs = _tupled(output)
        found = iter(_pushed(torch, declared, tangents, output, inputs))
        own = _own(declared, outputs)
        pushed = [next(found) if place in own else None for place in range(len(outputs))]
        return pushed[0] if len(pushed) == 1 else tuple(pushed)

    methods: tuple[Any, ...] = forward, setup_context, backward, jvp
    return {method.__name__: staticmethod(method) for method in methods}


def _save(
    torch: Any,
    ctx: Any,
    declared: Declaration,
    outputs: tuple[Any, ...],
    arguments: Sequence[Any],
    needed: Sequence[bool],
) -> None:
    """Keeps in a node the elements that its backward reads."""
    names = declared.saves
    if callable(names):
        names = names(needed, *arguments)
    is_read = names is None or "result" in names
    tensors, kind = list(outputs) if is_read else [], torch.Tensor
    inputs: list[Any] = list(arguments)
    for place, one in enumerate(arguments):
        if one is None or not isinstance(one, kind):
            continue
        if names is None or declared.parameters[place][0] in names:
            tensors.append(one)
            inputs[place] = _SAVED
        else:
            inputs[place] = Unsaved(one, needed[place])
    ctx.save_for_backward(*tensors)
    ctx.inputs, ctx.outputs, ctx.reads_result = inputs, len(outputs), is_read
    ctx.own = _own(declared, outputs)


_SAVED: Final = object()


def _input_gradients(
    declared: Declaration, ctx: Any, gradients: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The gradients of a node's arguments, from those of all its results."""
    tensors = iter(ctx.saved_tensors)
    output: Any = None
    if ctx.reads_result:
        count = ctx.outputs
        output = tuple([next(tensors) for _ in range(count)]) if count > 1 else next(tensors)
    inputs = [next(tensors) if one is _SAVED else one for one in ctx.inputs]
    return _derived(declared, [gradients[place] for place in ctx.own], output, inputs)


def differentiate(operator: Any, declared: Declaration) -> None:
    """Gives a `torch.library.CustomOpDef` the derivative that its declaration has."""
    torch: Any = sys.modules["torch"]

    def setup_context(
        ctx: Any,
        inputs: tuple[Any, ...],
        output: Any,
        keyword_only_inputs: Mapping[str, Any] | None = None,
    ) -> None:
        outputs = _tupled(output)
        ctx.mark_non_differentiable(*[one for one in outputs if not _is_continuous(one)])
        arguments = [*inputs, *(keyword_only_inputs or {}).values()]
        _save(torch, ctx, declared, outputs, arguments, [True] * len(arguments))
        ctx.by_position = len(inputs)

    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return _input_gradients(declared, ctx, gradients)[: ctx.by_position]

    operator.register_autograd(backward, setup_context=setup_context)


def _derived(
    declared: Declaration, gradients: Sequence[Any], output: Any, inputs: list[Any]
) -> tuple[Any, ...]:
    """The gradients of all arguments, from those of the results that have one."""
    if declared.backward is None:
        raise no_derivative(declared.name)
    gradient = gradients[0] if len(gradients) == 1 else tuple(gradients)
    return _tupled(declared.backward(gradient, output, *inputs))


def _own(declared: Declaration, outputs: Sequence[Any]) -> list[int]:
    """The places of the results that have gradients."""
    if declared.keeps:
        return [0]
    return [place for place, one in enumerate(outputs) if _is_continuous(one)]


def _pushed(
    torch: Any, declared: Declaration, tangents: tuple[Any, ...], output: Any, inputs: list[Any]
) -> tuple[Any, ...]:
    """The Jacobian-vector product, by differentiating the linear map from gradients to derivatives (double vjp)."""
    if declared.backward is None:
        raise no_derivative(declared.name)
    outputs = _tupled(output)
    own = [outputs[place] for place in _own(declared, outputs)]
    moved = [place for place, tangent in enumerate(tangents) if tangent is not None]

    def pulled(gradients: tuple[Any, ...], *values: Any) -> tuple[Any, ...]:
        arguments = list(inputs)
        for place, value in zip(moved, values, strict=False):
            arguments[place] = value
        found = _derived(declared, gradients, output, arguments)
        missing.extend(place for place in moved if found[place] is None)
        derived = tuple(found[place] for place in moved if found[place] is not None)
        return derived or gradients

    for values in ((), tuple(inputs[place] for place in moved)):
        # Gradients that a backward omits where none is required it returns where the values are tracked.
        missing = list[int]()
        zeros = tuple(torch.zeros_like(one) for one in own)
        was_pushing, _PLACE.is_pushing = (
            _PLACE.is_pushing,
            True,
        )  # torch does not nest these in nodes
        try:
            _, pull = torch.func.vjp(pulled, zeros, *values)
        except TypeError as error:
            raise TypeError(f"{declared.name} has no derivative in forward mode: {error}") from None
        finally:
            _PLACE.is_pushing = was_pushing
        if not missing:
            return pull(tuple(tangents[place] for place in moved))[0]
    raise TypeError(f"{declared.name} has no derivative by one of these arguments in forward mode")


def no_derivative(name: str) -> TypeError:
    """The refusal of a call that torch is to differentiate."""
    return TypeError(
        f"{name} has no derivative; call it under torch.no_grad(), or with tensors that require none: x.detach()"
    )


def _tupled(value: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)


def _is_continuous(tensor: Any) -> bool:
    """Whether its elements are numbers that have derivatives."""
    return tensor.is_floating_point() or tensor.is_complex()


def _batched(torch: Any, operator: Any, declared: Declaration) -> Callable[..., Any]:
    """The rule for `torch.vmap`: one call where leading dims are free, else one for each of the batch."""
    names = [name for name, _ in declared.parameters]

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Any:
        arguments, call = declared.filled(arguments), _outside(torch, operator, declared.name)
        # Of a list there is a list of them.
        dims = [dim if isinstance(dim, int) else None for dim in in_dims]
        dims += [None] * (len(arguments) - len(dims))
        places, size = [k for k, dim in enumerate(dims) if dim is not None], info.batch_size
        least = {
            k: declared.rows[names[k]]
            for k, one in enumerate(arguments)
            if one is not None and names[k] in declared.rows
        }
        # One call where all tensors get the batch as a leading dimension, beside as many others.
        ranks = {arguments[k].ndim - (k in places) - rank for k, rank in least.items()}
        if least.keys() >= set(places) and len(ranks) == 1 and min(ranks) >= 0:
            moved = list(arguments)
            for k in least:
                one, dim = arguments[k], dims[k]
                moved[k] = one.expand(size, *one.shape) if dim is None else one.movedim(dim, 0)
            found = call(*moved)
        else:
            parts = [
                _tupled(call(*[_at(one, dim, k) for one, dim in zip(arguments, dims, strict=True)]))
                for k in range(size)
            ]
            stacks = [torch.stack(same) for same in zip(*parts, strict=True)]
            found = stacks[0] if len(stacks) == 1 else tuple(stacks)
        return found, tuple([0] * len(_tupled(found))) if isinstance(found, tuple) else 0

    return rule


def _after_state(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The same rule for calls whose first argument is not the operator's."""

    def call(info: Any, in_dims: tuple[Any, ...], _: Any, *arguments: Any) -> Any:
        return rule(info, in_dims[1:], *arguments)

    return call


def _at(value: Any, dim: int | None, place: int) -> Any:
    return value if dim is None else value.select(dim, place)


def _autocast(torch: Any, operator: Any, rule: str, device: str) -> Callable[..., Any]:
    """The autocast kernel: the operator of tensors in the rule's type."""
    key = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device.upper()}"))

    def is_cast(value: Any) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and value.is_floating_point()
            and value.device.type == device
            and value.itemsize in (2, 4)
        )

    def call(*arguments: Any) -> Any:
        wanted = torch.float32
        if rule == "narrow":
            wanted = torch.get_autocast_dtype(device)
        elif rule == "widest":
            kinds = {value.dtype for value in arguments if is_cast(value)}
            wanted = kinds.pop() if len(kinds) == 1 else torch.float32
        with torch._C._ExcludeDispatchKeyGuard(key):
            return operator(*[one.to(wanted) if is_cast(one) else one for one in arguments])

    return call
