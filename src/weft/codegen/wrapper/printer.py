# SPDX-License-Identifier: Apache-2.0
"""A wrapper function under construction: its checks, failing paths, facts about its arguments.

In: conditions and sentences. Out: branches with weights, constant failure sites.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from weft import _native
from weft.codegen.llvm.function_printer import LIKELY, UNLIKELY, FunctionPrinter
from weft.codegen.operations.host_function import flattened_types
from weft.codegen.runtime_abi import ROWS, call_row
from weft.dialects.ffi.function import DeviceGuardOp
from weft.dialects.simt.types import TensorType
from weft.ffi.abi import ANY_BYTES

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.module_printer import ModulePrinter
    from weft.dialects.ffi.checks import CheckDimOp, CheckStrideOp
    from weft.dialects.ffi.function import DecodeOp, FuncOp


_FAILED: Final = "failed"  # where a wrapper returns whose error is set
_FAILED_WITH_TENSORS: Final = "failed_with_tensors"  # the same, and its call may have made tensors
# Checks that share an end: LLVM joins their values one by one with all that are joined already.
_MOST_FAILURES: Final = 200


@dataclass(slots=True, eq=False, repr=False)
class TensorArgument:
    """Values of a tensor that the wrapper has computed so far, all on the straight path.

    Attributes:
        view: pointer to the DLTensor.
        argument: pointer to the TVMFFIAny.
        place: its name in messages.
        data: the pointer without byte_offset, once loaded.
        shape: pointer to the sizes, once the rank is checked.
        rank: as checked.
        dims: sizes (i64) by dimension.
        strides: strides (i64), once known.
    """

    view: str
    argument: str
    place: str
    data: str = ""
    shape: str = ""
    rank: int = 0
    dims: dict[int, str] = field(default_factory=dict[int, str])
    strides: list[str] | None = None


class _FailureEnds:
    """The shared ends of checks that fail in the same way.

    Attributes:
        groups: label of an end → for each check that goes there its values, with types, and the label of a block of its
            own, which joins them: in the check's block the straight path would copy them, since wrappers are not
            optimized.
    """

    def __init__(self, row: str) -> None:
        self._row = row
        self.groups: dict[str, list[tuple[list[tuple[str, str]], str]]] = {}

    def add(self, values: list[tuple[str, str]], origin: str) -> str:
        """The target of a check that fails with these values: its `origin`."""
        label = next(reversed(self.groups), "")
        if not label or len(self.groups[label]) == _MOST_FAILURES:
            label = f"{self._row}_{len(self.groups)}" if label else self._row
            self.groups[label] = []
        self.groups[label].append((values, origin))
        return origin


class WrapperPrinter(FunctionPrinter):
    """A function printer with a wrapper's failing paths.

    Attributes:
        signature: name of the constant with the signature's text.
        state: pointer to the `weft_state` of this call.
        table: pointer to its runtime table.
        arguments: facts about each decoded tensor or shape.
        arrays: pointer to the items of each decoded array.
        symbols: value (i64) of each bound symbol, and whether it is bound (i1); None: always.
        results: addresses of the host function's results.
        device_type: DLDeviceType that the function runs on.
        frame_of_tensors: the call's frame from where it may have made tensors, or empty.
    """

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
        # By the runtime table's row for the error.
        self._ends = {row: _FailureEnds(row) for row in ("fail", "fail_any")}
        self.frame_of_tensors = ""
        self._failing_calls: set[str] = set()
        # Memory for values until the call of the host function, in wrappers of many arguments.
        self._kept: dict[str, str] = {}

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
        """The expected value of a check, the end of its message, and whether the symbol is bound (i1)."""
        if op.bound is None or op.expected is None:
            assert op.size is not None  # verified
            return str(op.size.value.data), "", None
        wanted, is_bound = self.symbols[op.expected]
        return wanted, f"to match {op.bound.source}", is_bound

    def require(self, condition: str, site: str, received: str, wanted: str = "0") -> None:
        """Continues if the condition holds, else fails with two numbers (i64)."""
        values = [("ptr", site), ("i64", received), ("i64", wanted)]
        self._go_on_if(condition, self._ends["fail"].add(values, self.new_label("bad")))

    def require_of(self, condition: str, site: str, argument: str) -> None:
        """Continues if the condition holds, else fails with the whole argument."""
        values = [("ptr", site), ("ptr", argument)]
        self._go_on_if(condition, self._ends["fail_any"].add(values, self.new_label("bad")))

    def require_success(self, code: str) -> None:
        """Continues if a return code is 0, else returns -1 with the error set."""
        end = _FAILED_WITH_TENSORS if self.frame_of_tensors else _FAILED
        self._failing_calls.add(end)
        self._go_on_if(self.let(f"icmp eq i32 {code}, 0"), end)

    def release_tensors(self) -> None:
        """Drops the call's references to tensors that it has made."""
        if self.frame_of_tensors:
            self.call_void("release_tensors", f"ptr {self.frame_of_tensors}")

    def return_if_only_checking(self) -> None:
        """Returns 0 if the caller passed the complement of the count."""
        self._return_if(self.let("icmp slt i32 %count, 0"), "checked")

    def return_if_no_result_is_wanted(self) -> None:
        """Returns 0 if the caller passed a null pointer for the result."""
        self._return_if(self.let("icmp eq ptr %result, null"), "unwanted")

    def _return_if(self, condition: str, name: str) -> None:
        done, rest = self.new_label(name), self.new_label("rest")
        self.branch_if(condition, done, rest, UNLIKELY)
        self.start(done)
        self.release_tensors()
        self.line("ret i32 0")
        self.start(rest)

    def keep_for_call(self, operation: Operation) -> None:
        """Stores an operation's host values in memory until the call.

        LLVM's time grows with the square of the number of values that stay live across the wrapper.
        """
        for result in operation.results:
            if any(isinstance(use.operation, DeviceGuardOp) for use in result.uses):
                for kind, text in self.parts_of(result):
                    if text.startswith("%") and text not in self._kept:
                        slot = self._kept[text] = self.alloca(kind, 8, "kept")
                        self.line(f"store {kind} {text}, ptr {slot}, align 8")

    def parts_of(self, argument: SSAValue) -> list[tuple[str, str]]:
        """One argument for `codegen.host_function`, with types: pointer, dims, strides; or a number."""
        kinds = flattened_types(argument.type)
        if not isinstance(argument.type, TensorType):
            return [(kinds[0], self.values[argument])]
        tensor = self.tensors[argument]
        dims = [tensor.dim(index) for index in range(argument.type.rank)]
        return list(zip(kinds, [tensor.pointer, *dims, *map(str, tensor.strides)], strict=True))

    def for_call(self, argument: SSAValue) -> list[str]:
        """The same as operands of the call, read back from memory if stored."""
        found: list[str] = []
        for kind, text in self.parts_of(argument):
            slot = self._kept.get(text)
            value = text if slot is None else self.let(f"load {kind}, ptr {slot}, align 8")
            found.append(f"{kind} {value}")
        return found

    def _go_on_if(self, condition: str, failing: str) -> None:
        good = self.new_label("good")
        self.branch_if(condition, good, failing, LIKELY)
        self.start(good)

    def print_failures(self) -> None:
        """Ends the function: one shared end for all checks that fail in the same way.

        A call per check would dominate the wrapper's code and compile time.
        """
        for row, ends in self._ends.items():
            for label, failures in ends.groups.items():
                for _, origin in failures:
                    self.start(origin)
                    self.branch(label)
                self.start(label)
                arguments: list[str] = []
                for place, (kind, _) in enumerate(failures[0][0]):
                    incoming = [(values[place][1], origin) for values, origin in failures]
                    arguments.append(f"{kind} {self.phi(kind, incoming)}")
                self.line(f"ret i32 {self.call(row, *arguments)}")
        for label in sorted(self._failing_calls):
            self.start(label)
            if label == _FAILED_WITH_TENSORS:
                self.release_tensors()
            self.line("ret i32 -1")

    def any_of(self, *conditions: str) -> str:
        """The disjunction of conditions."""
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.let(f"or i1 {result}, {condition}")
        return result
