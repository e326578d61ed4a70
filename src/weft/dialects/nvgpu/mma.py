# SPDX-License-Identifier: Apache-2.0
"""Tensor cores: a warp's `nvgpu.mma` with `nvgpu.load_matrix`, a warpgroup's `nvgpu.wgmma_mma`.

In: fragments or tiles in shared memory, and accumulators. Out: accumulators, which `nvgpu.wgmma_wait` completes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from xdsl.dialects.builtin import IntegerAttr, i1, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    VarConstraint,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, CalledAs, Requires, StartsAsync, Synchronizes
from weft.dialects.definition import (
    BaseOperation,
    DependsOnWarps,
    fixed_result,
    flag,
    operand,
    operands,
    operation_definition,
    opt_operand,
    result,
    result_of,
    single_block,
    string,
)
from weft.dialects.simt.fragment import FragmentType
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import OpResult, SSAValue
    from xdsl.irdl import Operand, OptOperand

    from weft.dialects.definition import Body, Flag, Operands, Result, String


_HINT: Final = "weft.mma multiplies on all from sm_80 on"


def sparse_step(itemsize: int) -> int:
    """Terms along K of an instruction of a sparse A, whose elements have `itemsize` bytes."""
    return 64 // itemsize


def metadata_registers(rows: int, depth: int, itemsize: int) -> int:
    """Each thread's registers of metadata of a sparse A; of 16 and 32 bits a register serves two instructions."""
    steps = depth // sparse_step(itemsize)
    return rows // 16 * (steps if itemsize == 1 else -(-steps // 2))


@operation_definition
class MmaOp(BaseOperation):
    """MMA of fragments: `a` · `b` + `c`, by all 32 lanes of a warp.

    `kinds` names the elements of `a` and `b` as users do, since the IR's integers have no sign: "i8 u8". Floats of 32
    bits are read as tf32. With `metadata`, each thread's registers of it in order of rows and K, `a` is sparse: it
    has the nonzero half of its columns.
    """

    name = "nvgpu.mma"

    T: ClassVar = VarConstraint("T", BaseAttr(FragmentType))
    kinds: String = string()
    a: Operand = operand(FragmentType)
    b: Operand = operand(FragmentType)
    c: Operand = operand(T)
    metadata: Operands = operands(i32, default=())
    result: OpResult = result_of("c", T)

    # Lanes meet in it: it is neither removed nor moved.
    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        CalledAs("mma.mma"),
        Requires("mma"),
    )
    assembly_format = (
        "$kinds $a `,` $b `,` $c (`sparse` `(` $metadata^ `)`)? attr-dict `:` type($a) `,` type($b) "
        "`->` type($result)"
    )

    @property
    def requirement(self) -> Requires | None:
        """Requirement of 8-bit operands."""
        kind = self.kinds.data.split()[0]
        return Requires("mma_f8", f"mma.mma of {kind}") if kind.startswith("f8") else None

    def verify_(self) -> None:
        a, b, c = (value.type for value in (self.a, self.b, self.c))
        assert isinstance(a, FragmentType)
        assert isinstance(b, FragmentType)
        assert isinstance(c, FragmentType)
        roles = "".join(kind.role.data for kind in (a, b, c))
        if roles != "abc" or any(kind.unit.data != "mma" for kind in (a, b, c)):
            raise VerifyException("the operands are not mma fragments a, b and c")
        depth = b.dims[0] // 2 if self.metadata else b.dims[0]
        if (a.dims[0], a.dims[1], b.dims[1]) != (c.dims[0], depth, c.dims[1]):
            raise VerifyException(f"shapes {a.dims}, {b.dims} and {c.dims} do not fit")
        if self.metadata:
            count = metadata_registers(a.dims[0], b.dims[0], a.layout.itemsize)
            if len(self.metadata) != count:
                raise VerifyException(
                    f"{len(self.metadata)} registers of metadata instead of {count}"
                )


@operation_definition
class LoadMatrixOp(BaseOperation):
    """An MMA operand from a tile in shared memory, by `ldmatrix`.

    All 32 lanes of the warp read together. The region gives the element at a row and a column, for machines without the
    instruction; `origin` is the row and column of the thread's first element. `transposed`: adjacent elements in
    memory lie in different registers.
    """

    name = "nvgpu.load_matrix"

    tensor: Operand = operand(TensorType)
    origin: Operands = operands(i32)
    result: Result[FragmentType] = result(FragmentType)
    body: Body = single_block()
    transposed: Flag = flag()

    traits = traits_def(
        MemoryReadEffect(),
        DependsOnWarps(),
        Accesses((Access("tensor", "read", "tile"),)),
        Requires("ldmatrix", "mma.load_a"),
    )
    assembly_format = (
        "(`transposed` $transposed^)? $tensor `from` `(` $origin `)` `:` type($tensor) "
        "`->` type($result) $body attr-dict"
    )

    @property
    def inputs(self) -> tuple[()]:
        """As of `simt.fragment_map`, which has fragments here."""
        return ()

    def verify_(self) -> None:
        if [argument.type for argument in self.body.block.args] != [i32, i32]:
            raise VerifyException("the region takes a row and a column")


MOST_PENDING: Final = 7
"""Most MMAs that `wait` can leave in flight."""

ROWS: Final = 64
"""Rows of one instruction."""

_STEP_BYTES: Final = 32  # of one instruction along K


class Kinds(NamedTuple):
    """The elements of two operands that can be multiplied.

    Attributes:
        bits: of an element.
        sums: the types of the sums; of the first one unless another is asked for.
    """

    bits: int
    sums: tuple[str, ...]

    @property
    def step(self) -> int:
        """Terms along K of one instruction."""
        return 8 * _STEP_BYTES // self.bits


