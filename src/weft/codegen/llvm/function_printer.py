# SPDX-License-Identifier: Apache-2.0
"""One LLVM function under construction: instructions, basic blocks, SSA names, tensors.

In: blocks of operations, each printed by the table of its module printer. Out: the function's text. Every printer of an
operation works with it.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from weft.blame import is_of_a_handler
from weft.codegen.llvm.module_printer import unprintable, unprinted
from weft.codegen.llvm.types import (
    divided,
    fragment_chunks,
    fragment_registers,
    llvm_type,
    local_stem,
    memory_type,
    plus,
    shifted,
    swizzled,
    times,
    widened,
)
from weft.dialects.simt.fragment import FragmentType
from weft.dialects.simt.types import DYNAMIC, TensorType, packed_bits
from weft.errors import REPORT_HINT, InternalCompilerError, WeftError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from xdsl.ir import Attribute, Block, Operation, SSAValue

    from weft.codegen.llvm.module_printer import ModulePrinter

    OperationPrinter = Callable[["FunctionPrinter", Operation], None]


# The metadata of a branch: how often it goes the first way.
LIKELY: Final = ', !prof !{!"branch_weights", i32 2000, i32 1}'
UNLIKELY: Final = ', !prof !{!"branch_weights", i32 1, i32 2000}'


class FunctionPrinter:
    """Prints the body of one function, from its entry block on.

    Attributes:
        module: provides constants, library functions and metadata.
        values: LLVM text of each scalar: a name such as `%i.3`, or a constant.
        tensors: pointer, dims and strides of each tensor.
        fragments: what `fragment_parts` lists, of each fragment.
        pairs: by an operation the pair that one instruction does, for a target that has such instructions.
        coordinates: the thread's coordinates, such as `thread_idx.x`, on targets where loops define them.
        label: the basic block of the next instruction, without `%`.
        numbers_arguments: whether control flow carries which argument a tensor is.
        failure_label: target of a failed assertion in a kernel, or None.
        end_label: target of a thread that the sanitizer ends while others go on, or None.
        exit_label: target of a thread that has returned; None if it goes through the end of the enclosing code.

    Example:
        a row for `arith.addi` would be::

            def print_add(printer: FunctionPrinter, op: Operation) -> None:
                lhs, rhs = op.operands
                printer.define(op.results[0], f"add i32 {printer.value(lhs)}, {printer.value(rhs)}")
    """

    __slots__ = (
        "_allocas",
        "_at_entry",
        "_counter",
        "_lines",
        "_location",
        "_operations",
        "_scope",
        "_suffix",
        "_unplaced",
        "coordinates",
        "end_label",
        "exit_label",
        "failure_label",
        "fragments",
        "label",
        "module",
        "numbers_arguments",
        "pairs",
        "tensors",
        "values",
    )

    def __init__(self, module: ModulePrinter, scope: int | None = None) -> None:
        self.module = module
        self.values: dict[SSAValue, str] = {}
        self.tensors: dict[SSAValue, TensorValue] = {}
        self.fragments: dict[SSAValue, list[str]] = {}
        self.pairs: dict[Operation, Any] = {}
        self.coordinates: dict[str, str] = {}
        self.numbers_arguments = False
        self.label = "entry"
        self.failure_label: str | None = None
        self.end_label: str | None = None
        self.exit_label: str | None = None
        self._operations: Mapping[type[Operation], OperationPrinter] = module.operations
        self._lines: list[str] = []
        self._allocas: list[str] = []
        self._at_entry: dict[str, str] = {}
        self._counter = 0
        self._scope = scope
        self._location: Attribute | None = None
        self._unplaced = (
            module.debug.function_suffix(scope) if module.debug and scope is not None else ""
        )
        self._suffix = self._unplaced

    # ---- values

    def value(self, ssa: SSAValue) -> str:
        """The text of a scalar."""
        return self.values[ssa]

    def typed(self, ssa: SSAValue) -> str:
        """A scalar with its type, as an argument of an instruction: `i32 %n`."""
        return f"{llvm_type(ssa.type)} {self.values[ssa]}"

    def tensor(self, ssa: SSAValue) -> TensorValue:
        """A tensor's pointer, dims and strides."""
        return self.tensors[ssa]

    def parts(self, values: Iterable[SSAValue]) -> list[str]:
        """Values carried from block to block: each scalar's text, each tensor's and fragment's parts."""
        return [part for ssa in values for part in self._parts(ssa)]

    def _parts(self, ssa: SSAValue) -> Sequence[str]:
        if isinstance(ssa.type, TensorType):
            tensor = self.tensors[ssa]
            return [*tensor.parts, tensor.number] if self.numbers_arguments else tensor.parts
        found = self.fragments.get(ssa)
        return (self.values[ssa],) if found is None else found

    def fragment_parts(self, kind: FragmentType) -> list[str]:
        """The LLVM types of a fragment's parts: on a GPU its registers; else vectors.

        Vectors follow the wgmma in flight, 0 for none, which only fragments of `wgmma` have.
        """
        if self.module.target.coordinates:
            text, count = fragment_registers(kind)
            return [text] * count
        handle = ["i64"] if kind.unit.data == "wgmma" else []
        return handle + [text for _, text in fragment_chunks(kind)]

    def part_types(self, values: Iterable[SSAValue]) -> list[tuple[str, str]]:
        """The LLVM types of the parts of values, each with the stem of its name."""
        found: list[tuple[str, str]] = []
        for ssa in values:
            kind, stem = ssa.type, local_stem(ssa)
            if isinstance(kind, TensorType):
                found.append((self.module.target.pointer(kind.space.data), stem))
                found += [(f"i{kind.dim_bits.data}", stem)] * kind.dims.count(DYNAMIC)
                found += [("i64", stem)] * kind.open_strides
                found += [("i32", stem)] * self.numbers_arguments
            elif isinstance(kind, FragmentType):
                found += [(text, stem) for text in self.fragment_parts(kind)]
            else:
                found.append((llvm_type(kind), stem))
        return found

    def take(self, values: Iterable[SSAValue], parts: Iterable[str]) -> None:
        """Gives values their parts."""
        remaining = iter(parts)
        for ssa in values:
            if isinstance(ssa.type, TensorType):
                self.tensors[ssa] = TensorValue.of(ssa.type, remaining)
                if self.numbers_arguments:
                    self.tensors[ssa].number = next(remaining)
            elif isinstance(ssa.type, FragmentType):
                count = len(self.fragment_parts(ssa.type))
                self.fragments[ssa] = list(islice(remaining, count))
            else:
                self.values[ssa] = next(remaining)

    # ---- instructions

    def line(self, instruction: str) -> None:
        """Adds an instruction without a result."""
        self._lines.append(f"  {instruction}{self._suffix}")

    def let(self, expression: str, stem: str = "v") -> str:
        """Adds an instruction and returns the name of its result."""
        self._counter = number = self._counter + 1
        name = f"%{stem}.{number}"
        self._lines.append(f"  {name} = {expression}{self._suffix}")
        return name

    def define(self, ssa: SSAValue, expression: str) -> None:
        """Adds the instruction that computes `ssa`."""
        self._counter = number = self._counter + 1
        name = f"%{local_stem(ssa)}.{number}"
        self._lines.append(f"  {name} = {expression}{self._suffix}")
        self.values[ssa] = name

    def fresh(self, stem: str = "v") -> str:
        """A new name for the value of a later instruction."""
        self._counter += 1
        return f"%{stem}.{self._counter}"

    def reserve(self) -> int:
        """Reserves a place for later instructions (phis); `fill` adds them."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, place: int, instructions: list[str]) -> None:
        """Adds instructions without results, or with given names, at a reserved place."""
        self._lines[place] = "\n".join(f"  {text}{self._suffix}" for text in instructions)

    def is_convergent_since(self, place: int) -> bool:
        """Whether an instruction after a reserved place is one that threads execute together."""
        return any(" convergent" in line for line in self._lines[place:])

    def at_entry(self, expression: str, stem: str) -> str:
        """The result of an instruction at the function's entry, which stands there once; its operands do, too."""
        name = self._at_entry.get(expression)
        if name is None:
            self._counter += 1
            name = self._at_entry[expression] = f"%{stem}.{self._counter}"
            self._allocas.append(f"  {name} = {expression}")
        return name

    def alloca(self, allocated_type: str, alignment: int, stem: str = "slot") -> str:
        """Memory on the stack, made once at the function's entry; returns the name of the pointer, into `local`."""
        self._counter += 1
        name = f"%{stem}.{self._counter}"
        space = self.module.target.pointer("local")[3:].replace(" ", ", ", 1)
        self._allocas.append(f"  {name} = alloca {allocated_type}, align {alignment}{space}")
        return name

    def intrinsic(self, name: str, result_type: str, *arguments: str) -> str:
        """Calls an LLVM intrinsic overloaded by its result type, which its arguments share."""
        suffix = _SUFFIXES.get(result_type, result_type)
        callee = self.module.intrinsic(name, f".{suffix}")
        listed = ", ".join(f"{result_type} {argument}" for argument in arguments)
        return self.let(f"call {result_type} {callee}({listed})")

    def call_library(self, name: str, result_type: str, *arguments: str) -> str:
        """Calls a function of weft's library; `arguments` carry their types: `float %x`."""
        callee = self.module.library(name)
        return self.let(f"call {result_type} {callee}({', '.join(arguments)})")

    # ---- basic blocks

    def new_label(self, stem: str) -> str:
        """A unique label."""
        self._counter += 1
        return f"{stem}.{self._counter}"

    def start(self, label: str) -> None:
        """Begins a basic block; the previous one must have its branch."""
        self._lines.append(f"{label}:")
        self.label = label

    def branch(self, label: str, hint: str = "") -> None:
        """Ends the basic block: goes to `label`."""
        self._lines.append(f"  br label %{label}{hint}{self._suffix}")

    def branch_if(self, condition: str, then_label: str, else_label: str, hint: str = "") -> None:
        """Ends the basic block: goes one way or the other."""
        self._lines.append(
            f"  br i1 {condition}, label %{then_label}, label %{else_label}{hint}{self._suffix}"
        )

    def phi(self, value_type: str, incoming: list[tuple[str, str]], stem: str = "v") -> str:
        """A value that depends on the predecessor: (value, label) pairs."""
        listed = ", ".join(f"[ {value}, %{label} ]" for value, label in incoming)
        return self.let(f"phi {value_type} {listed}", stem)

    # ---- operations

    def place(self, location: Attribute | None) -> None:
        """Sets the location of the following instructions; None: the function as a whole."""
        debug = self.module.debug
        self._location = location
        if debug is None or self._scope is None:
            return
        if location is None:
            self._suffix = self._unplaced
        else:
            self._suffix = debug.suffix(location, self._scope, self._unplaced)

    def print_block(self, block: Block) -> None:
        """Prints every operation of a block; its terminator too if the table has a row for it."""
        operations = self._operations
        for operation in block.ops:
            location = operation.location
            if location is not self._location:
                self.place(location)
            row = operations.get(type(operation))
            if row is None:
                raise unprintable(operation, self.module.target)
            try:
                row(self, operation)
            except WeftError:
                raise
            except Exception as error:
                if is_of_a_handler(error):
                    raise
                raise unprinted(operation, error) from error

    def print_operation(self, operation: Operation) -> None:
        """Prints one operation."""
        if operation.location is not self._location:
            self.place(operation.location)
        row = self._operations.get(type(operation))
        if row is None:
            raise unprintable(operation, self.module.target)
        row(self, operation)

    def body(self, prologue: str = "") -> str:
        """The function's instructions, with its stack memory first; starts with the entry label.

        Args:
            prologue: lines between the stack memory and everything else.
        """
        first = [prologue] if prologue else []
        return "\n".join(["entry:", *self._allocas, *first, *self._lines])

    def scope_suffix(self) -> str:
        """The suffix of a function's attributes: ` !dbg !5`, or nothing."""
        return f" !dbg !{self._scope}" if self.module.debug and self._scope is not None else ""


