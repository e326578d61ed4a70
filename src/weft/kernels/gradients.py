# SPDX-License-Identifier: Apache-2.0
"""Functions of arrays in torch's programs: when a call is one of an operator of torch, and when a plain one.

In: a function of ``weft.kernels``, shapes of its result, and its derivative. Out: the same function. Plain calls with
tensors of torch run as they are, as those with other arrays do. Where torch has to know of a call, since it
differentiates, transforms, traces, casts or watches, the call is one of the operator ``weft::<name>``, made by
`operators`. torch is imported by nothing here.
"""

from __future__ import annotations

import sys
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from weft.kernels.operators import declare, make_operators, transformed

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

ElementType = Any
"""An element type, by any name; torch's operators take names."""
Function = Any
"""A function that kernels call; torch's operators take its name, as `name_of_function` says."""
Number = Any
"""A number of an array's type."""

NARROW: Final = {"cpu": "narrow", "cuda": "narrow"}
"""Under `torch.autocast`: in the type of 16 bits that it is asked for, as torch's products."""
WIDE_ON_GPUS: Final = {"cuda": "wide"}
"""Under `torch.autocast`: on a GPU in f32, as torch's exponentials and norms."""
WIDEST: Final = {"cpu": "widest", "cuda": "widest"}
"""Under `torch.autocast`: all in the type of the widest."""


def differentiable(
    like: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    accepted: Callable[..., tuple[Any, ...]] | None = None,
    kept: tuple[str, Callable[..., Any]] | None = None,
    **rules: Any,
) -> Callable[[_F], _F]:
    """Makes a function of arrays one that torch knows.

    Args:
        like: makes new tensors like the results, from the function's arguments.
        backward: the derivatives by the arguments, a tuple with None for those that have none, from the result's
            gradient (of several floating-point results: a tuple of theirs), the result, or all, and the arguments;
            None: it has no derivative.
        accepted: makes the operator's arguments of a call's, or refuses them; None: they are the same.
        kept: a parameter that is written to, which the operator returns besides the result, as `like` does, and what
            makes an array for it from the other arguments; it has no gradient.
        rules: `autocast`, `rows` and `flops`, as in `operators.Declaration`.
    """

    def decorate(function: _F) -> _F:
        name = function.__name__
        declare(function, like, backward, kept, **rules)
        parameters = list(signature(function).parameters)
        written = [one for one in ("out", kept and kept[0]) if one in parameters]
        most = min((parameters.index(one) for one in written), default=len(parameters))

        def through(torch: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            make_operators()
            arguments, rest = arguments[:most], arguments[most:]
            targets = [one for one in rest if one is not None]
            for one in written:
                target = keywords.pop(one, None)
                if target is not None:
                    targets.append(target)
            if targets:
                raise TypeError(
                    f"{name}: a result written to {written[0]}= has no derivative and is no part of a graph; leave it "
                    "away, or call the function under torch.no_grad(), outside of torch.compile, modes and transforms"
                )
            if accepted is not None:
                arguments, keywords = accepted(*arguments, **keywords), {}
            if torch.compiler.is_compiling() or not _is_transformed(torch):
                found = getattr(torch.ops.weft, name)(*arguments, **keywords)
            else:
                bound = signature(function).bind(*arguments, **keywords)
                bound.apply_defaults()
                found = transformed(name, bound.args[:most])
            return found if kept is None else found[0]

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            torch: Any = sys.modules.get("torch")
            if torch is None:
                return function(*arguments, **keywords)
            if torch.compiler.is_compiling():
                return through(torch, arguments, dict(keywords))
            values = (*arguments, *keywords.values())
            reason = _concerns(torch, values)
            if reason and not (reason is _WATCHED and _writes(keywords, arguments, written, most)):
                return through(torch, arguments, keywords)
            try:
                return function(*arguments, **keywords)
            except (TypeError, ValueError):
                if not _has_no_memory(torch, values):
                    raise
            return through(torch, arguments, keywords)

        return call  # type: ignore[return-value]

    return decorate


def _is_transformed(torch: Any) -> bool:
    """Whether transformations of `torch.func` are under way; functionalization takes operators as they are."""
    own = torch._C._functorch
    stack = own.get_interpreter_stack() or ()
    return bool(stack) and all(one.key() != own.TransformType.Functionalize for one in stack)


_WATCHED: Final = "watched"
_PLAIN_KEYS: Final = ("BackendSelect", "ADInplaceOrView")


def _writes(
    keywords: dict[str, Any], arguments: tuple[Any, ...], written: list[str], most: int
) -> bool:
    """Whether a call has a result to write to."""
    rest = (*arguments[most:], *[keywords.get(one) for one in written])
    return any(one is not None for one in rest)


def _concerns(torch: Any, values: tuple[Any, ...]) -> str:
    """Why torch has to know of a call, or nothing.

    ``"watched"``: it only watches, or casts, which it does to no call that writes to a tensor of the user's.
    """
    has_tensors = is_tracked = False
    for value in values:
        kind = type(value)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            has_tensors = True
            is_tracked = is_tracked or value.requires_grad
        elif hasattr(kind, "__torch_function__"):
            return kind.__name__
    if not has_tensors:
        return ""
    level = torch._C
    if is_tracked and level.is_grad_enabled():
        return "gradient"
    if level._dispatch_tls_local_include_set().raw_repr() & ~_plain_keys(torch):
        return "mode"
    if level._len_torch_function_stack():
        stack = torch.overrides._get_current_function_mode_stack()
        device_alone = all(type(mode).__name__ == "DeviceContext" for mode in stack)
        return _WATCHED if device_alone else "mode"
    forward_mode = sys.modules.get("torch.autograd.forward_ad")
    if forward_mode is not None and forward_mode._current_level >= 0:
        return "tangent"
    is_watched = level._is_any_autocast_enabled() or torch.autograd._profiler_enabled()
    return _WATCHED if is_watched else ""


_KNOWN_KEYS: Final[list[int]] = []


def _plain_keys(torch: Any) -> int:
    """The dispatch keys of a thread in which nothing but torch itself looks at calls, as bits."""
    if not _KNOWN_KEYS:
        key, bits = torch._C.DispatchKey, 0
        for name in _PLAIN_KEYS:
            bits |= torch._C.DispatchKeySet(getattr(key, name)).raw_repr()
        _KNOWN_KEYS.append(bits)
    return _KNOWN_KEYS[0]


def _has_no_memory(torch: Any, values: tuple[Any, ...]) -> bool:
    """Whether a tensor has no memory with its values, which torch's operators make first."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return any(
        one.is_meta or one.is_neg() or one.is_conj() or one._is_zerotensor() for one in tensors
    )


def like_first(x: Any, *_: Any, **__: Any) -> Any:
    """A new tensor like the first argument."""
    return x.new_empty(x.shape)


def like_second(_: Any, x: Any, *__: Any, **___: Any) -> Any:
    """A new tensor like the second argument, of which the first one is the result's gradient."""
    return x.new_empty(x.shape)
