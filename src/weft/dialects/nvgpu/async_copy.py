# SPDX-License-Identifier: Apache-2.0
"""Asynchronous copies: a thread's `cp_async`, bulk copies of bytes, and TMA copies of a tensor's boxes.

In: elements of a tensor or a map with the first element of a box, a tile in shared memory, a barrier. Out: the
elements there, after a wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import FixedBitwidthType, StringAttr, i1, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import (
    Access,
    Accesses,
    CalledAs,
    Orders,
    Requires,
    StartsAsync,
    Synchronizes,
)
from weft.dialects.definition import (
    BaseOperation,
    flag,
    integer,
    operand,
    operands,
    operation_definition,
    opt_operand,
    opt_string,
    string,
)
from weft.dialects.nvgpu.tensor_map import TensorMapType
from weft.dialects.simt.debug import WatchedAccess, access_properties
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.ir import SSAValue
    from xdsl.irdl import Operand, OptOperand

    from weft.dialects.definition import Flag, Integer, Operands, OptString, String


COPY_BYTES: Final = (4, 8, 16)


@operation_definition
class CpAsyncCopyOp(BaseOperation):
    """Begins to copy `count` consecutive elements; where `condition` is false, zeros are written."""

    name = "nvgpu.cp_async_copy"

    count: Integer = integer(i32)
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    source: Operand = operand(TensorType)
    source_indices: Operands = operands()
    condition: OptOperand = opt_operand(i1)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("tensor", "written", number="count", argument=0),
                Access(
                    "source", "read", indices="source_indices", number="count", unless="condition"
                ),
            )
        ),
        StartsAsync("elements"),
        CalledAs("cp_async.copy"),
        Requires("cp_async"),
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$count `to` $tensor `[` $indices `:` type($indices) `]` `from` $source `[` $source_indices `:` "
        "type($source_indices) `]` (`when` $condition^)? attr-dict `:` type($tensor) `,` type($source)"
    )

    @property
    def bytes(self) -> int:
        """Number of elements of one copy."""
        element = cast("FixedBitwidthType", cast("TensorType", self.tensor.type).element_type)
        return self.count.value.data * element.size

    def verify_(self) -> None:
        to, source = cast("TensorType", self.tensor.type), cast("TensorType", self.source.type)
        if to.element_type != source.element_type:
            raise VerifyException(f"elements of {source} are not those of {to}")
        if (to.space.data, source.space.data) != ("shared", "global"):
            raise VerifyException("copies go from global to shared memory")
        if self.bytes not in COPY_BYTES:
            raise VerifyException(f"a copy of {self.bytes} bytes; there are those of 4, 8 and 16")


class _GroupOp(BaseOperation):
    """Base of operations on a thread's groups of copies."""

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@operation_definition
class CpAsyncCommitOp(_GroupOp):
    """This thread's copies since the last one are a group."""

    name = "nvgpu.cp_async_commit"
    traits = traits_def(Orders("commit"), CalledAs("cp_async.commit"), Requires("cp_async"))

    assembly_format = "attr-dict"


@operation_definition
class CpAsyncWaitOp(_GroupOp):
    """Waits until all but the newest `pending` groups of this thread are complete."""

    name = "nvgpu.cp_async_wait"
    traits = traits_def(
        Synchronizes("copies", "elements"), CalledAs("cp_async.wait"), Requires("cp_async")
    )

    pending: Integer = integer(i32)
    assembly_format = "$pending attr-dict"


BULK_BYTES: Final = 16
"""Alignment of a copy's addresses and size."""


def _check(to: SSAValue, source: SSAValue, spaces: tuple[str, str]) -> None:
    kinds = cast("TensorType", to.type), cast("TensorType", source.type)
    if kinds[0].element_type != kinds[1].element_type:
        raise VerifyException(f"elements of {kinds[1]} are not those of {kinds[0]}")
    if tuple(kind.space.data for kind in kinds) != spaces:
        raise VerifyException(f"a copy from {kinds[1].space.data} to {kinds[0].space.data} memory")
    for kind in kinds:
        if (
            kind.layout.data not in ("contiguous", "inner")
            or kind.alignment_bytes.data % BULK_BYTES
        ):
            raise VerifyException(f"{kind} is not known to be contiguous, aligned to {BULK_BYTES}")


