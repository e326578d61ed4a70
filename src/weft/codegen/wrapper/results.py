# SPDX-License-Identifier: Apache-2.0
"""Results of a wrapper: numbers, tuples, arguments.

In: ffi.return. Out: the caller's TVMFFIAny filled, owning its references; a failing step leaks none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DictionaryAttr

from weft.codegen.llvm.names import local_stem
from weft.codegen.llvm.types import memory_type
from weft.codegen.wrapper.scalars import dlpack_bits
from weft.dialects.ffi.function import argument_numbers, tuple_items
from weft.ffi.abi import ANY_BYTES, ANY_VALUE, TypeIndex
from weft.types.dtype import dtype_named, u64

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Attribute, SSAValue

    from weft.codegen.wrapper.printer import WrapperPrinter
    from weft.dialects.ffi.function import ReturnOp
    from weft.types.dtype import DType


class _Return:
    """One `ffi.return` being printed.

    Attributes:
        open_arrays: arrays being filled, with the number of values they own, which a failure drops.
    """

    def __init__(self, printer: WrapperPrinter, op: ReturnOp) -> None:
        self.printer = printer
        self.op = op
        self.open_arrays: list[tuple[str, int]] = []

    def store(self, tree: Attribute | None, result: str) -> None:
        """Makes the value described by `tree` in the TVMFFIAny at `result`."""
        items = tuple_items(tree)
        if items is not None:
            self._store_tuple(items, result)
        elif not isinstance(tree, DictionaryAttr):
            self._set(result, TypeIndex.NONE, "i64", "0")
        elif numbers := argument_numbers(tree):
            self._store_argument(numbers, self._value(tree), result)
        else:
            ssa = self._value(tree)
            assert ssa is not None
            self._store_scalar(ssa, dtype_named(_text(tree.data["dtype"])), result)

    def _value(self, tree: DictionaryAttr) -> SSAValue | None:
        """The host function's result that a description names, if any."""
        number: Any = tree.data.get("value")  # an IntegerAttr
        return None if number is None else self.op.values[number.value.data]  # pyright: ignore[reportUnknownVariableType]

    def _set(self, result: str, type_index: int, kind: str, value: str) -> None:
        # Type index and padding in one word.
        self.printer.store("i64", str(type_index), result)
        self.printer.store(kind, value, result, ANY_VALUE)

    def _store_tuple(self, items: tuple[Any, ...], result: str) -> None:
        printer = self.printer
        values = printer.alloca(f"[{max(len(items), 1) * ANY_BYTES} x i8]", 8, "items")
        for index, item in enumerate(items):
            self.open_arrays.append((values, index))
            self.store(item, printer.address(values, ANY_BYTES * index))
            self.open_arrays.pop()
        code = printer.call("make_array", f"ptr {values}", f"i64 {len(items)}", f"ptr {result}")
        self._require_success(code)

    def _store_argument(
        self, numbers: Mapping[str, int], chosen: SSAValue | None, result: str
    ) -> None:
        """An argument; of several, the one of the number `chosen`."""
        printer = self.printer
        site = argument = ""
        number = chosen and printer.let(f"load i32, ptr {printer.results[chosen]}", "chosen")
        for name, own in numbers.items():
            tensor = next(
                passed
                for ssa in self.op.tensors
                if (passed := printer.arguments[ssa]).place.endswith(f"'{name}'")
            )
            own_site = printer.site("returned_view", tensor.place)
            if not site:
                site, argument = own_site, tensor.argument
                continue
            is_own = printer.let(f"icmp eq i32 {number}, {own}")
            site = printer.let(f"select i1 {is_own}, ptr {own_site}, ptr {site}")
            argument = printer.let(f"select i1 {is_own}, ptr {tensor.argument}, ptr {argument}")
        code = printer.call("return_argument", f"ptr {site}", f"ptr {argument}", f"ptr {result}")
        self._require_success(code)

    def _store_scalar(self, ssa: SSAValue, dtype: DType, result: str) -> None:
        printer = self.printer
        slot, kind = printer.results[ssa], memory_type(ssa.type)
        if dtype.is_float and dtype.bits < 32:
            kind = f"i{dtype.bits}"  # bits for the runtime to widen
        value = printer.let(f"load {kind}, ptr {slot}", local_stem(ssa, "result"))
        if dtype.is_float:
            self._set(result, TypeIndex.FLOAT, "double", self._widened(value, dtype))
        elif dtype is u64:
            code = printer.call("make_u64", f"i64 {value}", f"ptr {result}")
            self._require_success(code)
        else:
            if dtype.bits < 64:
                extend = "sext" if dtype.is_signed else "zext"
                value = printer.let(f"{extend} {kind} {value} to i64")
            self._set(result, TypeIndex.BOOL if dtype.is_bool else TypeIndex.INT, "i64", value)

    def _widened(self, value: str, dtype: DType) -> str:
        printer = self.printer
        if dtype.bits == 64:
            return value
        if dtype.bits == 32:
            return printer.let(f"fpext float {value} to double")
        wide = printer.let(f"zext i{dtype.bits} {value} to i64")
        return printer.call("widen_float", f"i32 {dlpack_bits(dtype)}", f"i64 {wide}")

    def _require_success(self, code: str) -> None:
        """Continues at 0; else drops everything made so far and fails."""
        printer = self.printer
        owned = [(values, count) for values, count in self.open_arrays if count > 0]
        if not owned:
            printer.require_success(code)
            return
        condition = printer.let(f"icmp eq i32 {code}, 0")
        good, bad = printer.new_label("good"), printer.new_label("bad")
        printer.branch_if(condition, good, bad)
        printer.start(bad)
        for values, count in owned:
            printer.call_void("release_values", f"ptr {values}", f"i64 {count}")
        printer.line("ret i32 -1")
        printer.start(good)


def _text(attribute: Any) -> str:
    return attribute.data


def print_return(printer: WrapperPrinter, op: ReturnOp) -> None:
    """`ffi.return`; nothing is made for a caller that passed no place for it."""
    printer.return_if_no_result_is_wanted()
    _Return(printer, op).store(op.result, "%result")
    printer.line("ret i32 0")
