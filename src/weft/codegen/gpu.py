# SPDX-License-Identifier: Apache-2.0
"""Kernels and launches of any GPU; a backend adds what its own machine says in other words.

In: simt.kernel, simt.launch_ex, simt.shared, simt.shuffle, simt.warp_reduce. Out: `define ptx_kernel void
@<name>(...)`, or the like, with parameters, a thread's place, fences and the way out; pointers are in the global
address space; what does not overlap is said of accesses. A launch is a call of `table->launch_device` with the kernel's
number, its launch structure and an array of pointers to its parameters, on the call's stream or the one that the launch
names. Shared memory is one dynamic buffer per block, an external array whose size the launch gives; so 48 kB is not a
limit. Shuffles exchange 32 bits, smaller values travel in one register, larger in two; a reduction is a butterfly of
them, or, where lanes may be missing, a tree over those that are there, which combines in the same order.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.function_printer import FunctionPrinter, TensorValue
from weft.codegen.llvm.types import FLOAT_NAMES, llvm_type, local_stem, quoted
from weft.codegen.operations.conversions import (
    as_native,
    from_f32,
    from_native,
    has_arithmetic,
    is_wide,
    to_f32,
)
from weft.codegen.operations.launch import (
    MAP,
    MAP_ALIGNMENT,
    MAP_BYTES,
    kernel_parameters,
    launched_kernel,
    print_launch_structure,
    print_parameter_buffer,
    print_return_on_failure,
    scratch_bytes,
    take_parameters,
)
from weft.codegen.runtime_abi import FRAME_STREAM, call_row, table_of_frame
from weft.dialects.builder import source_location
from weft.dialects.flow import is_reached_together, walk
from weft.dialects.simt.kernel import (
    DIM,
    MAX_LAUNCH_ATTRIBUTE_BYTES,
    POINTER,
    STRIDE,
    KernelOp,
    LaunchExOp,
    ReturnOp,
    kernel_of,
)
from weft.dialects.simt.memory import DynamicSharedOp, SharedOp
from weft.dialects.simt.threads import (
    BlockDimOp,
    BlockIdxOp,
    CoordinateOp,
    FenceOp,
    GridDimOp,
    ShuffleOp,
    ThreadIdxOp,
    WarpIdOp,
    WarpReduceOp,
)
from weft.dialects.simt.types import DYNAMIC, SWIZZLED_ALIGNMENT, TILE_ALIGNMENT
from weft.errors import REPORT_HINT, InternalCompilerError, ValueRangeError
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from xdsl.ir import Attribute, Operation

    from weft.codegen.llvm.module_printer import ModulePrinter
    from weft.codegen.operations.launch import KernelParameter


# The host checks a dim before it launches. Knowing it, LLVM multiplies indices as 32 x 32 to 64 bits.
_NOT_NEGATIVE: Final = {f"i{bits}": f"range(i{bits} 0, {-(1 << (bits - 1))})" for bits in (32, 64)}

# Copies read the launch's own parameter, which nothing changes.
_MAP: Final = f'ptr byval([{MAP_BYTES} x i8]) align {MAP_ALIGNMENT} "nvvm.grid_constant"'


def print_kernel(
    module: ModulePrinter,
    kernel: KernelOp,
    name: str,
    convention: str,
    attributes: Mapping[str, str],
    begin: Callable[[FunctionPrinter, KernelOp], None] | None = None,
) -> None:
    """Prints one kernel.

    Args:
        module: to print into.
        kernel: after all passes.
        name: its symbol in the machine code.
        convention: LLVM's calling convention of entries: ``"ptx_kernel"``.
        attributes: LLVM's, of the function: guarantees and requirements of a launch.
        begin: prints what comes before the kernel's own code, such as reads of `printer.coordinates`.
    """
    scope = module.debug.subprogram(kernel.sym_name.data, kernel.location) if module.debug else None
    printer = FunctionPrinter(module, scope)
    listed = _print_parameters(printer, kernel)
    for axis, size in zip("xyz", kernel.block_size or (), strict=False):
        printer.coordinates[f"block_dim.{axis}"] = str(size)
    if begin is not None:
        begin(printer, kernel)
    printer.exit_label = "exit"
    printer.print_block(kernel.body.block)
    said = "".join(f' "{key}"="{value}"' for key, value in attributes.items())
    module.add_function(
        f"define {convention} void @{name}({', '.join(listed)}) convergent nounwind{said}"
        f"{printer.scope_suffix()} {{\n{printer.body()}\n}}\n"
    )


def _stems(kernel: KernelOp) -> list[str]:
    """A name for each argument; items of one container are called alike, so the later ones get a number."""
    stems: dict[str, None] = {}
    for index, argument in enumerate(kernel.body.block.args):
        stem = local_stem(argument, f"a{index}")
        stems[f"{stem}.{index}" if stem in stems else stem] = None
    return list(stems)


def _print_parameters(printer: FunctionPrinter, kernel: KernelOp) -> list[str]:
    """The parameter list; gives parameters to the kernel's arguments."""
    stems = _stems(kernel)
    listed: list[str] = []
    names: list[str] = []
    for parameter in kernel_parameters(kernel):
        name, kind = f"%{stems[parameter.argument]}.{parameter.part}", parameter.llvm_type
        if parameter.part in (DIM, STRIDE):
            name = f"{name}{parameter.dimension}"
        if parameter.part == POINTER:
            kind = printer.module.target.pointer("global")
        elif parameter.part == DIM:
            kind = f"{kind} {_NOT_NEGATIVE[kind]}"
        elif parameter.part == MAP:
            kind = _MAP
        listed.append(f"{kind} {name}")
        names.append(name)
    take_parameters(printer, kernel, names)
    return listed