@operation_definition
class BulkLoadOp(BaseOperation):
    """Begins to copy consecutive bytes into shared memory; their bytes come to a barrier. One thread executes it."""

    name = "nvgpu.bulk_load"

    to: Operand = operand(TensorType)
    source: Operand = operand(TensorType)
    size: Operand = operand(i32)
    words: Operand = operand(TensorType)
    index: Operand = operand(i32)
    cache: OptString = opt_string(default=None)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("words", "updated", "barrier", indices="index"),
                Access("to", "written", "tile", size="size", argument=0),
                Access("source", "read", "tile", size="size"),
            ),
            is_required=True,
        ),
        StartsAsync("phase"),
        CalledAs("bulk_copy"),
        Requires("bulk_copy"),
    )
    assembly_format = (
        "$size `bytes` `to` $to `from` $source `for` $words `[` $index `]` (`cache` $cache^)? attr-dict `:` "
        "type($to) `,` type($source) `,` type($words)"
    )

    def verify_(self) -> None:
        _check(self.to, self.source, ("shared", "global"))
        check_cache(self.cache)


class _BulkOutOp(BaseOperation):
    """Base of bulk copies out of shared memory."""

    to: Operand = operand(TensorType)
    source: Operand = operand(TensorType)
    size: Operand = operand(i32)
    cache: OptString = opt_string()

    def verify_(self) -> None:
        _check(self.to, self.source, ("global", "shared"))
        check_cache(self.cache)


@operation_definition
class BulkStoreOp(_BulkOutOp):
    """Begins to copy consecutive bytes out of shared memory, as its own group, which `nvgpu.tma_wait` waits for."""

    name = "nvgpu.bulk_store"
    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("to", "written", "tile", size="size"),
                Access("source", "read", "tile", size="size", argument=1),
            )
        ),
        StartsAsync("store"),
        CalledAs("bulk_copy"),
        Requires("bulk_copy"),
    )
    assembly_format = (
        "$size `bytes` `to` $to `from` $source (`cache` $cache^)? attr-dict `:` "
        "type($to) `,` type($source)"
    )


CACHES: Final = ("evict_first", "evict_last", "evict_normal")
"""L2 eviction priority of a copy's data: first, last, or normal."""
REDUCTIONS: Final = ("add", "min", "max", "and", "or", "xor")
"""In the order of native/include/weft/tensor_map.h, from 1 on."""


@operation_definition
class BulkReduceOp(_BulkOutOp):
    """As `nvgpu.bulk_store`, but combines each element of the tensor with the array's, in one step.

    `element` names the elements as users do, since the IR's integers have no sign.
    """

    name = "nvgpu.bulk_reduce"
    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("to", "written", "tile", size="size", is_atomic=True),
                Access("source", "read", "tile", size="size", argument=1),
            )
        ),
        StartsAsync("store"),
        CalledAs("bulk_reduce"),
        Requires("bulk_copy"),
    )

    kind: String = string()
    element: String = string()

    assembly_format = (
        "$kind $element $size `bytes` `to` $to `from` $source (`cache` $cache^)? attr-dict `:` "
        "type($to) `,` type($source)"
    )

    def verify_(self) -> None:
        super().verify_()
        if self.kind.data not in REDUCTIONS:
            raise VerifyException(f"{self.kind.data} is not one of {REDUCTIONS}")


def check_cache(cache: StringAttr | None) -> None:
    """Raises VerifyException for another name than those of `CACHES`."""
    if cache is not None and cache.data not in CACHES:
        raise VerifyException(f"{cache.data} is not one of {CACHES}")


def _check_place(tensor_map: SSAValue, indices: Sequence[SSAValue]) -> TensorMapType:
    kind = tensor_map.type
    assert isinstance(kind, TensorMapType)
    if len(indices) != kind.rank and not gathered_rows(kind, indices):
        raise VerifyException(f"{len(indices)} indices for {kind}")
    return kind


GATHERED_ROWS: Final = 4
"""Rows of one instruction that takes an index of each."""


def gathered_rows(kind: TensorMapType, indices: Sequence[SSAValue]) -> int:
    """Number of rows with an index each, before the column; 0 of a box."""
    rows = len(indices) - 1
    is_gather = kind.rank == 2 and kind.box[0] == 1 and not kind.is_im2col and rows > 1
    return rows if is_gather and rows % GATHERED_ROWS == 0 else 0