_FLOAT8: Final = ("f8e4m3", "f8e5m2")
_INTEGER8: Final = ("i8", "u8")
KINDS: Final = {
    "bf16 bf16": Kinds(16, ("f32",)),
    "f16 f16": Kinds(16, ("f32", "f16")),
    "f32 f32": Kinds(32, ("f32",)),
    **{f"{a} {b}": Kinds(8, ("f32", "f16")) for a in _FLOAT8 for b in _FLOAT8},
    **{f"{a} {b}": Kinds(8, ("i32",)) for a in _INTEGER8 for b in _INTEGER8},
}
"""Supported operands, by the users' names of both element types. Floats of 32 bits are read as tf32."""


@operation_definition
class WgmmaAccumulatorOp(BaseOperation):
    """An uninitialized accumulator: only an MMA that starts a sum, or a wait, takes it."""

    name = "nvgpu.wgmma_accumulator"

    result: Result[FragmentType] = result(FragmentType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@operation_definition
class WgmmaHoldsSumsOp(BaseOperation):
    """Whether sums hold something. The sanitizer alone asks, on the CPU."""

    name = "nvgpu.wgmma_holds_sums"

    fragment: Operand = operand(FragmentType)
    result = fixed_result(i1)
    traits = traits_def(Pure())
    assembly_format = "$fragment attr-dict `:` type($fragment)"


@operation_definition
class WgmmaMmaOp(BaseOperation):
    """Starts `acc + a · b`, or `a · b` where `accumulate` is false or `acc` is missing: one group of MMAs.

    All threads of the warpgroup execute it with the same tiles. `a` is a tile in swizzled shared memory or a fragment,
    `b` such a tile; both are read until a wait completes the group, and so is `acc`, which is used up.
    """

    name = "nvgpu.wgmma_mma"

    kinds: String = string()
    a: Operand = operand()
    b: Operand = operand(TensorType)
    acc: OptOperand = opt_operand(FragmentType)
    accumulate: OptOperand = opt_operand(i1)
    result: Result[FragmentType] = result(FragmentType)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Accesses(
            (
                Access("a", "read", "tile", argument=0),
                Access("b", "read", "tile", argument=1),
            ),
            is_required=True,
        ),
        StartsAsync("mma"),
        CalledAs("wgmma.mma"),
        Requires("wgmma", hint=_HINT),
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$kinds $a `,` $b (`to` $acc^ `:` type($acc))? (`if` $accumulate^)? attr-dict `:` type($a) `,` "
        "type($b) `->` type($result)"
    )

    @property
    def names(self) -> tuple[str, str]:
        """The users' names of both operands' elements."""
        a, b = self.kinds.data.split()
        return a, b

    @property
    def elements(self) -> Kinds:
        """Shape and types of the operands."""
        return KINDS[self.kinds.data]

    @property
    def sums(self) -> str:
        """The user's name of the sums' type."""
        return str(self.result.type.element_type)

    @property
    def terms(self) -> int:
        """The length of K."""
        shape = self.b.type
        assert isinstance(shape, TensorType)
        return shape.dims[0]

    def verify_(self) -> None:
        if self.kinds.data not in KINDS:
            raise VerifyException(f"{self.kinds.data!r} is not one of {', '.join(KINDS)}")
        a, b, kind = self.a.type, self.b.type, self.result.type
        if not isinstance(a, TensorType | FragmentType) or not isinstance(b, TensorType):
            raise VerifyException("the operands are tiles; a may be a fragment")
        rows, columns = kind.dims
        if rows % ROWS or columns % 8 or columns > 256:
            raise VerifyException(f"an MMA of shape {kind.dims}")
        if a.dims != (rows, b.dims[0]) or b.dims[1:] != (columns,):
            raise VerifyException(f"{a.dims} and {b.dims} do not make {kind.dims}")
        if self.terms % self.elements.step:
            raise VerifyException(f"{self.terms} is not a multiple of {self.elements.step}")
        if self.sums not in self.elements.sums:
            raise VerifyException(f"sums of {self.sums}; expected {', '.join(self.elements.sums)}")
        if self.acc is not None and self.acc.type != kind:
            raise VerifyException("the sums have one type")
        if self.acc is None and self.accumulate is not None:
            raise VerifyException("nothing to add to")


@operation_definition
class WgmmaWaitOp(IRDLOperation):
    """Waits until all groups but the warpgroup's `pending` newest are complete; its results are its operands then.

    All threads of the warpgroup execute it.
    """

    name = "nvgpu.wgmma_wait"

    pending = prop_def(IntegerAttr.constr(i32))
    fragments = var_operand_def(FragmentType)
    outputs = var_result_def(FragmentType)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Synchronizes("copies", "wgmma_wait"),
        CalledAs("wgmma.wait"),
        Requires("wgmma", hint=_HINT),
    )
    assembly_format = (
        "$pending (`in` `(` $fragments^ `:` type($fragments) `)`)? "
        "(`out` `(` type($outputs)^ `)`)? attr-dict"
    )

    def __init__(self, fragments: Sequence[SSAValue], pending: int) -> None:
        super().__init__(
            operands=[fragments],
            properties={"pending": IntegerAttr(pending, i32)},
            result_types=[[fragment.type for fragment in fragments]],
        )

    def verify_(self) -> None:
        if not 0 <= self.pending.value.data <= MOST_PENDING:
            raise VerifyException(f"{self.pending.value.data} groups cannot stay in flight")
        if [one.type for one in self.fragments] != [one.type for one in self.outputs]:
            raise VerifyException("the results are not the operands")
