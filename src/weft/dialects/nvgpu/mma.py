# SPDX-License-Identifier: Apache-2.0
"""A warp's tensor cores: `nvgpu.mma`, and `nvgpu.load_matrix`, which reads operands from shared memory.

In: fragments, tiles. Out: fragments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import StringAttr, UnitAttr, i32
from xdsl.ir import Region
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    VarConstraint,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, CalledAs
from weft.dialects.definition import DependsOnWarps, operation_definition
from weft.dialects.simt.fragment import FragmentType
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Block, SSAValue


@operation_definition
class MmaOp(IRDLOperation):
    """The product of two fragments, plus a third: `a` · `b` + `c`, by all 32 lanes of a warp.

    `kinds` names the elements of `a` and `b` as users do, since the IR's integers have no sign: "i8 u8". Floats of 32
    bits are read as tf32.
    """

    name = "nvgpu.mma"

    T: ClassVar = VarConstraint("T", BaseAttr(FragmentType))
    kinds = prop_def(StringAttr)
    a = operand_def(FragmentType)
    b = operand_def(FragmentType)
    c = operand_def(T)
    result = result_def(T)

    # Lanes meet in it: it is neither removed nor moved.
    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), DependsOnWarps(), CalledAs("mma.mma")
    )
    assembly_format = (
        "$kinds $a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `->` type($result)"
    )

    def __init__(self, kinds: str, a: SSAValue, b: SSAValue, c: SSAValue) -> None:
        super().__init__(
            operands=[a, b, c], properties={"kinds": StringAttr(kinds)}, result_types=[c.type]
        )

    def verify_(self) -> None:
        a, b, c = (value.type for value in self.operands)
        assert isinstance(a, FragmentType)
        assert isinstance(b, FragmentType)
        assert isinstance(c, FragmentType)
        roles = "".join(kind.role.data for kind in (a, b, c))
        if roles != "abc" or any(kind.unit.data != "mma" for kind in (a, b, c)):
            raise VerifyException("the operands are not mma fragments a, b and c")
        if (a.dims[0], a.dims[1], b.dims[1]) != (c.dims[0], b.dims[0], c.dims[1]):
            raise VerifyException(f"shapes {a.dims}, {b.dims} and {c.dims} do not fit")


@operation_definition
class LoadMatrixOp(IRDLOperation):
    """An operand of a product from a tile in shared memory, by `ldmatrix`.

    All 32 lanes of the warp read together. The region gives the element at a row and a column, for machines without the
    instruction; `origin` is the row and column of the thread's first element. `transposed`: adjacent elements in
    memory lie in different registers.
    """

    name = "nvgpu.load_matrix"

    transposed = opt_prop_def(UnitAttr)
    tensor = operand_def(TensorType)
    origin = var_operand_def(i32)
    result = result_def(FragmentType)
    body = region_def("single_block")

    traits = traits_def(
        MemoryReadEffect(), DependsOnWarps(), Accesses((Access("tensor", "read", "tile"),))
    )
    assembly_format = (
        "(`transposed` $transposed^)? $tensor `from` `(` $origin `)` `:` type($tensor) "
        "`->` type($result) $body attr-dict"
    )

    def __init__(
        self,
        tensor: SSAValue,
        origin: Sequence[SSAValue],
        result_type: FragmentType,
        body: Block,
        *,
        transposed: bool,
    ) -> None:
        super().__init__(
            operands=[tensor, origin],
            properties={"transposed": UnitAttr()} if transposed else {},
            result_types=[result_type],
            regions=[Region(body)],
        )

    @property
    def inputs(self) -> tuple[()]:
        """As of `simt.fragment_map`, which has fragments here."""
        return ()

    def verify_(self) -> None:
        if [argument.type for argument in self.body.block.args] != [i32, i32]:
            raise VerifyException("the region takes a row and a column")
