# SPDX-License-Identifier: Apache-2.0
"""The mutable state of a trace: where operations go, and which source line they come from.

In: operations, the user's names and texts. Out: operations inserted and located; constants once per function; names
and texts as the IR can print them.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import TYPE_CHECKING, Final, TypeVar, cast

from xdsl.dialects import arith
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FloatAttr,
    FusedLoc,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Block, Operation, SSAValue

from weft.location import UNKNOWN_LOCATION, SourceLocation

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable

    from xdsl.dialects.builtin import AnyFloat
    from xdsl.ir import Attribute


_NUMBERS: Final = re.compile(r"(_\d+)+$")


def name_value(value: SSAValue[Attribute], name: str) -> None:
    """Gives a value the name of a variable.

    Constants are shared and get none, as do names with letters that the IR's syntax lacks.
    """
    # The printer numbers equal names itself; xDSL strips a trailing number, and letters that its lexer does not read.
    name = _NUMBERS.sub("", name)
    if name.isascii() and SSAValue.is_valid_name(name) and not isinstance(value.owner, ConstantOp):
        value.name_hint = name


ELEMENT_TYPE: Final = "weft.element_type"
"""Attribute of an operation on memory: weft's name of the elements' type, which has a sign; where someone asked."""
SIGNED: Final = "weft.signed"
"""Attribute of an `arith` operation on signed integers, where someone asked for it."""

OperationT = TypeVar("OperationT", bound=Operation)

_NO_LOCATION: Final = UnknownLoc()


class Builder:
    """Inserts operations at the end of a block, with the current source location.

    One builder serves one function (a kernel, a host function): constants, and operations that depend on its arguments
    alone, are shared and stand at the start of the entry block, which dominates every use.

    Attributes:
        block: where the next operation goes.
        location: the user's source span that the next operation comes from.
        cluster: the blocks of a cluster along x, y and z, in a kernel that is launched in clusters.
        loops: how many loops at run time are around the next operation.
        marks_signed: whether sums, differences and products of signed integers get the attribute `SIGNED`.
        divisors: a value, or a tensor's dim or stride → its divisors, each with the operation after which it is one, or
            None for the whole function, and for which sign (`weft.language.numbers.promises`).
        architecture: of the target, such as ``"sm_90a"``; ``"cpu"``.
        element_types: where threads are traced, weft's names of tensors' element types, which operations on them get as
            the attribute `ELEMENT_TYPE`; else None.
    """

    __slots__ = (
        "_attributes",
        "_constants",
        "_enclosing",
        "_entry",
        "_last_in_entry",
        "_shared",
        "architecture",
        "block",
        "cluster",
        "divisors",
        "element_types",
        "location",
        "loops",
        "marks_signed",
    )

    def __init__(self, entry: Block, cluster: tuple[int, ...] | None = None) -> None:
        self.block = entry
        self.architecture = "cpu"
        self.cluster = cluster
        self.loops = 0
        self.marks_signed = False
        self.element_types: dict[SSAValue, str] | None = None
        self.divisors: dict[Hashable, list[tuple[Operation | None, int, bool | None]]] = {}
        self.location: SourceLocation = UNKNOWN_LOCATION
        self._enclosing: list[Block] = []
        self._entry = entry
        self._constants: dict[tuple[Attribute, int | float | str], SSAValue] = {}
        self._shared: dict[Hashable, Operation] = {}
        self._last_in_entry: Operation | None = None
        self._attributes: dict[SourceLocation, Attribute] = {UNKNOWN_LOCATION: _NO_LOCATION}

    def emit(self, operation: OperationT, name: str | None = None) -> OperationT:
        """Inserts the operation and returns it; `name` becomes its result's name in printed IR."""
        operation.location = self.location_attribute()  # pyright: ignore[reportAttributeAccessIssue]
        self.block.add_op(operation)
        if name is not None:
            name_value(operation.results[0], name)
        if self.element_types:
            self._note_element_type(operation, self.element_types)
        return operation

    def _note_element_type(self, operation: Operation, known: dict[SSAValue, str]) -> None:
        found = next((known[value] for value in operation.operands if value in known), None)
        if found is not None:
            operation.attributes[ELEMENT_TYPE] = StringAttr(found)

    def compute(
        self, kind: type[Operation], *operands: SSAValue, to: Attribute | None = None
    ) -> SSAValue:
        """The result of an `arith` operation without properties, of its first operand's type unless one is given.

        Its class's own constructor, which sorts operands of all forms, takes twice as long.
        """
        made = kind.create(operands=operands, result_types=(to or operands[0].type,))
        return self.emit(made).results[0]

    def constant(self, constant_type: Attribute, value: int | float) -> SSAValue:
        """An `arith.constant`, one per type and value in the function.

        Integers are given as signed or unsigned values of the type's width and wrap to it.
        """
        # repr tells 0.0 from -0.0, and makes NaN equal to itself.
        key = (constant_type, repr(float(value)) if isinstance(value, float) else value)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self._new_constant(constant_type, value)
        return found

    def _new_constant(self, constant_type: Attribute, value: int | float) -> SSAValue:
        if isinstance(constant_type, IntegerType):
            attribute = _integer(int(value), cast("IntegerType", constant_type))
            operation = arith.ConstantOp(attribute)
        else:
            number = FloatAttr(float(value), cast("AnyFloat", constant_type))
            operation = arith.ConstantOp(number)
        return self._insert_in_entry(operation).result

    def entry_operation(
        self, operation: OperationT, name: str | None = None, *, key: Hashable = None
    ) -> OperationT:
        """Inserts the operation at the start of the entry block, so that its results can be used anywhere.

        Its operands must be arguments of the entry block, or results of operations inserted this way.

        Args:
            operation: to insert; dropped if the key is known.
            name: of its result in printed IR.
            key: with a key there is one operation per function: a later call with an equal key returns it.
        """
        if key is not None:
            found = self._shared.get(key)
            if found is not None:
                return found  # pyright: ignore[reportReturnType]
            self._shared[key] = operation
        operation.location = self.location_attribute()  # pyright: ignore[reportAttributeAccessIssue]
        if name is not None:
            name_value(operation.results[0], name)
        return self._insert_in_entry(operation)

    def shared_operation(self, key: Hashable) -> Operation | None:
        """The operation that `entry_operation` inserted under that key, or None; asking first saves creating it."""
        return self._shared.get(key)

    def roll_back(self, last: Operation | None) -> None:
        """Erases the current block's operations after `last`, or all of them for None.

        Shared operations stay, even those requested after `last`: they stand first in the entry block, and later code
        may use them.
        """
        while (operation := self.block.last_op) is not None:
            if operation is last or operation is self._last_in_entry:
                return
            self.block.detach_op(operation)
            operation.drop_all_references()

    @property
    def entry(self) -> Block:
        """The function's first block."""
        return self._entry

    def _insert_in_entry(self, operation: OperationT) -> OperationT:
        if self._last_in_entry is not None:
            self._entry.insert_op_after(operation, self._last_in_entry)
        elif self._entry.first_op is not None:
            self._entry.insert_op_before(operation, self._entry.first_op)
        else:
            self._entry.add_op(operation)
        self._last_in_entry = operation
        return operation

    @contextlib.contextmanager
    def at(self, block: Block) -> Generator[None]:
        """Inside the `with`, operations go to the end of `block`."""
        previous, self.block = self.block, block
        self._enclosing.append(previous)
        try:
            yield
        finally:
            self.block = self._enclosing.pop()

    def is_after(self, operation: Operation | None) -> bool:
        """Whether the next operation runs only after this one, which was emitted before; True for None.

        It does if the operation is still in the block where the next one goes, or in one around it.
        """
        if operation is None:
            return True
        block = operation.parent
        return block is not None and (block is self.block or block in self._enclosing)

    def location_attribute(self) -> Attribute:
        """The current location as IR: a file position, or a chain of call sites for inlined code."""
        return self._attribute_of(self.location)

    def _attribute_of(self, location: SourceLocation) -> Attribute:
        found = self._attributes.get(location)
        if found is None:
            found = _span(
                location.file,
                location.line,
                location.column,
                location.end_line,
                location.end_column,
                location.function,
            )
            if location.caller is not None:
                found = CallSiteLoc(found, self._attribute_of(location.caller))
            self._attributes[location] = found
        return found


