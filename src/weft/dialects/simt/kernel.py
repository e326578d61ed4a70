# SPDX-License-Identifier: Apache-2.0
"""Kernels and their launches: `simt.kernel`, `simt.return`, `simt.launch_ex`.

In: a traced kernel body, a launch in a host function. Out: the operations that every backend starts from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import (
    I1,
    I32,
    I64,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition
from weft.dialects.simt.types import DYNAMIC, StreamType, TensorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
    from xdsl.parser import AttrParser, Parser
    from xdsl.printer import Printer


PROFILE_NAME: Final = "profile"
"""The name of the argument for a launch's records."""

SHARED_MEMORY_ALIGNMENT: Final = 16
"""Alignment in bytes of a kernel's part of shared memory, after which the launch's own bytes begin."""

MAX_LAUNCH_ATTRIBUTE_BYTES: Final = 64
"""Bytes of a `CUlaunchAttributeValue`."""

POINTER: Final = "pointer"
DIM: Final = "dim"
STRIDE: Final = "stride"

PARTS: Final = "weft.parts"
"""Attribute of a kernel's tensor argument: the parts passed to machine code, such as ``{pointer, dims = array<i32: 1>,
strides = array<i32: 0>}``. Without it, all parts that the type leaves open."""

RESTRICTED: Final = "weft.restrict"
"""Attribute of a kernel's tensor argument: its memory is written through it alone, or by nothing. Also of accesses:
the numbers of the restricted arguments that one may reach."""

DISTINCT: Final = "weft.distinct"
"""Attribute of accesses: the numbers of the restricted arguments whose memory one never reaches."""

CONSTANT: Final = "weft.constant"
"""Attribute of loads: the elements do not change while the kernel runs."""

_KERNEL_NAMES = ("sym_name", "function_type", "arg_attrs")


@irdl_attr_definition
class LaunchAttributeAttr(ParametrizedAttribute):
    """`#simt.launch_attribute<9, "ff00">`: a constant launch attribute in the driver's form.

    Parameters: the attribute's number in the driver, and the bytes of its value, printed as hexadecimal digits and
    padded with zeros to `MAX_LAUNCH_ATTRIBUTE_BYTES`.
    """

    name = "simt.launch_attribute"

    number: IntAttr
    value: BytesAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            number = parser.parse_integer()
            parser.parse_punctuation(",")
            digits = parser.parse_str_literal()
        try:
            value = bytes.fromhex(digits)
        except ValueError:
            parser.raise_error(f"expected hexadecimal digits, received {digits!r}")
        return [IntAttr(number), BytesAttr(value)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f'{self.number.data}, "{self.value.data.hex()}"')

    def verify(self) -> None:
        if len(self.value.data) > MAX_LAUNCH_ATTRIBUTE_BYTES:
            raise VerifyException(
                f"a launch attribute has at most {MAX_LAUNCH_ATTRIBUTE_BYTES} bytes, "
                f"received {len(self.value.data)}"
            )


