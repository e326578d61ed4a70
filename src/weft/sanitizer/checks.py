# SPDX-License-Identifier: Apache-2.0
"""The names of the sanitizer's checks, as users give them.

In: a text such as ``"bounds"``. Out: the same in one order, or None; what a later version has is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.config import SANITIZER_CHECKS, Config
from weft.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

LATER_CHECKS: Final = tuple(
    name
    for name in ("bounds", "races", "barriers", "uninit", "overflow", "async", "all")
    if name not in SANITIZER_CHECKS
)
"""Planned checks that this version does not have yet."""
_VARIABLE: Final = vars(Config)["sanitize"]


def ordered_checks(value: object) -> str | None:
    """The checks of a text, each once and in their order; None for any other value.

    Raises:
        UnavailableError: for a check that a later version has.

    Example:
        >>> ordered_checks("bounds, bounds"), ordered_checks("bound")
        ('bounds', None)
    """
    words = value.replace(" ", "").split(",") if isinstance(value, str) else []
    for word in words:
        if word in LATER_CHECKS:
            raise UnavailableError(
                "OPTION_NOT_AVAILABLE",
                f"option --sanitize={word} is not available in this version",
                hint=f"it takes some of {', '.join(SANITIZER_CHECKS)}, separated by commas",
            )
    return _VARIABLE.ordered(value) if _VARIABLE.accepts(value) else None


def unchecked_target(name: str, unknown: Collection[str], known: Sequence[str]) -> UnavailableError:
    """The error for a target whose kernels cannot be checked so.

    Args:
        name: of the target.
        unknown: the checks that it does not have.
        known: those that it has.
    """
    missing = ",".join(check for check in SANITIZER_CHECKS if check in unknown)
    return UnavailableError(
        "OPTION_NOT_AVAILABLE",
        f"option --sanitize={missing} is not available for the target {name} in this version",
        hint=f"leave it out, compile with --target cpu, or ask for {','.join(known)}"
        if known
        else "leave it out, or compile with --target cpu",
    )