def coordinate(printer: FunctionPrinter, name: str, axis: str) -> str:
    """A register's value as an i32, or what `printer.coordinates` knows.

    Args:
        printer: where the read goes.
        name: ``"thread_idx"``, ``"block_idx"``, ``"block_dim"`` or ``"grid_dim"``.
        axis: ``"x"``, ``"y"`` or ``"z"``.
    """
    known = printer.coordinates.get(f"{name}.{axis}")
    if known is not None:
        return known
    callee = printer.module.intrinsic(f"{printer.module.target.coordinates[name]}.{axis}")
    return printer.let(f"call i32 {callee}()", f"{name}_{axis}")


def thread_number(printer: FunctionPrinter) -> str:
    """The thread's number in its block, x first, an i32; sizes that are known to be 1 cost nothing."""
    sizes = [coordinate(printer, "block_dim", axis) for axis in "xyz"]
    number = ""
    for axis in (2, 1, 0):
        scaled = ""
        if number:
            scaled = printer.let(f"mul i32 {number}, {sizes[axis]}")
        if sizes[axis] == "1":
            number = scaled
            continue
        index = coordinate(printer, "thread_idx", "xyz"[axis])
        number = printer.let(f"add i32 {scaled}, {index}") if scaled else index
    return number or "0"


def _print_coordinate(printer: FunctionPrinter, op: CoordinateOp) -> None:
    name = op.name.partition(".")[2]
    printer.values[op.results[0]] = coordinate(printer, name, op.dimension.data)


def _print_warp_id(printer: FunctionPrinter, op: Operation) -> None:
    shift = WARP_SIZE.bit_length() - 1
    printer.define(op.results[0], f"lshr i32 {thread_number(printer)}, {shift}")


def _print_fence(printer: FunctionPrinter, op: Any) -> None:
    scope = printer.module.target.sync_scopes[op.scope.data]
    printer.line(f'fence syncscope("{scope}") seq_cst' if scope else "fence seq_cst")


def _print_return(printer: FunctionPrinter, op: Operation) -> None:
    """All that has returned before comes here too, straight from where it did."""
    assert printer.exit_label is not None
    printer.branch(printer.exit_label)
    printer.start(printer.exit_label)
    printer.line("ret void")