@operation_definition
class KernelOp(IRDLOperation):
    """A kernel: the code of one thread.

    Arguments are `!simt.tensor` in the global space and scalars; `arg_attrs` holds each one's source name
    as `weft.name`. Launch bounds, requirements and allocations are properties, absent if not given; accessors without
    `_attr` return Python integers.

    Properties:
        max_threads, min_blocks, max_registers: from the user: most threads per block, least blocks per multiprocessor,
            most registers per thread.
        fp_contract: whether `a * b + c` is fused; if absent, the options decide.
        math: ``"fast"`` or ``"portable"`` functions; if absent, the options decide.
        cluster: blocks per cluster, along x, y and z.
        block_size: threads along x, y and z, if every launch has the same constant block.
        shared_memory_bytes: of the kernel's own shared arrays, a multiple of `SHARED_MEMORY_ALIGNMENT`; set by their
            layout.
        scratch_arguments: the numbers of the arguments that are scratch arrays, which launches allocate.
        profile_argument: the number of the argument for a launch's records.
    """

    name = "simt.kernel"

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    max_threads_attr = opt_prop_def(IntegerAttr[I32], prop_name="max_threads")
    min_blocks_attr = opt_prop_def(IntegerAttr[I32], prop_name="min_blocks")
    max_registers_attr = opt_prop_def(IntegerAttr[I32], prop_name="max_registers")
    fp_contract_attr = opt_prop_def(IntegerAttr[I1], prop_name="fp_contract")
    math_attr = opt_prop_def(StringAttr, prop_name="math")
    cluster_attr = opt_prop_def(DenseArrayBase.constr(i32), prop_name="cluster")
    block_size_attr = opt_prop_def(DenseArrayBase.constr(i32), prop_name="block_size")
    shared_memory_bytes_attr = opt_prop_def(IntegerAttr[I64], prop_name="shared_memory_bytes")
    scratch_arguments_attr = opt_prop_def(DenseArrayBase.constr(i32), prop_name="scratch_arguments")
    profile_argument_attr = opt_prop_def(IntegerAttr[I32], prop_name="profile_argument")
    body = region_def()

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        body: Region,
        argument_names: Sequence[str] = (),
        properties: Mapping[str, Attribute] | None = None,
    ) -> None:
        types = [argument.type for argument in body.block.args]
        names = [DictionaryAttr({"weft.name": StringAttr(n)}) for n in argument_names]
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(types, []),
                "arg_attrs": ArrayAttr(names) if names else None,
                **(properties or {}),
            },
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name, inputs, outputs, region, extra, arg_attrs, _ = parse_func_op_like(
            parser, reserved_attr_names=_KERNEL_NAMES
        )
        kernel = cls(name, region)
        kernel.function_type = FunctionType.from_lists(inputs, outputs)
        kernel.arg_attrs = arg_attrs
        properties = cls.get_irdl_definition().properties
        for key, value in extra.data.items() if extra is not None else ():
            (kernel.properties if key in properties else kernel.attributes)[key] = value
        return kernel

    def print(self, printer: Printer) -> None:
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            {**self.properties, **self.attributes},
            arg_attrs=self.arg_attrs,
            reserved_attr_names=_KERNEL_NAMES,
        )

    @property
    def max_threads(self) -> int | None:
        """Most threads per block, if given by the user."""
        return _integer(self.max_threads_attr)

    @property
    def min_blocks(self) -> int | None:
        """Least blocks per multiprocessor, if given by the user."""
        return _integer(self.min_blocks_attr)

    @property
    def max_registers(self) -> int | None:
        """Most registers per thread, if given by the user."""
        return _integer(self.max_registers_attr)

    @property
    def fp_contract(self) -> bool | None:
        """Whether multiply-adds are fused, if given by the user."""
        attribute = self.fp_contract_attr
        return None if attribute is None else bool(attribute.value.data)

    @property
    def math(self) -> str | None:
        """The kind of mathematical functions, if given by the user."""
        return None if self.math_attr is None else self.math_attr.data

    @property
    def cluster(self) -> tuple[int, ...] | None:
        """Blocks per cluster along x, y and z; None for launches without clusters."""
        return _integers(self.cluster_attr)

    @property
    def block_size(self) -> tuple[int, ...] | None:
        """Threads along x, y and z, where every launch has the same constant block."""
        return _integers(self.block_size_attr)

    @property
    def shared_memory_bytes(self) -> int:
        """Bytes of the kernel's own shared arrays; the launch's bytes follow."""
        return _integer(self.shared_memory_bytes_attr) or 0

    @property
    def scratch_arguments(self) -> tuple[BlockArgument, ...]:
        """The hidden arguments that launches allocate: tensors with one row per block."""
        return tuple(
            self.body.block.args[index] for index in _integers(self.scratch_arguments_attr) or ()
        )

    @property
    def profile_argument(self) -> BlockArgument | None:
        """The hidden argument that launches fill with memory to record into, u64 words of rank 1."""
        index = _integer(self.profile_argument_attr)
        return None if index is None else self.body.block.args[index]

    @property
    def restricted_arguments(self) -> tuple[BlockArgument, ...]:
        """The tensor arguments that are restricted."""
        known = self.arg_attrs.data if self.arg_attrs is not None else ()
        return tuple(
            argument
            for argument, attributes in zip(self.body.block.args, known, strict=False)
            if RESTRICTED in attributes.data
        )

    def restrict(self, numbers: Sequence[int]) -> None:
        """Marks arguments as restricted."""
        known = self.arg_attrs.data if self.arg_attrs is not None else ()
        self.arg_attrs = ArrayAttr(
            DictionaryAttr({**one.data, RESTRICTED: UNIT}) if index in numbers else one
            for index, one in enumerate(known)
        )

    def add_argument(self, name: str, argument_type: Attribute) -> BlockArgument:
        """An argument after all others."""
        block = self.body.block
        known = self.arg_attrs or [DictionaryAttr({}) for _ in block.args]
        self.arg_attrs = ArrayAttr([*known, DictionaryAttr({"weft.name": StringAttr(name)})])
        argument = block.insert_arg(argument_type, len(block.args))
        argument.name_hint = name
        self.function_type = FunctionType.from_lists([a.type for a in block.args], [])
        return argument

    def keep_arguments(self, kept: Sequence[int]) -> None:
        """Erases all arguments except those with these numbers; the others must be unused."""
        block, place = self.body.block, {index: number for number, index in enumerate(kept)}
        for argument in [one for one in block.args if one.index not in place]:
            block.erase_arg(argument)
        self.function_type = FunctionType.from_lists([argument.type for argument in block.args], [])
        if self.arg_attrs is not None:
            self.arg_attrs = ArrayAttr([self.arg_attrs.data[index] for index in kept])
        scratch = [place[i] for i in _integers(self.scratch_arguments_attr) or () if i in place]
        self.scratch_arguments_attr = sizes_attribute(scratch) if scratch else None
        profile = [place[i] for i in _integers(self.profile_argument_attr) or () if i in place]
        self.profile_argument_attr = IntegerAttr(profile[0], i32) if profile else None

    def parts(self, tensor: BlockArgument) -> list[tuple[str, int]]:
        """The parts of a tensor argument passed to machine code, in order: pointer, dims and strides by dimension."""
        kind = tensor.type
        assert isinstance(kind, TensorType)
        noted = (
            None if self.arg_attrs is None else self.arg_attrs.data[tensor.index].data.get(PARTS)
        )
        if isinstance(noted, DictionaryAttr):
            pointer = POINTER in noted.data
            dims = _integers(noted.data.get("dims")) or ()
            strides = _integers(noted.data.get("strides")) or ()
        else:
            pointer = True
            dims = tuple(number for number, dim in enumerate(kind.dims) if dim == DYNAMIC)
            strides = tuple(range(kind.open_strides))
        found = [(POINTER, 0)] if pointer else []
        found += [(DIM, dimension) for dimension in dims]
        return found + [(STRIDE, dimension) for dimension in strides]

    def verify_(self) -> None:
        if self.function_type.outputs.data:
            raise VerifyException("a kernel returns nothing")
        if tuple(self.function_type.inputs) != tuple(a.type for a in self.body.block.args):
            raise VerifyException("the kernel's type and its block arguments differ")
        for name in ("max_threads", "min_blocks", "max_registers"):
            value = _integer(self.properties.get(name))
            if value is not None and value < 1:
                raise VerifyException(f"{name} is {value}; expected at least 1")
        _verify_sizes("cluster", self.cluster)
        _verify_sizes("block_size", self.block_size)
        if self.shared_memory_bytes < 0 or self.shared_memory_bytes % SHARED_MEMORY_ALIGNMENT:
            raise VerifyException(
                f"shared_memory_bytes is {self.shared_memory_bytes}; "
                f"expected a multiple of {SHARED_MEMORY_ALIGNMENT}"
            )
        self._verify_hidden_arguments()

    def _verify_hidden_arguments(self) -> None:
        arguments = self.body.block.args
        for name in ("scratch_arguments", "profile_argument"):
            for index in _integers(self.properties.get(name)) or ():
                if not 0 <= index < len(arguments):
                    raise VerifyException(f"{name} names argument {index} of {len(arguments)}")
                if not isinstance(arguments[index].type, TensorType):
                    raise VerifyException(f"{name} names argument {index}, which is not a tensor")


