# SPDX-License-Identifier: Apache-2.0
"""The sanitizer's checks, as users name them, and the kinds of what they find.

In: a text such as ``"bounds"``. Out: the same in one order, or None; the kinds, from the runtime's table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from weft import _native
from weft.config import Config
from weft.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_VARIABLE: Final = vars(Config)["sanitize"]


class Kind(NamedTuple):
    """One kind of finding: its name in the runtime, the words of a report, the check that looks for it."""

    name: str
    words: str
    check: str


KINDS: Final = tuple(map(Kind, _native.CHECK_KINDS, _native.CHECK_WORDS, _native.CHECK_OPTIONS))
"""The kinds of checks: `WEFT_CHECK_KINDS` of native/include/weft/runtime_table.h."""
TAKES: Final = str(_VARIABLE.kind)
"""The values of the option, in words."""


def ordered_checks(value: object) -> str | None:
    """The checks of a text, each once and in their order; None for any other value.

    Example:
        >>> ordered_checks("races, bounds"), ordered_checks("all"), ordered_checks("bound")
        ('bounds,races', 'bounds,races,barriers,uninit,async', None)
    """
    return _VARIABLE.ordered(value) if _VARIABLE.accepts(value) else None


def unchecked_target(name: str, unknown: Collection[str], known: Sequence[str]) -> UnavailableError:
    """The error for a target whose kernels cannot be checked so.

    Args:
        name: of the target.
        unknown: the checks that it does not have.
        known: those that it has.
    """
    missing = ",".join(check for check in _VARIABLE.words if check in unknown)
    return UnavailableError(
        "OPTION_NOT_AVAILABLE",
        f"option --sanitize={missing} is not available for the target {name} in this version",
        hint=f"leave it out, compile with --target cpu, or ask for {','.join(known)}"
        if known
        else "leave it out, or compile with --target cpu",
    )