@functools.lru_cache(4096)
def _integer(value: int, kind: IntegerType) -> IntegerAttr[IntegerType]:
    return IntegerAttr(value, kind, truncate_bits=True)


# Code that is inlined many times has the same places each time.
@functools.lru_cache(4096)
def _span(
    file: str, line: int, column: int, end_line: int, end_column: int, function: str
) -> Attribute:
    place: Attribute = _position(file, line, column)
    if (end_line, end_column) != (line, column + 1):
        place = FusedLoc((place, _position(file, end_line, end_column)), NoneAttr())
    return NameLoc(StringAttr(function), place) if function else place


def _position(file: str, line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column + 1))


def constant_integer(value: SSAValue) -> int | None:
    """The value of an integer constant of the IR; None for any other value."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def source_location(attribute: Attribute) -> SourceLocation | None:
    """The place in a user's file named by an operation's location, for errors found in the IR.

    Example:
        >>> source_location(FileLineColLoc(StringAttr("saxpy.py"), IntAttr(9), IntAttr(5)))
        SourceLocation(saxpy.py:9:4)
    """
    if isinstance(attribute, CallSiteLoc):
        found, caller = source_location(attribute.callee), source_location(attribute.caller)
        if found is None:
            return caller
        found.caller = caller
        return found
    if isinstance(attribute, NameLoc):
        found = source_location(attribute.location)
        if found is not None:
            found.function = attribute.desc.data
        return found
    if isinstance(attribute, FusedLoc):
        ends = [source_location(part) for part in cast("ArrayAttr[Attribute]", attribute.locations)]
        found, end = ends[0], ends[-1]
        if found is not None and end is not None:
            found.end_line, found.end_column = end.line, end.column
        return found
    if isinstance(attribute, FileLineColLoc):
        return SourceLocation(
            attribute.filename.data, attribute.line.data, attribute.column.data - 1
        )
    return None
