# SPDX-License-Identifier: Apache-2.0
"""``-maxrregcount`` in the assembler's options: it becomes each kernel's own limit in the PTX.

The assembler ignores the option for a kernel with a known block size, which weft states whenever it is constant.
In: words for the assembler. Out: the limit, and the other words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from weft.errors import OptionError, brief

if TYPE_CHECKING:
    from collections.abc import Sequence

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
