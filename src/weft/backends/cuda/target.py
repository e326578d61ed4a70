# SPDX-License-Identifier: Apache-2.0
"""GPU architectures supported by LLVM, each with its PTX version.

In: a name such as ``"sm_90a"``; options of the assembler. Out: a `Target` for printing, LLVM's machine for emission; a
limit of registers.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

import llvmlite.binding as llvm

from weft.codegen.llvm.module_printer import COMMON_INTRINSICS, Target
from weft.codegen.llvm.optimize import initialize
from weft.dialects.nvgpu.async_copy import REDUCTIONS
from weft.errors import OptionError, brief
from weft.memo import kept
from weft.types.capabilities import PTX_VERSIONS, capabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llvmlite.binding import TargetMachine

TRIPLE: Final = "nvptx64-nvidia-cuda"

_COORDINATES: Final = {
    "thread_idx": "llvm.nvvm.read.ptx.sreg.tid",
    "block_idx": "llvm.nvvm.read.ptx.sreg.ctaid",
    "block_dim": "llvm.nvvm.read.ptx.sreg.ntid",
    "grid_dim": "llvm.nvvm.read.ptx.sreg.nctaid",
}
_REGISTERS: Final = tuple(
    f"nvvm.read.ptx.sreg.{name}"
    for name in "clock clock64 envreg1 envreg2 globaltimer laneid lanemask.gt smid".split()
)
_COOPERATION: Final = (
    "bar.warp.sync barrier.cta.sync.aligned.all barrier.cta.sync.aligned.count "
    "barrier.cta.arrive.aligned.count barrier.cta.red.and.aligned.all "
    "barrier.cta.red.or.aligned.all barrier.cta.red.popc.aligned.all "
    "match.all.sync.i32p match.all.sync.i64p match.any.sync.i32 match.any.sync.i64 "
    "redux.sync.add redux.sync.and redux.sync.max redux.sync.min redux.sync.or redux.sync.umax "
    "redux.sync.umin redux.sync.xor "
    "shfl.sync.bfly.i32 shfl.sync.down.i32 shfl.sync.idx.i32 shfl.sync.up.i32 "
    "elect.sync setmaxnreg.dec.sync.aligned.u32 setmaxnreg.inc.sync.aligned.u32 "
    "fence.mbarrier_init.release.cluster mbarrier.init.shared mbarrier.arrive.scope.cta.space.cta "
    "mbarrier.arrive.expect.tx.scope.cta.space.cta mbarrier.try.wait.parity.scope.cta.space.cta "
    "vote.all.sync vote.any.sync vote.ballot.sync "
    "barrier.cluster.arrive.aligned barrier.cluster.wait.aligned mapa.shared.cluster "
    "mbarrier.arrive.scope.cluster.space.cluster mbarrier.try.wait.parity.scope.cluster.space.cta "
    "read.ptx.sreg.cluster.ctarank"
)
_COPIES: Final = (
    "fence.proxy.async.shared_cta",
    "fence.proxy.async.global",
    "prefetch.tensormap",
    *(f"cp.async.{name}" for name in ("commit.group", "wait.group")),
    *(
        f"cp.async.{form}{masked}"
        for form in ("ca.shared.global.4", "ca.shared.global.8", "cg.shared.global.16")
        for masked in ("", ".s")
    ),
    *(f"cp.async.bulk.{name}" for name in ("commit.group", "wait.group", "wait.group.read")),
    *(f"cp.async.bulk.{name}" for name in ("global.to.shared.cluster", "shared.cta.to.global")),
    "cp.async.bulk.global.to.shared.cta",
    *(
        f"cp.async.bulk.tensor.{form}.tile.{rank}d"
        for form in (
            "prefetch",
            "g2s",
            "g2s.cta",
            "s2g",
            *(f"reduce.{kind}" for kind in REDUCTIONS),
        )
        for rank in range(1, 6)
    ),
    "cp.async.bulk.tensor.g2s.cta.tile.gather4.2d",
    "cp.async.bulk.tensor.s2g.tile.scatter4.2d",
    *(
        f"cp.async.bulk.tensor.{form}.im2col.{rank}d"
        for form in ("g2s", "g2s.cta")
        for rank in range(3, 6)
    ),
)
# match needs sm_70, redux sm_80 and elect, mbarriers and clusters sm_90; their printers check the architecture first.
_MATRIX: Final = (
    # These need sm_89, and the others sm_75.
    "ff.to.e4m3x2.rn ff.to.e5m2x2.rn e4m3x2.to.f16x2.rn e5m2x2.to.f16x2.rn",
    *(  # which need sm_100a
        f"ff.to.{pair}.rn.satfinite {pair}.to.f16x2.rn" for pair in ("e2m1x2", "e2m3x2", "e3m2x2")
    ),
    "ff.to.ue8m0x2.rp.satfinite ue8m0x2.to.bf16x2",
    *(
        f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.b16"
        for count in (1, 2, 4)
        for transposed in ("", ".trans")
    ),
    *(  # which need sm_90
        f"stmatrix.sync.aligned.m8n8.x{count}{transposed}.b16"
        for count in (1, 2, 4)
        for transposed in ("", ".trans")
    ),
)
INTRINSICS: Final = frozenset(
    (
        *COMMON_INTRINSICS,
        *(f"{stem}.{axis}" for stem in _COORDINATES.values() for axis in "xyz"),
        *(f"llvm.{name}" for name in ("ptrmask", *_REGISTERS)),
        *(
            f"llvm.nvvm.{name}"
            for name in (
                *_COOPERATION.split(),
                *" ".join(_MATRIX).split(),
                *_COPIES,
                "rsqrt.approx.f",
            )
        ),
    )
)


_WIDE_VERSION: Final = 88


class CudaMachine:
    """One architecture.

    Attributes:
        architecture: its name.
        shared_memory_bytes: the most that a block may have.
        target: for printing.
        machine: LLVM's target machine.
    """

    def __init__(self, architecture: str) -> None:
        version = PTX_VERSIONS.get(architecture)
        if version is None:
            raise OptionError(
                "OPTION_GPU_ARCH",
                f"unknown GPU architecture {architecture!r}; there are: {', '.join(PTX_VERSIONS)}",
                hint="without --gpu-arch it is that of the first tensor's device; a newer GPU needs a newer weft",
            )
        self.architecture = architecture
        self.shared_memory_bytes = capabilities(architecture).max_shared
        self.machine: TargetMachine = llvm.Target.from_triple(TRIPLE).create_target_machine(
            cpu=architecture, features=f"+ptx{version}", opt=3
        )
        self._version = version
        self.target = Target(
            name=architecture,
            triple=TRIPLE,
            data_layout=str(self.machine.target_data),
            intrinsics=INTRINSICS,
            address_spaces={"global": 1, "shared": 3, "cluster": 7, "local": 0, "constant": 0},
            coordinates=_COORDINATES,
            # Else ptxas makes a shared array's address again, in three instructions, in each basic block.
            pointer_copy='asm "mov.b64 $0, $1;", "=l,l"',
            sync_scopes={"block": "block", "device": "device", "system": ""},
            capabilities=capabilities(architecture),
        )

    @cached_property
    def wide_machine(self) -> TargetMachine:
        """LLVM's target machine for kernels with accesses of 32 bytes.

        They need PTX 8.8; other kernels have their architecture's version, for older drivers and assemblers.
        """
        if not capabilities(self.architecture).vectors_32 or self._version >= _WIDE_VERSION:
            return self.machine
        target = llvm.Target.from_triple(TRIPLE)
        features = f"+ptx{_WIDE_VERSION}"
        return target.create_target_machine(cpu=self.architecture, features=features, opt=3)


@kept
def cuda_machine(architecture: str) -> CudaMachine:
    """The machine of an architecture.

    Raises:
        OptionError: if LLVM does not know it; the message lists the known ones.
    """
    initialize("nvptx")
    return CudaMachine(architecture)


_OPTION: Final = re.compile(r"--?maxrregcount(?:=(.*))?", re.DOTALL)
FEWEST: Final = 16
MOST: Final = 255


def take_register_limit(words: Sequence[str]) -> tuple[int | None, tuple[str, ...]]:
    """The limit of registers per thread, the last one if there are several, and the other words.

    Args:
        words: options for ptxas; the number is in the option's word or the next one.
    Raises:
        OptionError: if the number is missing, not an integer or out of range.
    Example:
        >>> take_register_limit(("-maxrregcount=64", "-dlcm=cg"))
        (64, ('-dlcm=cg',))
    """
    limit: int | None = None
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        option = _OPTION.fullmatch(word)
        if option is None:
            others.append(word)
        else:
            limit = _checked(option[1] if option[1] is not None else next(rest, None))
    return limit, tuple(others)


def _checked(text: str | None) -> int:
    number = int(text) if text is not None and re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
    if number is None or not FEWEST <= number <= MOST:
        raise OptionError(
            "OPTION_VALUE",
            f"-maxrregcount in --ptxas-options takes an integer from {FEWEST} to {MOST}, "
            f"received {'nothing' if text is None else brief(text)}",
            hint="@weft.kernel(max_registers=...) limits one kernel",
        )
    return number
