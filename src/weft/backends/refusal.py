# SPDX-License-Identifier: Apache-2.0
"""Operations that a backend lacks, refused by name before anything is printed.

In: kernels, a backend's table `UNSUPPORTED`, its target. Out: None or an error with the place in the user's source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.builder import source_location
from weft.dialects.definition import DependsOnWarps
from weft.dialects.flow import walk
from weft.errors import UnavailableError
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xdsl.ir import Operation

    from weft.codegen.llvm.target import Target


def refuse_unsupported(
    kernels: Iterable[Operation], unsupported: Mapping[type[Operation], str], target: Target
) -> None:
    """Checks that the kernels hold none of these operations, nor any that depends on warps, if these have another size.

    Args:
        kernels: to be printed.
        unsupported: operation class → the message for users.
        target: printed for.

    Raises:
        UnavailableError: for the first one found, with its place.
    """
    of_warps = None
    if target.warp_size != WARP_SIZE:
        of_warps = f"a warp of {target.name} has {target.warp_size} threads, and the language's have {WARP_SIZE}"
    for kernel in kernels if unsupported or of_warps else ():
        for operation in walk(kernel):
            sentence = unsupported.get(type(operation))
            if of_warps and operation.has_trait(DependsOnWarps):
                sentence = of_warps
            if sentence is not None:
                raise UnavailableError(
                    "TARGET_OPERATION",
                    f"{operation.name}: {sentence}",
                    location=source_location(operation.location),
                )