@operation_definition
class TmaPrefetchOp(BaseOperation):
    """Fetches a map into the GPU's cache for maps, or, with the indices of a box, the box into the L2 cache.

    It changes nothing but times; the CPU does nothing.
    """

    name = "nvgpu.tma_prefetch"

    tensor_map: Operand = operand(TensorMapType)
    indices: Operands = operands(i32)

    # Of the cache: so that it is neither removed nor moved across copies.
    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), Accesses(), Requires("tma", "tma.prefetch")
    )
    assembly_format = (
        "$tensor_map (`[` $indices^ `:` type($indices) `]`)? attr-dict `:` type($tensor_map)"
    )

    def verify_(self) -> None:
        if self.indices:
            _check_place(self.tensor_map, self.indices)


def _check_tile(tensor_map: SSAValue, indices: Sequence[SSAValue], tile: SSAValue) -> None:
    kind, of = _check_place(tensor_map, indices), tile.type
    assert isinstance(of, TensorType)
    rows = gathered_rows(kind, indices)
    dims = tuple(size for size in ((rows, kind.box[1]) if rows else kind.box) if size != 1)
    if tuple(size for size in of.dims if size != 1) != dims or of.element_type != kind.element_type:
        raise VerifyException(f"a box of {kind} is not the tile {of}")
    swizzle = of.swizzle_atoms.row_bytes.data if of.swizzle_atoms is not None else 0
    if swizzle != kind.swizzle:
        raise VerifyException(f"the swizzle of {kind} is not that of the tile {of}")
    if not swizzle and (of.layout.data != "contiguous" or of.space.data != "shared"):
        raise VerifyException(f"{of} is not a contiguous tile in shared memory")


@operation_definition
class TmaLoadOp(BaseOperation):
    """Begins to copy a box into a tile; its bytes complete at a barrier. Elements outside of the tensor are filled.

    One thread executes it. The box's size in bytes counts in full. Of a map of single rows there may be an index for
    each row of the tile, a multiple of four, before the column's. With `ranks` it is copied into the tile at the same
    place of each of these blocks, and its bytes come to the barrier there. Of an im2col map, `offsets` say which
    element of the kernel, one number for each spatial dimension.
    """

    name = "nvgpu.tma_load"

    tensor_map: Operand = operand(TensorMapType)
    tile: Operand = operand(TensorType)
    words: Operand = operand(TensorType)
    index: Operand = operand(i32)
    indices: Operands = operands(i32)
    offsets: Operands = operands(i32, default=())
    ranks: Operands = operands(i32, default=())
    cache: OptString = opt_string(default=None)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses(
            (
                Access("words", "updated", "barrier", indices="index"),
                Access("tile", "written", "tile", argument=2),
                Access("tensor_map", "read", "mapped"),
            ),
            is_required=True,
        ),
        StartsAsync("phase"),
        CalledAs("tma.load"),
        Requires("tma"),
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$tensor_map `[` $indices `:` type($indices) `]` (`offsets` $offsets^)? `to` $tile `for` $words `[` $index `]` "
        "(`ranks` $ranks^)? (`cache` $cache^)? attr-dict `:` type($tensor_map) `,` type($tile) `,` type($words)"
    )

    @property
    def requirement(self) -> Requires | None:
        """Requirement of a copy to several blocks, or of rows with an index each."""
        kind = self.tensor_map.type
        if isinstance(kind, TensorMapType) and gathered_rows(kind, self.indices):
            return Requires(
                "tma_gather", "tma.load of rows by index", "load each row by itself there"
            )
        if not self.ranks:
            return None
        return Requires("tma_multicast", "tma.load(multicast=)", "load a box in each block there")

    def verify_(self) -> None:
        _check_tile(self.tensor_map, self.indices, self.tile)
        check_cache(self.cache)
        kind = self.tensor_map.type
        assert isinstance(kind, TensorMapType)
        if len(self.offsets) != (kind.rank - 2 if kind.is_im2col else 0):
            raise VerifyException(f"{len(self.offsets)} offsets for {kind}")
        if self.ranks and gathered_rows(kind, self.indices):
            raise VerifyException("rows with an index each come into one block")


class _OutOp(BaseOperation):
    """Base of copies from a tile into a box."""

    tensor_map: Operand = operand(TensorMapType)
    tile: Operand = operand(TensorType)
    indices: Operands = operands(i32)
    cache: OptString = opt_string()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        _check_tile(self.tensor_map, self.indices, self.tile)
        check_cache(self.cache)
        kind = self.tensor_map.type
        if isinstance(kind, TensorMapType) and kind.is_im2col:
            raise VerifyException(f"a copy out of shared memory by {kind}")


