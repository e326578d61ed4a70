# SPDX-License-Identifier: Apache-2.0
"""The signature that a caller asks for, and the marshaller's plan of a function; imports no compiler.

In: a function's source, example arguments or a signature; facts from the trace. Out: a signature; a `_native.CallPlan`:
names, defaults and masks as plain data, so that calls need no compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft import _native
from weft.arguments.base import MISSING
from weft.arguments.constant import ConstantKind
from weft.arguments.signature import Signature, infer_signature
from weft.arguments.stream import StreamKind

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from weft.arguments.base import ArgumentKind
    from weft.frontend.functions.interface import RestoredResult
    from weft.frontend.source import FunctionSource


_WRITTEN: Final = 1
_STREAM: Final = 2
_READ: Final = 8

# The plan of a container's items: (children, constants), where a child is flags or such a pair.
ItemPlan = tuple[tuple[Any, ...], tuple[Any, ...]]


class Calling(NamedTuple):
    """Facts of a call beside the signature; `make_call_plan` explains each."""

    written: tuple[str, ...]
    returns_objects: bool
    result: RestoredResult | None = None
    returns_new: bool = False


def make_call_plan(
    signature: Signature,
    written_arguments: Container[str],
    returns_objects: bool,
    result: RestoredResult | None = None,
    returns_new: bool = False,
) -> _native.CallPlan:
    """The plan for a compiled function.

    Args:
        signature: of the function.
        written_arguments: names of the parameters that kernels write to, or paths (`t[1].x`) of items; read-only arrays
            are refused there.
        returns_objects: whether it returns an argument tensor, so that tensors must arrive as counted objects.
        result: the conversion of a returned tuple and its items; see `weft.frontend.functions.interface`.
        returns_new: whether it returns a tensor that it makes, which has no derivative in torch; it refuses arguments
            whose derivatives torch records.
    """
    passed = signature.passed
    defaults: dict[str, Any] = {p.name: p.default for p in passed if p.default is not MISSING}
    return _native.CallPlan(
        signature.name,
        signature.text,
        tuple(parameter.name for parameter in passed),
        positional_count=sum(not parameter.keyword_only for parameter in passed),
        positional_only_count=sum(parameter.positional_only for parameter in passed),
        defaults=defaults,
        written_mask=_mask(parameter.name in written_arguments for parameter in passed),
        stream_mask=_mask(isinstance(parameter.kind, StreamKind) for parameter in passed),
        owned_tensors=returns_objects,
        items=tuple(
            item_plan(p.kind, p.name, written_arguments, returns_new) if p.kind.parts else None
            for p in passed
        ),
        result=result,
        read_mask=_mask(returns_new for _ in passed),
    )


def item_plan(
    kind: ArgumentKind, path: str, written: Container[str], returns_new: bool = False
) -> ItemPlan:
    """The plan of a container's items: which are written, which are streams.

    Args:
        kind: of the container.
        path: its name.
        written: paths of the tensors that kernels write to.
        returns_new: whether the function returns a tensor that it makes.
    """
    children: list[Any] = []
    constants: list[Any] = []
    for label, part in kind.parts:
        if isinstance(part, ConstantKind):
            constants.append(part.value)
        elif part.parts:
            children.append(item_plan(part, path + label, written, returns_new))
        else:
            flags = _WRITTEN if path + label in written else 0
            flags |= _STREAM if isinstance(part, StreamKind) else 0
            children.append(flags | (_READ if returns_new else 0))
    return tuple(children), tuple(constants)


def _mask(bits: Any) -> int:
    return sum(1 << position for position, bit in enumerate(bits) if bit)


def requested_signature(
    source: FunctionSource,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    is_call: bool = False,
) -> Signature:
    """The signature of a function for these arguments: those of a direct call, or examples.

    Raises:
        SignatureError: if none can be made from the arguments.
    """
    if len(arguments) == 1 and not keywords and isinstance(arguments[0], Signature):
        return arguments[0].checked_for(source.name, source.parameters)
    return infer_signature(
        source.name, source.parameters, arguments, keywords, has_addresses=is_call
    )