KERNEL_OPERATIONS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ThreadIdxOp: _print_coordinate,
    BlockIdxOp: _print_coordinate,
    BlockDimOp: _print_coordinate,
    GridDimOp: _print_coordinate,
    WarpIdOp: _print_warp_id,
    FenceOp: _print_fence,
    ReturnOp: _print_return,
}


_GLOBAL_SCRATCH: Final = 0  # enum weft_scratch_kind
_SCRATCH_ALIGNMENT: Final = (
    256  # as all device memory, so that blocks of rounded sizes begin on cache lines
)


def _attribute_constant(printer: FunctionPrinter, attributes: Sequence[tuple[int, bytes]]) -> str:
    """An array of `weft_launch_attribute`."""
    if not attributes:
        return "null"
    padded = [
        (number, value.ljust(MAX_LAUNCH_ATTRIBUTE_BYTES, b"\0")) for number, value in attributes
    ]
    rows = ", ".join(
        f"{{ i32, i32, [64 x i8] }} {{ i32 {number}, i32 0, [64 x i8] c{quoted(value)} }}"
        for number, value in padded
    )
    return printer.module.add_global(
        f"private unnamed_addr constant [{len(attributes)} x {{ i32, i32, [64 x i8] }}] [{rows}], align 8",
        "attributes",
    )


def _scratch_arrays(
    kernel: KernelOp, parameters: Sequence[KernelParameter]
) -> list[tuple[int, int]]:
    """Each scratch array that is used: the parameter that is the pointer to it, and its bytes per block."""
    sizes = dict(zip(kernel.scratch_arguments, scratch_bytes(kernel), strict=True))
    arguments = kernel.body.block.args
    return [
        (index, sizes[arguments[parameter.argument]])
        for index, parameter in enumerate(parameters)
        if parameter.part == POINTER and sizes.get(arguments[parameter.argument])
    ]


def _scratch_constant(printer: FunctionPrinter, arrays: Sequence[tuple[int, int]]) -> str:
    """An array of `weft_scratch`; the runtime allocates each for all blocks and stores its address."""
    rows = ", ".join(
        f"{{ i64, i64, i32, i32 }} {{ i64 {size}, i64 {_SCRATCH_ALIGNMENT}, i32 {index}, i32 {_GLOBAL_SCRATCH} }}"
        for index, size in arrays
    )
    return printer.module.add_global(
        f"private unnamed_addr constant [{len(arrays)} x {{ i64, i64, i32, i32 }}] [{rows}], align 8",
        "scratch",
    )


def _print_launch(
    printer: FunctionPrinter, op: LaunchExOp, attributes: Sequence[tuple[int, bytes]]
) -> None:
    number, kernel = launched_kernel(op)
    buffer, parameters = print_parameter_buffer(
        printer, op, kernel, ["null"] * len(kernel.scratch_arguments)
    )
    pointers = "null"
    if parameters:
        pointers = printer.alloca(f"[{len(parameters)} x ptr]", 8, "pointers")
    for index, parameter in enumerate(parameters):
        value = printer.let(f"getelementptr i8, ptr {buffer}, i64 {parameter.offset_bytes}")
        slot = printer.let(f"getelementptr ptr, ptr {pointers}, i64 {index}")
        printer.line(f"store ptr {value}, ptr {slot}, align 8")
    constant = _attribute_constant(printer, attributes)
    launch = print_launch_structure(printer, op, constant, len(attributes))
    arrays = _scratch_arrays(kernel, parameters)
    row, operands = "launch_device", [f"ptr {pointers}"]
    if arrays:
        row = "launch_device_scratch"
        operands += [f"ptr {_scratch_constant(printer, arrays)}", f"i64 {len(arrays)}"]
    with _stream_of_launch(printer, op):
        code = call_row(
            printer,
            table_of_frame(printer),
            row,
            "ptr %frame",
            f"i32 {number}",
            f"ptr {launch}",
            *operands,
        )
    print_return_on_failure(printer, code)


