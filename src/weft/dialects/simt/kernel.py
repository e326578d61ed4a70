# SPDX-License-Identifier: Apache-2.0
"""Kernels and their launches: `simt.kernel`, `simt.return`, `simt.launch_ex`.

In: a traced kernel body, a launch in a host function. Out: the operations that every backend starts from.
Next: grid, memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
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
from weft.dialects.simt.types import StreamType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
    from xdsl.parser import Parser
    from xdsl.printer import Printer

SHARED_MEMORY_BYTES: Final = "weft.shared_memory_bytes"
"""Attribute of a kernel: bytes of its own shared arrays, i64, a multiple of 16; not there means none."""

EXIT: Final = "weft.exit"
"""Unit attribute of an `scf.yield` in a kernel: the thread has returned. What follows has no effect on it, and a
target may let it leave at once; one whose barriers wait for every thread that has not left must."""

SCRATCH_ARGUMENTS: Final = "weft.scratch_arguments"
"""Attribute of a kernel: which of its arguments are scratch arrays, i32 each; not there means none."""

SCRATCH_NAME: Final = "scratch_"
"""What the names of such arguments begin with."""

PROFILE_NAME: Final = "profile"
"""The name of the argument that a launch's records go to."""

PROFILE_ARGUMENT: Final = "weft.profile_argument"
"""Attribute of a kernel: which of its arguments each launch's records go to, i32; not there means none."""

PROFILE_WORDS: Final = "weft.profile_words"
"""Attribute of a kernel: how many words its launches record at most, five i64: words before all records and
headers of lanes, words per block, and the first, the end and the step of the blocks that record. Not there where
only the run can tell."""

_KERNEL_NAMES = ("sym_name", "function_type", "arg_attrs")


@operation_definition
class KernelOp(IRDLOperation):
    """A kernel: the code of one thread.

    Arguments are `!simt.tensor` in the global space and scalars; `arg_attrs` holds each one's source name
    as `weft.name`. Attributes that a launch needs stand in the attribute dictionary: `weft.max_threads`,
    `weft.min_blocks`, `weft.max_registers`, `weft.cluster` and, where every launch has the same constant
    block, `weft.block_size`; after their layout, `weft.shared_memory_bytes` of its own shared arrays.
    """

    name = "simt.kernel"

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        body: Region,
        argument_names: Sequence[str] = (),
        attributes: dict[str, Attribute] | None = None,
    ) -> None:
        types = [argument.type for argument in body.block.args]
        names = [DictionaryAttr({"weft.name": StringAttr(n)}) for n in argument_names]
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(types, []),
                "arg_attrs": ArrayAttr(names) if names else None,
            },
            attributes=attributes or {},
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
        if extra is not None:
            kernel.attributes |= extra.data
        return kernel

    def print(self, printer: Printer) -> None:
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            self.attributes,
            arg_attrs=self.arg_attrs,
            reserved_attr_names=_KERNEL_NAMES,
        )

    @property
    def shared_memory_bytes(self) -> int:
        """Bytes of the kernel's own shared arrays, behind which lies what a launch asks for."""
        found = self.attributes.get(SHARED_MEMORY_BYTES)
        return found.value.data if isinstance(found, IntegerAttr) else 0

    @property
    def scratch_arguments(self) -> tuple[BlockArgument, ...]:
        """The hidden arguments that launches allocate: tensors with one row per block."""
        found = self.attributes.get(SCRATCH_ARGUMENTS)
        if not isinstance(found, ArrayAttr):
            return ()
        places = cast("ArrayAttr[IntegerAttr]", found)
        return tuple(self.body.block.args[place.value.data] for place in places)

    @property
    def profile_argument(self) -> BlockArgument | None:
        """The hidden argument that launches fill with memory to record into, u64 words of rank 1."""
        found = self.attributes.get(PROFILE_ARGUMENT)
        return self.body.block.args[found.value.data] if isinstance(found, IntegerAttr) else None

    @property
    def profile_words(self) -> tuple[int, ...]:
        """The numbers of `PROFILE_WORDS`; empty where only the run can tell."""
        found = self.attributes.get(PROFILE_WORDS)
        if not isinstance(found, ArrayAttr):
            return ()
        return tuple(word.value.data for word in cast("ArrayAttr[IntegerAttr]", found))

    def verify_(self) -> None:
        if self.function_type.outputs.data:
            raise VerifyException("a kernel returns nothing")
        if tuple(self.function_type.inputs) != tuple(a.type for a in self.body.block.args):
            raise VerifyException("the kernel's type and its block arguments differ")


@operation_definition
class ReturnOp(IRDLOperation):
    """The end of a kernel's body: the thread exits. See `EXIT` for a return before it."""

    name = "simt.return"
    assembly_format = "attr-dict"
    traits = traits_def(IsTerminator(), HasParent(KernelOp))


@operation_definition
class LaunchExOp(IRDLOperation):
    """Launches a kernel; stands in a host function.

    `grid` counts blocks (not clusters), `block` threads: three integers each, i64. `shared_memory_bytes`
    is what the launch asks for beyond the kernel's own arrays. Without `stream` the call's stream is
    used. `attributes` of the launch that are constants stand in the attribute dictionary:
    `weft.cluster` (array of three i32), `weft.cooperative`, `weft.programmatic` (unit), and
    `weft.launch_attributes` (array of `{id, value}` with 64-byte values as hexadecimal strings).
    """

    name = "simt.launch_ex"

    kernel = prop_def(SymbolRefAttr)
    grid = var_operand_def(i64)
    block = var_operand_def(i64)
    shared_memory_bytes = opt_operand_def(i64)
    stream = opt_operand_def(StreamType)
    args = var_operand_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$kernel `grid` `(` $grid `)` `block` `(` $block `)` "
        "(`shared` $shared_memory_bytes^)? (`stream` $stream^)? "
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
        attributes: dict[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[grid, block, shared_memory_bytes, stream, args],
            properties={"kernel": SymbolRefAttr(kernel)},
            attributes=attributes or {},
        )

    def verify_(self) -> None:
        if len(self.grid) != 3 or len(self.block) != 3:
            raise VerifyException("grid and block have three dimensions each")


def integer_attribute(value: int, bits: int = 32) -> IntegerAttr[IntegerType]:
    """An integer for an attribute dictionary, such as `weft.max_threads`."""
    return IntegerAttr(value, i32 if bits == 32 else i64)


UNIT = UnitAttr()
