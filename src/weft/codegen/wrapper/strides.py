# SPDX-License-Identifier: Apache-2.0
"""Strides of a wrapper's tensors: null means contiguous; strides that reach no element are ignored.

In: ffi operations on strides. Out: the strides (i64, in elements), checked against the signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.codegen.wrapper.printer import LIKELY, UNLIKELY, TensorArgument, WrapperPrinter
from weft.ffi.abi import DLTENSOR_STRIDES
from weft.types.layout import CONTIGUOUS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.dialects.ffi.checks import BindStrideOp, CheckLayoutOp, CheckStrideOp


def contiguous_strides(printer: WrapperPrinter, dims: Sequence[str]) -> list[str]:
    """The strides of a row-major tensor without gaps."""
    strides: list[str] = []
    stride = "1"
    for dim in reversed(dims):
        strides.append(stride)
        if len(strides) < len(dims):
            stride = dim if stride == "1" else printer.let(f"mul i64 {stride}, {dim}")
    return strides[::-1]


def _dims(tensor: TensorArgument) -> list[str]:
    """All sizes; dims are checked before strides."""
    return [tensor.dims[index] for index in range(tensor.rank)]


def _load(printer: WrapperPrinter, pointer: str, rank: int) -> list[str]:
    return [printer.field(pointer, 8 * index, "i64", "stride") for index in range(rank)]


def strides_of(printer: WrapperPrinter, tensor: TensorArgument, dims: Sequence[str]) -> list[str]:
    """The given strides, or those of a contiguous tensor if the pointer is null."""
    if tensor.strides is None:
        if tensor.rank == 0:
            tensor.strides = []
            return tensor.strides
        derived = contiguous_strides(printer, dims)
        pointer = printer.field(tensor.view, DLTENSOR_STRIDES, "ptr", "strides")
        is_null = printer.let(f"icmp eq ptr {pointer}, null")
        before = printer.label
        given, known = printer.new_label("given"), printer.new_label("known")
        printer.branch_if(is_null, known, given, UNLIKELY)
        printer.start(given)
        loaded = _load(printer, pointer, tensor.rank)
        printer.branch(known)
        printer.start(known)
        tensor.strides = [
            printer.phi("i64", [(own, before), (stride, given)], "stride")
            for own, stride in zip(derived, loaded, strict=True)
        ]
    return tensor.strides


def _no_elements(printer: WrapperPrinter, dims: Sequence[str]) -> str:
    return printer.any_of(*(printer.let(f"icmp eq i64 {dim}, 0") for dim in dims))


def print_check_layout(printer: WrapperPrinter, op: CheckLayoutOp) -> None:
    """`ffi.check_layout`."""
    tensor = printer.arguments[op.tensor]
    layout = op.layout.data
    if tensor.rank == 0:
        return
    tail = (
        f"for layout {layout} of {op.text.data}; compile with such a tensor, or annotate "
        "the layout 'strided'"
    )
    if layout == CONTIGUOUS:
        _check_contiguous(printer, tensor, tail)
        return
    last = tensor.rank - 1
    dims = _dims(tensor)
    stride = strides_of(printer, tensor, dims)[last]
    is_one = printer.let(f"icmp eq i64 {stride}, 1")
    slow, done = printer.new_label("slow"), printer.new_label("done")
    printer.branch_if(is_one, done, slow, LIKELY)
    printer.start(slow)
    _require_stride(printer, tensor, last, is_one, stride, "1", tail)
    printer.branch(done)
    printer.start(done)


def _require_stride(
    printer: WrapperPrinter,
    tensor: TensorArgument,
    index: int,
    is_equal: str,
    stride: str,
    wanted: str,
    tail: str,
) -> None:
    """Fails if a stride differs and reaches elements. Off the straight path."""
    dims = _dims(tensor)
    is_single = printer.let(f"icmp eq i64 {dims[index]}, 1")
    condition = printer.any_of(is_equal, is_single, _no_elements(printer, dims))
    site = printer.site("stride_value", tensor.place, tail, index)
    printer.require(condition, site, stride, wanted)


def _check_contiguous(printer: WrapperPrinter, tensor: TensorArgument, tail: str) -> None:
    """One branch if all strides match; checked one by one only if they do not."""
    derived = contiguous_strides(printer, _dims(tensor))
    pointer = printer.field(tensor.view, DLTENSOR_STRIDES, "ptr", "strides")
    is_null = printer.let(f"icmp eq ptr {pointer}, null")
    given, slow, done = (printer.new_label(stem) for stem in ("given", "slow", "done"))
    printer.branch_if(is_null, done, given, UNLIKELY)
    printer.start(given)
    strides = _load(printer, pointer, tensor.rank)
    equal = [
        printer.let(f"icmp eq i64 {stride}, {wanted}")
        for stride, wanted in zip(strides, derived, strict=True)
    ]
    all_equal = equal[0]
    for one in equal[1:]:
        all_equal = printer.let(f"and i1 {all_equal}, {one}")
    printer.branch_if(all_equal, done, slow, LIKELY)
    printer.start(slow)
    for index, stride in enumerate(strides):
        _require_stride(printer, tensor, index, equal[index], stride, derived[index], tail)
    printer.branch(done)
    printer.start(done)
    tensor.strides = derived


def _counts(printer: WrapperPrinter, tensor: TensorArgument, index: int) -> str:
    """Whether a stride reaches elements (i1)."""
    dims = _dims(tensor)
    is_single = printer.let(f"icmp eq i64 {dims[index]}, 1")
    unused = printer.any_of(is_single, _no_elements(printer, dims))
    return printer.let(f"xor i1 {unused}, true")


def print_bind_stride(printer: WrapperPrinter, op: BindStrideOp) -> None:
    """`ffi.bind_stride`: range and divisibility, if the stride reaches elements."""
    tensor = printer.arguments[op.tensor]
    stride = strides_of(printer, tensor, _dims(tensor))[op.index]
    counts = _counts(printer, tensor, op.index)
    ignored = printer.let(f"xor i1 {counts}, true")
    if op.width.value.data == 32:
        narrow = printer.let(f"trunc i64 {stride} to i32")
        wide = printer.let(f"sext i32 {narrow} to i64")
        fits = printer.any_of(printer.let(f"icmp eq i64 {wide}, {stride}"), ignored)
        tail = "(32 bits; weft.sym(..., width=64) allows more)"
        site = printer.site("stride_range", tensor.place, tail, op.index)
        printer.require(fits, site, stride)
    divisor = op.divisibility.value.data
    if divisor > 1:
        rest = printer.let(f"srem i64 {stride}, {divisor}")
        divides = printer.any_of(printer.let(f"icmp eq i64 {rest}, 0"), ignored)
        site = printer.site("stride_divisibility", tensor.place, index=op.index)
        printer.require(divides, site, stride, str(divisor))
    printer.symbols[op.result] = (stride, counts)


def print_check_stride(printer: WrapperPrinter, op: CheckStrideOp) -> None:
    """`ffi.check_stride`: a constant, or the value of a symbol, if the stride reaches elements."""
    tensor = printer.arguments[op.tensor]
    stride = strides_of(printer, tensor, _dims(tensor))[op.index]
    counts = _counts(printer, tensor, op.index)
    wanted, tail, is_bound = printer.expected_by(op)
    condition = printer.any_of(
        printer.let(f"icmp eq i64 {stride}, {wanted}"), printer.let(f"xor i1 {counts}, true")
    )
    if is_bound is not None:
        condition = printer.any_of(condition, printer.let(f"xor i1 {is_bound}, true"))
    site = printer.site("stride_value", tensor.place, tail, op.index)
    printer.require(condition, site, stride, wanted)
    if is_bound is not None and op.expected is not None:
        # If the first mention was ignored, this one gives the value.
        value = printer.let(f"select i1 {is_bound}, i64 {wanted}, i64 {stride}")
        printer.symbols[op.expected] = (value, printer.any_of(is_bound, counts))