@contextmanager
def _stream_of_launch(printer: FunctionPrinter, op: LaunchExOp) -> Generator[None]:
    """Puts a launch's own stream into the frame for the time of the call."""
    if op.stream is None:
        yield
        return
    slot = printer.let(f"getelementptr i8, ptr %frame, i64 {FRAME_STREAM}")
    before = printer.let(f"load ptr, ptr {slot}, align 8", "stream")
    printer.line(f"store ptr {printer.values[op.stream]}, ptr {slot}, align 8")
    yield
    printer.line(f"store ptr {before}, ptr {slot}, align 8")


def launch_rows(
    attributes: Callable[[LaunchExOp], Sequence[tuple[int, bytes]]],
) -> dict[type[Operation], Callable[[FunctionPrinter, Any], None]]:
    """The row of a launch.

    Args:
        attributes: (id, value of at most 64 bytes) of each attribute of a launch, as the driver takes it; raises for
            attributes that it does not support.
    """
    return {LaunchExOp: lambda printer, op: _print_launch(printer, op, attributes(op))}


# Alignment of the buffer → its name: `$` is legal in PTX, and no user's kernel is called so.
_BUFFERS: Final = {
    16: "weft$shared",
    TILE_ALIGNMENT: "weft$tiles",
    SWIZZLED_ALIGNMENT: "weft$swizzled",
}


def check_shared_memory(kernel: KernelOp, most: int, architecture: str) -> None:
    """Refuses a kernel whose own shared arrays no block of the architecture can have.

    Args:
        kernel: laid out.
        most: bytes that a block may have.
        architecture: its name, for the message.
    Raises:
        ValueRangeError: with both numbers.
    """
    bytes_needed = kernel.shared_memory_bytes
    if bytes_needed > most:
        raise ValueRangeError(
            "SHARED_TOO_LARGE",
            f"the shared arrays of '{kernel.sym_name.data}' take {bytes_needed} bytes; "
            f"a block has at most {most} on {architecture}",
            hint="use smaller tiles or fewer of them",
            location=source_location(kernel.location),
        )


def _at(printer: FunctionPrinter, op: Operation, offset: int) -> str:
    """A pointer into the buffer; it is as aligned as one of the kernel's arrays needs it."""
    target = printer.module.target
    kind = target.pointer("shared")
    arrays = [
        other for other in walk(kernel_of(op)) if isinstance(other, SharedOp | DynamicSharedOp)
    ]
    needed = max((array.result.type.alignment_bytes.data for array in arrays), default=1)
    alignment = next(each for each in _BUFFERS if each >= needed)
    definition = f"external {kind.removeprefix('ptr ')} global [0 x i8], align {alignment}"
    buffer = printer.module.declare_global(_BUFFERS[alignment], definition)
    if target.pointer_copy:
        copy = f"call align {alignment} {kind} {target.pointer_copy}({kind} {buffer})"
        buffer = printer.at_entry(copy, "buffer")
        advance = f"getelementptr i8, {kind} {buffer}, i64 {offset}"
        return printer.at_entry(advance, "shared") if offset else buffer
    return f"getelementptr (i8, {kind} {buffer}, i64 {offset})" if offset else buffer


def _print_shared(printer: FunctionPrinter, op: Any) -> None:
    offset = op.offset
    if offset is None:
        raise InternalCompilerError(
            "CODEGEN_SHARED", "a shared array was not laid out", hint=REPORT_HINT
        )
    pointer = _at(printer, op, offset.value.data)
    printer.tensors[op.results[0]] = TensorValue(op.results[0].type, pointer)


