# SPDX-License-Identifier: Apache-2.0
"""Explains lists of numbers meant as tensors, which compiled code would take for tuples.

In: parameters and examples, around the trace. Out: the trace's error as one about the argument.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.base import MISSING
from weft.errors import CompileError, SignatureError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from weft.frontend.source.text import FunctionSource

# Errors about a tuple where a tensor would work.
_CODES: Final = ("TARGET", "INDEX_STAGED", "UNKNOWN_ATTRIBUTE", "KERNEL_ARGUMENT")


@contextlib.contextmanager
def explained(
    source: FunctionSource, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Generator[None]:
    """Explains failures in the `with` block caused by a list of numbers for a parameter without annotation.

    Raises:
        SignatureError: that names the argument, instead of an error about a tuple.
    """
    try:
        yield
    except CompileError as error:
        if error.code not in _CODES or "tuple" not in error.message:
            raise
        names = [p.name for p in source.parameters]
        given = {**dict(zip(names, arguments, strict=False)), **keywords}
        bare = [p.name for p in source.parameters if p.annotation is MISSING]
        lists = [name for name in bare if _holds_numbers(given.get(name))]
        if not lists:
            raise
        raise SignatureError(
            "ARGUMENT_LIST",
            f"{source.name}: argument '{lists[0]}': it is a list, which is a tuple in compiled code, but "
            f"is used as a tensor: {error.message}",
            hint=f"pass an array, such as numpy.asarray({lists[0]})",
        ) from error


def _holds_numbers(value: object) -> bool:
    if not isinstance(value, list):
        return False
    items = cast("list[object]", value)
    return all(isinstance(item, int | float) or _holds_numbers(item) for item in items)
