# SPDX-License-Identifier: Apache-2.0
"""Functions of arrays in torch's programs: operators with derivatives, where torch has to know of them.

In: a function of ``weft.kernels``, what its result is like, and its derivative. Out: the same function. Given tensors
of torch that require a gradient, or inside of `torch.compile`, it calls an operator ``weft::<name>`` of torch, which is
made on the first such call; else it runs as it is. torch is imported by nothing here.
"""

from __future__ import annotations

import sys
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

ElementType = Any
"""An element type, by any name; torch's operators take names."""

_TYPES: Final = {
    "int": "SymInt",
    "int | None": "SymInt",
    "float": "float",
    "float | None": "float",
    "bool": "bool",
    "str": "str",
    "Activation": "str",
    "ElementType": "str",
}
_OPERATORS: Final[dict[str, Any]] = {}


def differentiable(
    like: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    accepted: Callable[..., tuple[Any, ...]] | None = None,
    kept: tuple[str, Callable[..., Any]] | None = None,
) -> Callable[[_F], _F]:
    """Makes a function of arrays one that torch differentiates.

    Args:
        like: makes a new tensor like the result, from the function's arguments.
        backward: the derivatives by the arguments, a tuple with None for those that have none, from the result's
            gradient, the result and the arguments; None: it has no derivative.
        accepted: makes the operator's arguments of a call's, or refuses them; None: they are the same.
        kept: a parameter that is written to, which the operator returns besides the result, as `like` does, and what
            makes an array for it from the other arguments; `backward` takes both results as a tuple.
    """

    def decorate(function: _F) -> _F:
        name = function.__name__
        written = ("out",) if kept is None else ("out", kept[0])

        def make() -> bool:
            return make_operator(function, like, backward, kept)

        # torch's tracer calls it and takes the result for a constant, as `torch.compiler.assume_constant_result` says.
        make._dynamo_marked_constant = True  # type: ignore[attr-defined]

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            torch: Any = sys.modules.get("torch")
            values = (*arguments, *keywords.values())
            if torch is None or not _concerns(torch, values):
                return function(*arguments, **keywords)
            for one in written:
                if keywords.pop(one, None) is not None:
                    raise TypeError(
                        f"{name}: a result written to {one}= has no derivative; leave {one}= away, or "
                        "call it under torch.no_grad() and outside of torch.compile"
                    )
            make()
            operator = getattr(torch.ops.weft, name)
            if accepted is not None:
                return operator(*accepted(*arguments, **keywords))
            found = operator(*arguments, **keywords)
            return found if kept is None else found[0]

        return call  # type: ignore[return-value]

    return decorate


def _concerns(torch: Any, values: tuple[Any, ...]) -> bool:
    """Whether torch has to know of a call: it differentiates, compiles, or traces with tensors of another kind."""
    plain, has_tensors, is_tracked = (torch.Tensor, torch.nn.Parameter), False, False
    for value in values:
        if isinstance(value, torch.Tensor):
            if type(value) not in plain:
                return True
            has_tensors = True
            is_tracked = is_tracked or value.requires_grad
    if is_tracked and torch.is_grad_enabled():
        return True
    return has_tensors and torch.compiler.is_compiling()


def make_operator(
    function: Callable[..., Any],
    like: Callable[..., Any],
    backward: Callable[..., Any] | None,
    kept: tuple[str, Callable[..., Any]] | None = None,
) -> bool:
    """Makes the operator of torch that a function is, unless it is there; true."""
    name = function.__name__
    if name not in _OPERATORS:
        library: Any = import_module("torch.library")
        own, written = function, ["out"]
        count = str(signature(function).return_annotation).count("Any")
        if kept is not None:
            own, count = _with_kept(function, *kept), 2
            written.append(kept[0])
        parameters = signature(function).parameters.values()
        declared = ", ".join(_declared(p) for p in parameters if p.name not in written)
        results = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        made = library.custom_op(
            f"weft::{name}", own, mutates_args=(), schema=f"({declared}) -> {results}"
        )
        made.register_fake(like)
        if backward is not None:
            _register(made, backward)
        _OPERATORS[name] = made
    return True


def _with_kept(
    function: Callable[..., Any], name: str, make: Callable[..., Any]
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns its result, and what it wrote to another array."""

    def call(*arguments: Any) -> tuple[Any, Any]:
        array = make(*arguments)
        return function(*arguments, **{name: array}), array

    return call


def _declared(parameter: Any) -> str:
    """A parameter in torch's schema: what has no type of its own is a tensor."""
    kind, default = _TYPES.get(parameter.annotation, "Tensor"), parameter.default
    if default is parameter.empty:
        return f"{kind} {parameter.name}"
    if default is None:
        return f"{kind}? {parameter.name}=None"
    text = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{kind} {parameter.name}={text}"


def _register(made: Any, backward: Callable[..., Any]) -> None:
    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        torch: Any = sys.modules["torch"]
        is_tensor = [isinstance(value, torch.Tensor) for value in inputs]
        tensors = [value for value, is_one in zip(inputs, is_tensor, strict=True) if is_one]
        outputs = cast("tuple[Any, ...]", output) if isinstance(output, tuple) else (output,)
        ctx.mark_non_differentiable(*outputs[1:])
        ctx.save_for_backward(*outputs, *tensors)
        ctx.is_tensor, ctx.outputs = is_tensor, len(outputs)
        ctx.others = [value for value, is_one in zip(inputs, is_tensor, strict=True) if not is_one]

    def differentiate(ctx: Any, gradient: Any, *_: Any) -> Any:
        saved, count = ctx.saved_tensors, ctx.outputs
        output, tensors = saved[:count] if count > 1 else saved[0], saved[count:]
        kept, others = iter(tensors), iter(ctx.others)
        inputs = [next(kept if is_one else others) for is_one in ctx.is_tensor]
        return backward(gradient, output, *inputs)

    made.register_autograd(differentiate, setup_context=keep)


def like_first(x: Any, *_: Any, **__: Any) -> Any:
    """A new tensor like the first argument."""
    return x.new_empty(x.shape)


def like_second(_: Any, x: Any, *__: Any, **___: Any) -> Any:
    """A new tensor like the second argument, of which the first one is the result's gradient."""
    return x.new_empty(x.shape)