def _print_dynamic_shared(printer: FunctionPrinter, op: Any) -> None:
    tensor_type = op.results[0].type
    start = _at(printer, op, kernel_of(op).shared_memory_bytes)
    offset = printer.values[op.offset]
    pointer = start
    if offset != "0":
        buffer = f"{printer.module.target.pointer('shared')} {start}"
        pointer = printer.let(f"getelementptr i8, {buffer}, i64 {offset}", "dynamic")
    given = iter(op.dims)
    dims = [printer.values[next(given)] if dim == DYNAMIC else None for dim in tensor_type.dims]
    printer.tensors[op.results[0]] = TensorValue(tensor_type, pointer, dims)


SHARED: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    SharedOp: _print_shared,
    DynamicSharedOp: _print_dynamic_shared,
}


_EXTREMA: Final = {"min": "smin", "max": "smax", "umin": "umin", "umax": "umax"}
_STEPS: Final = (1, 2, 4, 8, 16)
_ALL_LANES: Final = "-1"
# LLVM type → integer of the same bits, for other types.
_BITS: Final = {"float": "i32", "double": "i64"}


class Warp(ABC):
    """One shuffle or reduction, in the words of one target.

    Attributes:
        printer: where instructions go.
        op: the operation.
        kind, mask, element, text, value: of it: which one, its lanes, and what this lane gives, with its types.
    """

    def __init__(self, printer: FunctionPrinter, op: Any) -> None:
        self.printer = printer
        self.op = op
        self.kind: str = op.kind.data
        self.mask = printer.values[op.mask]
        self.element: type[Attribute] = type(op.value.type)
        self.text = llvm_type(op.value.type)
        self.value = printer.values[op.value]

    @abstractmethod
    def exchange(self, kind: str, mask: str, register: str, lane: str, width: int) -> str:
        """Another lane's register; its own where there is no such lane in its group. All are i32.

        Args:
            kind: ``up``, ``down``, ``xor`` or ``idx``.
            mask: the lanes that take part.
            register: what this lane gives.
            lane: taken modulo 32.
            width: lanes of a group, a power of two.
        """

    @abstractmethod
    def present(self) -> str:
        """The lanes of the mask that are here, an i32."""

    @abstractmethod
    def lanes_after(self) -> str:
        """The lanes after this one, an i32."""

    def shuffled(
        self, kind: str, mask: str, text: str, value: str, lane: str, width: int = WARP_SIZE
    ) -> str:
        """Another lane's value of any scalar LLVM type; see `exchange`."""
        let, bits = self.printer.let, _BITS.get(text, text)
        if bits != text:
            value = let(f"bitcast {text} {value} to {bits}")
        if bits == "i64":
            parts = halves(self.printer, value)
        else:
            parts = (value if bits == "i32" else let(f"zext {bits} {value} to i32"),)
        parts = [self.exchange(kind, mask, part, lane, width) for part in parts]
        value = parts[0]
        if bits == "i64":
            value = joined(self.printer, *parts)
        elif bits != "i32":
            value = let(f"trunc i32 {value} to {bits}")
        return value if bits == text else let(f"bitcast {bits} {value} to {text}")

    def reduced(self) -> str:
        """Reduces; every lane of the mask gets the result."""
        if self.mask == _ALL_LANES and self._all_lanes_come():
            return self._butterfly()
        printer, here = self.printer, self.present()
        full, part, end = (printer.new_label(stem) for stem in ("full", "part", "reduced"))
        printer.branch_if(printer.let(f"icmp eq i32 {here}, -1"), full, part)
        arms: list[tuple[str, str]] = []
        for label, reduce in ((full, self._butterfly), (part, lambda: self._tree(here))):
            printer.start(label)
            arms.append((reduce(), printer.label))
            printer.branch(end)
        printer.start(end)
        return printer.phi(self.text, arms, "reduced")

    def _all_lanes_come(self) -> bool:
        """Whether no lane can be missing: full warps, and no branch around the operation that only some lanes take.

        A thread leaves a kernel at its end only, so that one that has returned early has taken a branch.
        """
        size = kernel_of(self.op).block_size
        is_full = size is not None and math.prod(size) % WARP_SIZE == 0
        return is_full and is_reached_together(self.op)

    def _butterfly(self) -> str:
        """Five butterfly exchanges: every lane gets the result."""
        value = self.value
        for step in _STEPS:
            other = self.shuffled("xor", _ALL_LANES, self.text, value, str(step))
            value = self._combined(value, other)
        return value

    def _tree(self, mask: str) -> str:
        """Each lane adds what lies 1, 2, 4, ... lanes of the mask after it; the first one gets it all.

        `following` is the lane that lies so far behind, 32 where there is none; it doubles its distance by
        asking that lane for its own. It agrees with the butterfly to the last bit.
        """
        let, text, value = self.printer.let, self.text, self.value
        following = self._first_lane(let(f"and i32 {mask}, {self.lanes_after()}"), "false")
        for step in _STEPS:
            exists = let(f"icmp ult i32 {following}, {WARP_SIZE}")
            both = self._combined(value, self.shuffled("idx", mask, text, value, following))
            value = let(f"select i1 {exists}, {text} {both}, {text} {value}")
            if step != _STEPS[-1]:
                doubled = self.exchange("idx", mask, following, following, WARP_SIZE)
                following = let(f"select i1 {exists}, i32 {doubled}, i32 {WARP_SIZE}")
        return self.shuffled("idx", mask, text, value, self._first_lane(mask, "true"))

    def _first_lane(self, mask: str, never_zero: str) -> str:
        """The lowest lane of a mask; 32 for a mask without lanes, unless that is said not to occur."""
        callee = self.printer.module.intrinsic("llvm.cttz", ".i32")
        return self.printer.let(f"call i32 {callee}(i32 {mask}, i1 {never_zero})")

    def _combined(self, left: str, right: str) -> str:
        """Combines two values; small floats are rounded after each step."""
        printer, kind, name = self.printer, self.kind, FLOAT_NAMES.get(self.element)
        if name is None:
            if kind in _EXTREMA:
                return printer.intrinsic(f"llvm.{_EXTREMA[kind]}", self.text, left, right)
            return printer.let(f"{kind} {self.text} {left}, {right}")
        if kind == "add" and has_arithmetic(printer, name):
            first = as_native(printer, left, name)
            second = as_native(printer, right, name).partition(" ")[2]
            return from_native(printer, f"fadd {first}, {second}", name)
        wide = "double" if name == "f64" else "float"
        if not is_wide(name):
            left, right = to_f32(printer, left, name), to_f32(printer, right, name)
        if kind == "add":
            result = printer.let(f"fadd {wide} {left}, {right}")
        else:
            result = printer.intrinsic(f"llvm.{kind}num", wide, left, right)
        return result if is_wide(name) else from_f32(printer, result, name)