_SUFFIXES = {"float": "f32", "double": "f64", "ptr": "p0"}


class TensorValue:
    """Pointer, dims and strides of one tensor in LLVM text.

    Attributes:
        type: the tensor's type.
        dims: per dimension a constant or a name, as wide as the type's `dims`; None if not passed.
        strides: per dimension a name (i64, in elements); None if not passed or derived from dims.
        number: of the host function's argument that it is, i32; poison for any other tensor.
        is_place: whether the pointer points into its memory; an advanced one may not.
    """

    __slots__ = ("_pointer", "dims", "is_place", "number", "strides", "type")

    def __init__(
        self,
        tensor_type: TensorType,
        pointer: str | None,
        dims: Sequence[str | None] = (),
        strides: Sequence[str | None] = (),
        *,
        is_place: bool = True,
    ) -> None:
        rank = tensor_type.rank
        self.type = tensor_type
        self.is_place = is_place
        self.number = "poison"
        self._pointer = pointer
        known = [str(dim) if dim != DYNAMIC else None for dim in tensor_type.dims]
        self.dims = [text or given for text, given in zip(known, dims or known, strict=True)]
        self.strides = [*strides, *[None] * (rank - len(strides))]

    @classmethod
    def of(cls, tensor_type: TensorType, parts: Iterator[str]) -> TensorValue:
        """The tensor with these `parts`."""
        pointer = next(parts)
        dims = [next(parts) if dim == DYNAMIC else None for dim in tensor_type.dims]
        return cls(tensor_type, pointer, dims, list(islice(parts, tensor_type.open_strides)))

    @property
    def parts(self) -> list[str]:
        """The pointer, and the dims and strides that the type leaves open; poison where unused and so not passed."""
        dims = [text for text, dim in zip(self.dims, self.type.dims, strict=True) if dim == DYNAMIC]
        strides = self.strides[: self.type.open_strides]
        return [text or "poison" for text in (self._pointer, *dims, *strides)]

    @property
    def pointer(self) -> str:
        """Name of the data pointer; its type is the target's pointer into the tensor's space."""
        if self._pointer is None:
            raise _not_passed("the pointer")
        return self._pointer

    def dim(self, dimension: int) -> str:
        """A dimension as an integer of the type's `dims` width."""
        text = self.dims[dimension]
        if text is None:
            raise _not_passed(f"dimension {dimension}")
        return text

    def stride(self, printer: FunctionPrinter, dimension: int) -> str:
        """A stride in elements, i64: as passed, or computed from the following dims."""
        text = self.strides[dimension]
        if text is not None:
            return text
        layout, rank = self.type.layout.data, self.type.rank
        if layout != "strided" and dimension == rank - 1:
            return "1"
        if layout != "contiguous":
            raise _not_passed(f"stride {dimension}")
        static = 1
        result = ""
        for following in range(dimension + 1, rank):
            constant = self.type.dims[following]
            if constant != DYNAMIC:
                static *= constant
                continue
            dim = widened(printer, self.dim(following), self.type.dim_bits.data, 64)
            result = printer.let(f"mul nsw i64 {result}, {dim}") if result else dim
        if not result:
            return str(static)
        return result if static == 1 else printer.let(f"mul nsw i64 {result}, {static}")

    def address(self, printer: FunctionPrinter, indices: Sequence[SSAValue]) -> str:
        """The name of a pointer to an element; of a swizzled array to where the element lies."""
        linear = self.linear_address(printer, indices)
        swizzle = self.type.swizzle_atoms
        if swizzle is None:
            return linear
        return swizzled(
            printer, linear, swizzle.mask, printer.module.target.pointer(self.type.space.data)
        )

    def linear_address(self, printer: FunctionPrinter, indices: Sequence[SSAValue]) -> str:
        """The name of a pointer to an element, before the chunks of a swizzled array are exchanged.

        Offsets are computed in the type's `offsets` width. They cannot overflow for an existing element, so the
        arithmetic carries `nsw`; between places that need not exist they may.
        """
        if not indices:
            return self.pointer
        bits = self.type.offset_bits.data
        texts = [
            widened(printer, printer.values[index], index.type.width.data, bits)  # pyright: ignore
            for index in indices
        ]
        layout = self.type.layout.data
        if layout == "contiguous":
            offset = self._contiguous_offset(printer, texts, bits)
        elif layout == "swizzled":
            offset = self._atom_offset(printer, texts, bits)
        else:
            offset = self._strided_offset(printer, texts, bits)
        if offset == "0":
            return self.pointer
        element = memory_type(self.type.element_type)
        packed = packed_bits(self.type.element_type)
        if packed:  # the place of a part, which begins with a byte
            element, scale = "i8", math.gcd(packed, 8)
            offset = times(printer, offset, str(packed // scale), f"i{bits}")
            offset = shifted(printer, offset, 8 // scale, bits)
        pointer = printer.module.target.pointer(self.type.space.data)
        inside = " inbounds" if self.is_place else ""
        return printer.let(
            f"getelementptr{inside} {element}, {pointer} {self.pointer}, i{bits} {offset}", "at"
        )

    def _atom_offset(self, printer: FunctionPrinter, indices: list[str], bits: int) -> str:
        """The leading dims' offset, then those of the column of atoms, the row, and the column in the atom."""
        kind, swizzle = self._offset_kind(bits), self.type.swizzle_atoms
        assert swizzle is not None
        *leading, row, column = indices
        columns = self.type.dims[-1]
        if swizzle.is_transposed.data:
            row, column, columns = column, row, self.type.dims[-2]
        width = self.type.atom_columns
        offset = "0"
        for dimension, index in enumerate(leading):
            stride = str(self.type.static_stride(dimension))
            offset = plus(printer, offset, times(printer, index, stride, kind), kind)
        if columns > width:
            atom, column = divided(printer, column, width, bits)
            offset = plus(
                printer, offset, times(printer, atom, str(swizzle.atom_stride.data), kind), kind
            )
        offset = plus(printer, offset, times(printer, row, str(width), kind), kind)
        return plus(printer, offset, column, kind)

    def _contiguous_offset(self, printer: FunctionPrinter, indices: list[str], bits: int) -> str:
        offset, kind = indices[0], self._offset_kind(bits)
        for dimension in range(1, len(indices)):
            if offset != "0":
                dim = widened(printer, self.dim(dimension), self.type.dim_bits.data, bits)
                offset = times(printer, offset, dim, kind)
            offset = plus(printer, offset, indices[dimension], kind)
        return offset

    def _strided_offset(self, printer: FunctionPrinter, indices: list[str], bits: int) -> str:
        offset, kind = "0", self._offset_kind(bits)
        for dimension, index in enumerate(indices):
            if index == "0":
                continue
            stride = widened(printer, self.stride(printer, dimension), 64, bits)
            offset = plus(printer, offset, times(printer, index, stride, kind), kind)
        return offset

    def _offset_kind(self, bits: int) -> str:
        """An offset's type, with the overflow flags of its arithmetic."""
        return f"nsw i{bits}" if self.is_place else f"i{bits}"


def _not_passed(what: str) -> InternalCompilerError:
    return InternalCompilerError(
        "CODEGEN_PARAMETER", f"{what} of a tensor was not passed", hint=REPORT_HINT
    )
