# SPDX-License-Identifier: Apache-2.0
"""What a host function's parameters are inside it: one row per argument kind.

In: a signature. Out: the function's block arguments, and the value of each parameter. Next: trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.arguments.constant import ConstantKind
from weft.arguments.none import NoneKind
from weft.arguments.scalar import ScalarKind
from weft.arguments.stream import EnvironmentStreamKind, StreamKind
from weft.arguments.tensor import TensorKind
from weft.dialects.cuda.types import StreamType
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.frontend.printed_names import name_value
from weft.language.ir_types import ir_type_of
from weft.language.values import Scalar, Stream, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.ir import SSAValue

    from weft.arguments.base import ArgumentKind
    from weft.arguments.signature import Parameter, Signature
    from weft.dialects.builder import Builder


def host_parameters(
    builder: Builder, signature: Signature, tensors: list[Tensor]
) -> Iterator[tuple[str, Any]]:
    """Name and value of each parameter; adds the function's arguments, and notes its tensors in `tensors`."""
    for parameter in signature.parameters:
        value = _value(builder, parameter)
        if isinstance(value, Tensor):
            tensors.append(value)
        yield parameter.name, value


def _value(builder: Builder, parameter: Parameter) -> Any:
    kind, name = parameter.kind, parameter.name
    match kind:
        case TensorKind():
            return Tensor(_argument(builder, kind, name), kind.dtype, name)
        case ScalarKind():
            return Scalar(_argument(builder, kind, name), kind.dtype)
        case StreamKind() | EnvironmentStreamKind():
            return Stream(_argument(builder, kind, name))
        case ConstantKind():
            return kind.value
        case NoneKind():
            return None
        case _:
            raise InternalCompilerError(
                "ARGUMENT_KIND", f"no meaning for the argument kind {kind!r}", hint=REPORT_HINT
            )


def _argument(builder: Builder, kind: ArgumentKind, name: str) -> SSAValue:
    entry = builder.entry
    # The environment's stream has no type as an argument of a call, but the host function takes it.
    argument_type = ir_type_of(kind) or StreamType()
    argument = entry.insert_arg(argument_type, len(entry.args))
    name_value(argument, name)
    return argument