def warp_rows(
    warp: type[Warp],
) -> dict[type[Operation], Callable[[FunctionPrinter, Any], None]]:
    """The rows of shuffles and reductions in one target's words."""

    def print_shuffle(printer: FunctionPrinter, op: Any) -> None:
        one, lane = warp(printer, op), printer.values[op.lane]
        printer.values[op.results[0]] = one.shuffled(
            one.kind, one.mask, one.text, one.value, lane, op.width.value.data
        )

    def print_reduction(printer: FunctionPrinter, op: Any) -> None:
        printer.values[op.results[0]] = warp(printer, op).reduced()

    return {ShuffleOp: print_shuffle, WarpReduceOp: print_reduction}


def halves(printer: FunctionPrinter, value: str) -> tuple[str, str]:
    """The low and the high 32 bits of an i64."""
    shifted = printer.let(f"lshr i64 {value}, 32")
    return printer.let(f"trunc i64 {value} to i32"), printer.let(f"trunc i64 {shifted} to i32")


def joined(printer: FunctionPrinter, low: str, high: str) -> str:
    """The i64 of two halves."""
    low_wide, high_wide = (printer.let(f"zext i32 {half} to i64") for half in (low, high))
    shifted = printer.let(f"shl i64 {high_wide}, 32")
    return printer.let(f"or i64 {shifted}, {low_wide}")