@operation_definition
class TmaStoreOp(_OutOp):
    """Begins to copy a tile into a box, as a group of its own; elements outside of the tensor are not written.

    Rows may have an index each, as of `nvgpu.tma_load`.
    """

    name = "nvgpu.tma_store"
    traits = traits_def(
        Accesses(
            (Access("tile", "read", "tile", argument=2), Access("tensor_map", "written", "mapped"))
        ),
        StartsAsync("store"),
        CalledAs("tma.store"),
        Requires("tma"),
    )

    @property
    def requirement(self) -> Requires | None:
        """Requirement of rows with an index each."""
        kind = self.tensor_map.type
        if isinstance(kind, TensorMapType) and gathered_rows(kind, self.indices):
            return Requires(
                "tma_scatter", "tma.store of rows by index", "store each row by itself there"
            )
        return None

    assembly_format = (
        "$tensor_map `[` $indices `:` type($indices) `]` `from` $tile (`cache` $cache^)? attr-dict `:` "
        "type($tensor_map) `,` type($tile)"
    )


@operation_definition
class TmaReduceOp(_OutOp):
    """As `nvgpu.tma_store`, but combines each element of the box with the tile's, in one step."""

    name = "nvgpu.tma_reduce"
    traits = traits_def(
        Accesses(
            (
                Access("tile", "read", "tile", argument=2),
                Access("tensor_map", "written", "mapped", is_atomic=True),
            )
        ),
        StartsAsync("store"),
        CalledAs("tma.reduce"),
        Requires("tma"),
    )

    kind: String = string()

    assembly_format = (
        "$kind $tensor_map `[` $indices `:` type($indices) `]` `from` $tile (`cache` $cache^)? attr-dict `:` "
        "type($tensor_map) `,` type($tile)"
    )

    def verify_(self) -> None:
        super().verify_()
        if self.kind.data not in REDUCTIONS:
            raise VerifyException(f"{self.kind.data} is not one of {REDUCTIONS}")
        kind = self.tensor_map.type
        if isinstance(kind, TensorMapType) and gathered_rows(kind, self.indices):
            raise VerifyException("a reduction of rows with an index each")


@operation_definition
class TmaWaitOp(BaseOperation):
    """Waits until all but this thread's `pending` newest copies out of shared memory are complete, or have read."""

    name = "nvgpu.tma_wait"

    pending: Integer = integer(i32)
    read: Flag = flag()

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Synchronizes("copies", "stores"),
        CalledAs("tma.wait"),
        Requires("tma"),
    )
    assembly_format = "$pending (`read` $read^)? attr-dict"


@operation_definition
class FenceProxyOp(BaseOperation):
    """Makes this thread's earlier writes to one memory visible to copies and MMAs that begin after it.

    The memory is shared, or global.
    """

    name = "nvgpu.fence_proxy"

    is_global: Flag = flag()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), Requires("tma", "fence_proxy"))
    assembly_format = "(`global` $is_global^)? attr-dict"


@operation_definition
class WatchBoxOp(WatchedAccess):
    """The elements of a box are about to be accessed beside the threads: `simt.watch_copy` through a tensor map.

    The array's name is the map's, the first argument of the call in the source.
    """

    name = "nvgpu.watch_box"

    tensor_map = operand_def(TensorMapType)
    tile = operand_def(TensorType)
    indices = var_operand_def(i32)
    offsets = var_operand_def(i32)
    words = opt_operand_def(TensorType)
    index = opt_operand_def(i32)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$how $array $access $tensor_map `[` $indices `:` type($indices) `]` (`offsets` $offsets^)? `with` $tile "
        "(`for` $words^ `[` $index `]` `:` type($words))? attr-dict `:` type($tensor_map) `,` type($tile)"
    )

    def __init__(
        self,
        how: Iterable[str],
        access: str,
        copy: TmaLoadOp | TmaStoreOp | TmaReduceOp,
        barrier: tuple[SSAValue, SSAValue] | None = None,
    ) -> None:
        offsets = copy.offsets if isinstance(copy, TmaLoadOp) else ()
        words, index = ([barrier[0]], [barrier[1]]) if barrier else ([], [])
        super().__init__(
            operands=[copy.tensor_map, copy.tile, copy.indices, offsets, words, index],
            properties={**access_properties(how, "", access)},
        )

    def verify_(self) -> None:
        super().verify_()
        _check_tile(self.tensor_map, self.indices, self.tile)
