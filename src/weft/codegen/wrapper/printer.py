# SPDX-License-Identifier: Apache-2.0
"""A wrapper function as it grows: its checks, its failing paths, what is known of its arguments.

In: conditions and sentences. Out: branches with weights, constant failure sites. Next: tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft import _native
from weft.codegen.function_printer import FunctionPrinter
from weft.codegen.runtime_abi import ROWS, call_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.codegen.module_printer import ModulePrinter
    from weft.dialects.ffi.arguments import DecodeOp
    from weft.dialects.ffi.checks import CheckDimOp, CheckStrideOp
    from weft.dialects.ffi.function import FuncOp

LIKELY: Final = ', !prof !{!"branch_weights", i32 2000, i32 1}'
UNLIKELY: Final = ', !prof !{!"branch_weights", i32 1, i32 2000}'

# Offsets in TVMFFIAny, in DLTensor, and of the DLTensor in a tensor object.
ANY_BYTES: Final = 16
ANY_VALUE: Final = 8
OBJECT_HEADER_BYTES: Final = 24

# TVMFFITypeIndex
NONE: Final = 0
INT: Final = 1
BOOL: Final = 2
FLOAT: Final = 3
OPAQUE_POINTER: Final = 4
DLTENSOR_POINTER: Final = 7
SHAPE_OBJECT: Final = 69
TENSOR: Final = 70
ARRAY: Final = 71
LIST: Final = 75
BIG_INT: Final = 78


# Labels of the shared ends.
_FAIL: Final = "fail"
_FAIL_ANY: Final = "fail_any"
_FAILED: Final = "failed"


class TensorArgument:
    """What the wrapper knows of one tensor so far; everything in it was computed on the straight path.

    Attributes:
        view: pointer to the DLTensor.
        argument: pointer to the TVMFFIAny.
        place: how messages call it.
        data: the pointer without byte_offset, once it was loaded.
        shape: pointer to the sizes, once the rank was checked.
        rank: as checked.
        dims: sizes (i64) by dimension.
        strides: strides (i64), once they are known.
    """

    __slots__ = ("argument", "data", "dims", "place", "rank", "shape", "strides", "view")

    def __init__(self, view: str, argument: str, place: str) -> None:
        self.view = view
        self.argument = argument
        self.place = place
        self.data = ""
        self.shape = ""
        self.rank = 0
        self.dims: dict[int, str] = {}
        self.strides: list[str] | None = None


class WrapperPrinter(FunctionPrinter):
    """A function printer that knows how a wrapper fails.

    Attributes:
        signature: name of the constant that holds the signature's text.
        state: pointer to the `weft_state` of this call.
        table: pointer to its runtime table.
        arguments: what is known of each decoded tensor or shape.
        arrays: pointer to the items of each decoded array.
        symbols: value (i64) of each bound symbol, and whether it has one (i1), None for always.
        results: where the host function stored each of its results.
        device_type: DLDeviceType that the function runs on.
    """

    __slots__ = (
        "_failures",
        "_failures_of",
        "_has_failing_call",
        "arguments",
        "arrays",
        "device_type",
        "results",
        "signature",
        "state",
        "symbols",
        "table",
    )

    def __init__(self, module: ModulePrinter, op: FuncOp, device_type: int) -> None:
        super().__init__(module)
        self.signature = module.string(op.signature.data)
        self.device_type = device_type
        self.state = ""
        self.table = ""
        self.arguments: dict[SSAValue, TensorArgument] = {}
        self.arrays: dict[SSAValue, str] = {}
        self.symbols: dict[SSAValue, tuple[str, str | None]] = {}
        self.results: dict[SSAValue, str] = {}
        # Where each failing check comes from, for the phis of the shared ends: values, then the label.
        self._failures: list[tuple[str, str, str, str]] = []
        self._failures_of: list[tuple[str, str, str]] = []
        self._has_failing_call = False

    def field(self, base: str, offset: int, kind: str, stem: str = "v") -> str:
        """Loads a field of a structure."""
        address = self.address(base, offset)
        return self.let(f"load {kind}, ptr {address}", stem)

    def address(self, base: str, offset: int) -> str:
        """The address of a field."""
        return base if offset == 0 else self.let(f"getelementptr i8, ptr {base}, i64 {offset}")

    def store(self, kind: str, value: str, base: str, offset: int = 0) -> None:
        """Stores a field of a structure."""
        self.line(f"store {kind} {value}, ptr {self.address(base, offset)}, align 8")

    def argument(self, op: DecodeOp) -> str:
        """The address of the TVMFFIAny that an operation decodes."""
        base = "%args" if op.within is None else self.arrays[op.within]
        return self.address(base, ANY_BYTES * op.position.value.data)

    def site(self, kind: str, place: str = "", expected: str = "", index: int = 0) -> str:
        """A constant `weft_failure_site`; `kind` is a name of `_native.FAILURE_KINDS`."""
        module = self.module
        texts = [module.string(text) if text else "null" for text in (place, expected)]
        number = _native.FAILURE_KINDS.index(kind)
        return module.add_global(
            "private unnamed_addr constant { ptr, ptr, ptr, i32, i32 } "
            f"{{ ptr {self.signature}, ptr {texts[0]}, ptr {texts[1]}, i32 {number}, i32 {index} }}, "
            "align 8",
            "site",
        )

    def call(self, row: str, *arguments: str) -> str:
        """Calls a function of the runtime table; `arguments` with their types."""
        return call_row(self, self.table, row, *arguments)

    def call_void(self, row: str, *arguments: str) -> None:
        """The same for a function that returns nothing."""
        offset, _ = ROWS[row]
        function = self.field(self.table, offset, "ptr", row)
        self.line(f"call void {function}({', '.join(arguments)})")

    def expected_by(self, op: CheckDimOp | CheckStrideOp) -> tuple[str, str, str | None]:
        """What a check compares with, how a message goes on behind it, and whether the symbol has a value (i1)."""
        if op.bound is None or op.expected is None:
            assert op.size is not None  # verified
            return str(op.size.value.data), "", None
        wanted, is_bound = self.symbols[op.expected]
        return wanted, f"to match {op.bound.source}", is_bound

    def require(self, condition: str, site: str, received: str, wanted: str = "0") -> None:
        """Goes on where the condition holds, else fails with two numbers (i64)."""
        self._failures.append((site, received, wanted, self.label))
        self._go_on_if(condition, _FAIL)

    def require_of(self, condition: str, site: str, argument: str) -> None:
        """Goes on where the condition holds, else fails with what the whole argument is."""
        self._failures_of.append((site, argument, self.label))
        self._go_on_if(condition, _FAIL_ANY)

    def require_success(self, code: str) -> None:
        """Goes on where a return code is 0, else returns -1: the error is set."""
        self._has_failing_call = True
        self._go_on_if(self.let(f"icmp eq i32 {code}, 0"), _FAILED)

    def return_if_only_checking(self) -> None:
        """Returns 0 where the caller gave a null pointer for the result."""
        checked, wanted = self.new_label("checked"), self.new_label("wanted")
        self.branch_if(self.let("icmp eq ptr %result, null"), checked, wanted, UNLIKELY)
        self.start(checked)
        self.line("ret i32 0")
        self.start(wanted)

    def _go_on_if(self, condition: str, failing: str) -> None:
        good = self.new_label("good")
        self.branch_if(condition, good, failing, LIKELY)
        self.start(good)

    def print_failures(self) -> None:
        """Ends the function: one place for all checks that fail in the same way.

        A call for each check would be most of the wrapper's code, and of the time it takes to compile.
        """
        if self._failures:
            self.start(_FAIL)
            sites, received, wanted, labels = zip(*self._failures, strict=True)
            arguments = [
                f"{kind} {self._where(kind, values, labels)}"
                for kind, values in (("ptr", sites), ("i64", received), ("i64", wanted))
            ]
            self.line(f"ret i32 {self.call('fail', *arguments)}")
        if self._failures_of:
            self.start(_FAIL_ANY)
            sites, received, labels = zip(*self._failures_of, strict=True)
            arguments = [
                f"ptr {self._where('ptr', values, labels)}" for values in (sites, received)
            ]
            self.line(f"ret i32 {self.call('fail_any', *arguments)}")
        if self._has_failing_call:
            self.start(_FAILED)
            self.line("ret i32 -1")

    def _where(self, kind: str, values: Sequence[str], labels: Sequence[str]) -> str:
        return self.phi(kind, list(zip(values, labels, strict=True)))

    def any_of(self, *conditions: str) -> str:
        """The disjunction of conditions."""
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.let(f"or i1 {result}, {condition}")
        return result
