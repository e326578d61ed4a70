# SPDX-License-Identifier: Apache-2.0
"""Operations that a backend does not have, refused by name before anything is printed.

In: kernels, a backend's table `UNSUPPORTED`. Out: None or an error with the place in the user's source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.builder import source_location
from weft.dialects.walk import walk
from weft.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xdsl.ir import Operation


def refuse_unsupported(
    kernels: Iterable[Operation], unsupported: Mapping[type[Operation], str]
) -> None:
    """Checks that the kernels hold none of these operations.

    Args:
        kernels: what is to be printed.
        unsupported: operation class → the sentence that users read.
    Raises:
        UnavailableError: for the first one that is found, with its place.
    """
    if not unsupported:
        return
    for kernel in kernels:
        for operation in walk(kernel):
            sentence = unsupported.get(type(operation))
            if sentence is not None:
                raise UnavailableError(
                    "TARGET_OPERATION",
                    f"{operation.name}: {sentence}",
                    location=source_location(operation.location),
                )
