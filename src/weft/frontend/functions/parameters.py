# SPDX-License-Identifier: Apache-2.0
"""What a host function's parameters are inside it: one row per argument kind.

In: a signature. Out: the function's block arguments, and the value of each parameter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from weft.arguments.constant import ConstantKind
from weft.arguments.container import ContainerKind
from weft.arguments.none import NoneKind
from weft.arguments.pointer import PointerKind
from weft.arguments.scalar import ScalarKind
from weft.arguments.shape import ShapeKind
from weft.arguments.stream import EnvironmentStreamKind, StreamKind
from weft.arguments.tensor import TensorKind
from weft.dialects.printed_names import name_value
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.language.ir_types import ir_type_of
from weft.language.values import Scalar, Stream, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.ir import SSAValue

    from weft.arguments.base import ArgumentKind
    from weft.arguments.signature import Signature
    from weft.dialects.builder import Builder


_UNPRINTABLE: Final = re.compile(r"\W+")  # of a path such as `t[1].x`


def host_parameters(builder: Builder, signature: Signature) -> Iterator[tuple[str, Any]]:
    """Name and value of each parameter; adds the function's arguments."""
    for parameter in signature.parameters:
        yield parameter.name, _value(builder, parameter.kind, parameter.name)


def _value(builder: Builder, kind: ArgumentKind, path: str) -> Any:
    match kind:
        case TensorKind() | PointerKind():
            return Tensor(_argument(builder, kind, path), kind.dtype, path)
        case ScalarKind():
            return Scalar(_argument(builder, kind, path), kind.dtype)
        case StreamKind() | EnvironmentStreamKind():
            return Stream(_argument(builder, kind, path))
        case ShapeKind():
            return _shape(builder, kind, path)
        case ContainerKind():
            return kind.make([_value(builder, item, path + label) for label, item in kind.parts])
        case ConstantKind():
            return kind.value
        case NoneKind():
            return None
        case _:
            raise InternalCompilerError(
                "ARGUMENT_KIND", f"no meaning for the argument kind {kind!r}", hint=REPORT_HINT
            )


def _shape(builder: Builder, kind: ShapeKind, path: str) -> tuple[int | Scalar, ...]:
    """Ints where the signature demands them, else scalars."""
    sizes = {
        leaf.path: Scalar(_argument(builder, leaf.kind, leaf.path), leaf.kind.dtype)
        for leaf in kind.host_arguments(path)
        if isinstance(leaf.kind, ScalarKind)
    }
    return tuple(
        dim if isinstance(dim, int) else sizes[f"{path}[{index}]"]
        for index, dim in enumerate(kind.dims)
    )


def _argument(builder: Builder, kind: ArgumentKind, path: str) -> SSAValue:
    entry = builder.entry
    argument_type = ir_type_of(kind)
    assert argument_type is not None  # only kinds with run-time values come here
    argument = entry.insert_arg(argument_type, len(entry.args))
    name_value(argument, _UNPRINTABLE.sub("_", path).strip("_"))
    return argument