@operation_definition
class ReturnOp(IRDLOperation):
    """The end of a kernel's body: the thread exits. See `ExitOp` for earlier returns."""

    name = "simt.return"
    assembly_format = "attr-dict"
    traits = traits_def(IsTerminator(), HasParent(KernelOp))


@operation_definition
class ExitOp(IRDLOperation):
    """Before the end of a region: the thread has returned. What follows the region does not affect it.

    A target may let it exit at once; it must if its barriers wait for every thread that has not exited.
    """

    name = "simt.exit"
    assembly_format = "attr-dict"


@operation_definition
class LaunchExOp(IRDLOperation):
    """Launches a kernel, in a host function.

    `grid` counts blocks (not clusters), `block` threads: three integers each, i64. `shared_memory_bytes` is the
    launch's request beyond the kernel's own arrays, `record_words` the size of its profiler's memory, if known before
    the run. With `over`, the number of iterations that the kernel's `simt.each` shares, an i64, the pass map_each
    chooses the grid, which is empty before, and an empty block. Without `stream` the call's stream is used. Constants
    are properties: `cluster` (blocks along x, y and z), `cooperative`, `programmatic`, and `launch_attributes`, which
    are passed to the driver unchanged.
    """

    name = "simt.launch_ex"

    kernel = prop_def(SymbolRefAttr)
    math_attr = opt_prop_def(StringAttr, prop_name="math")
    cluster_attr = opt_prop_def(DenseArrayBase.constr(i32), prop_name="cluster")
    cooperative_attr = opt_prop_def(UnitAttr, prop_name="cooperative")
    programmatic_attr = opt_prop_def(UnitAttr, prop_name="programmatic")
    launch_attributes_attr = opt_prop_def(
        ArrayAttr[LaunchAttributeAttr], prop_name="launch_attributes"
    )
    grid = var_operand_def(i64)
    block = var_operand_def(i64)
    shared_memory_bytes = opt_operand_def(i64)
    record_words = opt_operand_def(i64)
    stream = opt_operand_def(StreamType)
    args = var_operand_def()
    over = opt_operand_def(i64)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$kernel (`over` $over^)? `grid` `(` $grid `)` `block` `(` $block `)` "
        "(`shared` $shared_memory_bytes^)? (`records` $record_words^)? (`stream` $stream^)? "
        "(`args` `(` $args^ `:` type($args) `)`)? attr-dict"
    )

    def __init__(
        self,
        kernel: str,
        grid: Sequence[SSAValue],
        block: Sequence[SSAValue],
        args: Sequence[SSAValue],
        shared_memory_bytes: SSAValue | None = None,
        stream: SSAValue | None = None,
        properties: Mapping[str, Attribute] | None = None,
        over: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[grid, block, shared_memory_bytes, None, stream, args, over],
            properties={"kernel": SymbolRefAttr(kernel), **(properties or {})},
        )

    @property
    def math(self) -> str | None:
        """The kind of mathematical functions, if given by the user."""
        return None if self.math_attr is None else self.math_attr.data

    @property
    def cluster(self) -> tuple[int, ...] | None:
        """Blocks per cluster along x, y and z; None for a launch without clusters."""
        return _integers(self.cluster_attr)

    def keep_arguments(self, kept: Iterable[int]) -> None:
        """Drops all arguments except those with these numbers."""
        self._set_operands(5, [self.args[index] for index in kept])

    def set_record_words(self, words: SSAValue) -> None:
        """Sets the size of the memory for the launch's records."""
        self._set_operands(3, [words])

    def set_sizes(self, grid: Sequence[SSAValue], block: Sequence[SSAValue]) -> None:
        """Sets the grid and the block of a launch `over` iterations, which it then no longer is."""
        for segment, values in enumerate((grid, block)):
            self._set_operands(segment, values)
        self._set_operands(6, [])

    def _set_operands(self, segment: int, values: Sequence[SSAValue]) -> None:
        property_name = "operandSegmentSizes"
        sizes = list(cast("DenseArrayBase[I32]", self.properties[property_name]).get_values())
        start = sum(sizes[:segment])
        end, sizes[segment] = start + sizes[segment], len(values)
        self.operands = [*self.operands[:start], *values, *self.operands[end:]]
        self.properties[property_name] = sizes_attribute(sizes)

    @property
    def is_cooperative(self) -> bool:
        """Whether all blocks must run at the same time, so that they can wait for each other."""
        return self.cooperative_attr is not None

    @property
    def is_programmatic(self) -> bool:
        """Whether it may begin before the stream's preceding kernel has ended."""
        return self.programmatic_attr is not None

    @property
    def launch_attributes(self) -> tuple[LaunchAttributeAttr, ...]:
        """Attributes passed to the driver unchanged."""
        return () if self.launch_attributes_attr is None else self.launch_attributes_attr.data

    def verify_(self) -> None:
        empty = (0,) if self.over is not None else ()
        if len(self.grid) not in (empty or (3,)) or len(self.block) not in (3, *empty):
            raise VerifyException("grid and block have three dimensions each")
        _verify_sizes("cluster", self.cluster)


def kernel_of(operation: Operation) -> KernelOp:
    """The kernel that an operation stands in."""
    while not isinstance(operation, KernelOp):
        parent = operation.parent_op()
        assert parent is not None, f"{operation.name} stands in no kernel"
        operation = parent
    return operation


def sizes_attribute(sizes: Sequence[int]) -> DenseArrayBase[I32]:
    """Integers for a property such as `block_size`."""
    return DenseArrayBase.from_list(i32, sizes)


def _integer(attribute: Attribute | None) -> int | None:
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def _integers(attribute: Attribute | None) -> tuple[int, ...] | None:
    """The integers of an array; a single one is a tuple of one."""
    if isinstance(attribute, DenseArrayBase):
        return cast("DenseArrayBase[IntegerType]", attribute).get_values()
    value = _integer(attribute)
    return None if value is None else (value,)


def _verify_sizes(name: str, sizes: tuple[int, ...] | None) -> None:
    if sizes is not None and (len(sizes) != 3 or min(sizes) < 1):
        raise VerifyException(f"{name} is {list(sizes)}; expected three sizes of at least 1")


UNIT = UnitAttr()
