# SPDX-License-Identifier: Apache-2.0
"""A thread that can wait: an LLVM function that is a coroutine, with its sites and its slot.

In: sites where the thread suspends. Out: stores into the slot (native/include/weft/cpu_cooperative.h), a
suspension, the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import i32

from weft import _native
from weft.codegen.check_texts import places_text
from weft.codegen.llvm.debug_info import source_position
from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.llvm.types import FLOAT_NAMES, llvm_type, size_in_bytes
from weft.dialects.builder import source_location
from weft.location import UNKNOWN_LOCATION
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

    from weft.codegen.llvm.module_printer import ModulePrinter

# enum weft_thread_state
READY: Final = 0
BARRIER: Final = 1
COLLECTIVE: Final = 2
GRID: Final = 3
EXITED: Final = 4
FAILED: Final = 5
WARPGROUP: Final = 6
MBARRIER: Final = 7
NAMED: Final = 8
CLUSTER: Final = 9
DEPENDENCY: Final = 10

_OPERATIONS: Final = {name: code for code, name in enumerate(_native.COOPERATIVE_OPERATIONS)}
# enum weft_value_type; integers are named by their width.
_VALUE_TYPES: Final = {"f16": 1, "bf16": 2, "f32": 3, "f64": 4}

SITE: Final = "{ ptr, i32, i32, i32, i32, ptr, ptr, ptr }"  # weft_cooperative_site
# Offsets in weft_thread_slot.
_SITE, _MASK, _LANE, _VALUE, _RESULT = 4, 8, 12, 16, 24

_FLOAT_BITS: Final = {"float": "i32", "double": "i64"}


class CoroutinePrinter(FunctionPrinter):
    """Prints the body of a thread's coroutine. `%slot` is its slot.

    Attributes:
        sites: LLVM text of each `weft_cooperative_site`, in order of their indices.
        tells_places: whether sites have all that a report of the sanitizer says of a place.
    """

    def __init__(self, module: ModulePrinter, scope: int | None = None) -> None:
        super().__init__(module, scope)
        self.sites: list[str] = []
        self.tells_places = False

    def add_site(
        self,
        operation: str,
        location: Attribute,
        width: int = WARP_SIZE,
        value_type: Attribute = i32,
        barrier: str = "",
    ) -> int:
        """Adds a site where the thread suspends; returns its index.

        Args:
            operation: a name of `_native.COOPERATIVE_OPERATIONS`.
            location: of the operation, for messages.
            width: of a shuffle.
            value_type: of a reduction's values.
            barrier: the name of the one that is meant.
        """
        position = source_position(location)
        place = f"{position.filename.data}:{position.line.data}" if position else ""
        name = FLOAT_NAMES.get(type(value_type))
        kind = _VALUE_TYPES[name] if name else 8 * size_in_bytes(llvm_type(value_type))
        text = self.module.string(place)
        texts = [barrier, "", ""]
        if self.tells_places:
            found = source_location(location) or UNKNOWN_LOCATION
            texts[1:] = found.excerpt(), places_text(found)
        strings = ", ".join(f"ptr {self.module.string(one)}" for one in texts)
        self.sites.append(
            f"{SITE} {{ ptr {text}, i32 {_OPERATIONS[operation]}, i32 {width}, i32 {kind}, i32 0, {strings} }}"
        )
        return len(self.sites) - 1

    def suspend(self, state: int, site: int) -> None:
        """Suspends the thread until it is resumed; another one runs."""
        self._store("i32", str(state), 0)
        self._store("i32", str(site), _SITE)
        where = self.let("call i8 @llvm.coro.suspend(token none, i1 false)")
        resumed = self.new_label("resumed")
        self.line(
            f"switch i8 {where}, label %suspended [i8 0, label %{resumed} i8 1, label %suspended]"
        )
        self.start(resumed)

    def post(
        self,
        value: SSAValue | None = None,
        mask: str = "",
        lane: str = "",
        pointer: str = "",
        array: str = "",
    ) -> None:
        """Writes values for the scheduler: a value's bits or an address, the mask, the lane; its array's address."""
        if value is not None:
            self._store("i64", self._bits(value), _VALUE)
        if pointer:
            self._store("i64", self.let(f"ptrtoint ptr {pointer} to i64"), _VALUE)
        if array:
            self._store("i64", self.let(f"ptrtoint ptr {array} to i64"), _RESULT)
        if mask:
            self._store("i32", mask, _MASK)
        if lane:
            self._store("i32", lane, _LANE)

    def answer(self, result: SSAValue) -> None:
        """Defines `result` as the scheduler's answer."""
        address = self.let(f"getelementptr i8, ptr %slot, i64 {_RESULT}")
        bits = self.let(f"load i64, ptr {address}, align 8")
        text = llvm_type(result.type)
        if text == "i1":
            self.define(result, f"icmp ne i64 {bits}, 0")
        elif text == "i64":
            self.values[result] = bits
        elif text in _FLOAT_BITS:
            integer = _FLOAT_BITS[text]
            cut = bits if integer == "i64" else self.let(f"trunc i64 {bits} to {integer}")
            self.define(result, f"bitcast {integer} {cut} to {text}")
        else:
            self.define(result, f"trunc i64 {bits} to {text}")

    def _bits(self, value: SSAValue) -> str:
        text, name = llvm_type(value.type), self.values[value]
        if text in _FLOAT_BITS:
            integer = _FLOAT_BITS[text]
            name, text = self.let(f"bitcast {text} {name} to {integer}"), integer
        return name if text == "i64" else self.let(f"zext {text} {name} to i64")

    def _store(self, kind: str, text: str, offset: int) -> None:
        address = "%slot" if offset == 0 else self.let(f"getelementptr i8, ptr %slot, i64 {offset}")
        self.line(f"store {kind} {text}, ptr {address}, align {8 if kind == 'i64' else 4}")
