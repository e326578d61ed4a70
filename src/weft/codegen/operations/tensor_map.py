# SPDX-License-Identifier: Apache-2.0
"""Tensor maps in host functions: a call of `table->make_tensor_map`.

In: nvgpu.make_tensor_map. Out: 128 bytes of stack memory, filled by the runtime; the host function is left where the
tensor allows no map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.function_printer import widened
from weft.codegen.operations.host_function import place_text
from weft.codegen.operations.kernel_parameters import MAP_ALIGNMENT, MAP_BYTES
from weft.codegen.operations.launch import print_return_on_failure
from weft.codegen.runtime_abi import call_row, table_of_frame
from weft.dialects.nvgpu.tensor_map import MOST_RANK, MakeTensorMapOp
from weft.driver.tensor_map import ELEMENTS, FILLS, L2_PROMOTIONS, SWIZZLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _site(printer: FunctionPrinter, op: MakeTensorMapOp) -> str:
    """A constant `weft_tensor_map_site`."""
    kind = op.result.type
    data_type, element_bytes = ELEMENTS[op.element.data]
    box = [*kind.piece, *[1] * (MOST_RANK - len(kind.box))]
    corners = [one.data for one in op.corners or ()]
    # The three numbers of each spatial dimension, all first ones first.
    spatial = [[*corners[place::3], 0, 0, 0][:3] for place in range(3)]
    numbers = [
        data_type,
        element_bytes,
        kind.rank,
        SWIZZLES[f"{kind.swizzle}B" if kind.swizzle else "none"],
        L2_PROMOTIONS[op.l2_promotion.data],
        FILLS[op.fill.data],
        *box,
        int(kind.is_im2col),
        *(number for numbers in spatial for number in numbers),
        0,
    ]
    texts = (printer.module.string(text) for text in (place_text(op), op.tensor.data))
    fields = [*(f"ptr {text}" for text in texts), *(f"i32 {number}" for number in numbers)]
    types = ", ".join(field.partition(" ")[0] for field in fields)
    return printer.module.add_global(
        f"private unnamed_addr constant {{ {types} }} {{ {', '.join(fields)} }}, align 8",
        "tensor_map",
    )


def _print_make_tensor_map(printer: FunctionPrinter, op: MakeTensorMapOp) -> None:
    tensor = printer.tensors[op.source]
    rank, bits = tensor.type.rank, tensor.type.dim_bits.data
    numbers = [widened(printer, tensor.dim(axis), bits, 64) for axis in range(rank)]
    numbers += [tensor.stride(printer, axis) for axis in range(rank)]
    slots = printer.alloca(f"[{2 * rank} x i64]", 8, "sizes")
    for index, number in enumerate(numbers):
        slot = printer.let(f"getelementptr i64, ptr {slots}, i64 {index}")
        printer.line(f"store i64 {number}, ptr {slot}, align 8")
    strides = printer.let(f"getelementptr i64, ptr {slots}, i64 {rank}")
    made = printer.alloca(f"[{MAP_BYTES} x i8]", MAP_ALIGNMENT, "map")
    code = call_row(
        printer,
        table_of_frame(printer),
        "make_tensor_map",
        "ptr %frame",
        f"ptr {_site(printer, op)}",
        f"ptr {tensor.pointer}",
        f"ptr {slots}",
        f"ptr {strides}",
        f"ptr {made}",
    )
    print_return_on_failure(printer, code)
    printer.values[op.result] = made


TENSOR_MAPS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    MakeTensorMapOp: _print_make_tensor_map,
}
