# SPDX-License-Identifier: Apache-2.0
"""The sanitizer's checks, as users name them, the kinds of what they find, and `with weft.sanitize():`.

In: a text such as ``"bounds"``. Out: the same in one order, or None; the kinds, from the runtime's table; a context
manager: the compiler reads the configuration that it sets, for functions compiled and called inside.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from weft import _native
from weft.config import SANITIZER_MODES, Config, config, override
from weft.errors import OptionError, UnavailableError, brief

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence
    from contextlib import AbstractContextManager


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


def sanitize(*checks: str, continue_: bool = False) -> AbstractContextManager[None]:
    """Compiles functions called inside the ``with`` with ``--sanitize``, as ``weft.compile`` there does.

    Each `weft.jit` function is compiled anew for its calls inside; outside, calls are as fast as before. What was
    compiled by `weft.compile` earlier is not checked. It concerns the running thread or task. Calls for
    a target without these checks are refused inside; a GPU has ``"bounds"``, and tells at the next call or
    `weft.synchronize`.

    Args:
        *checks: names as for the option ``--sanitize``; none means ``"bounds"``. Nested ones add up.
        continue_: a launch goes on after a finding, and all are reported at its end, equal ones as one.

    Raises:
        OptionError: for an unknown name.

    Example:
        >>> import numpy, weft
        >>> @weft.kernel
        ... def shift_kernel(a: weft.Tensor, b: weft.Tensor):
        ...     i = weft.thread_idx.x
        ...     b[i] = a[i + 1]
        >>> x = numpy.ones(4, numpy.float32)
        >>> with weft.sanitize():
        ...     try:
        ...         shift_kernel[1, 4](x, numpy.zeros_like(x))
        ...     except weft.SanitizerError as error:
        ...         print(error.reports[0].text)
        a[4] is read: index 0 is 4, and a.shape[0] is 4
    """
    for check in checks:
        if ordered_checks(check) is None:
            raise OptionError(
                "OPTION_VALUE",
                f"weft.sanitize takes {TAKES.removesuffix(', separated by commas')}, received {brief(check)}",
            )
    words = checks if set(checks) - set(SANITIZER_MODES) else ("bounds", *checks)
    return _switched(",".join([*words, *(["continue"] if continue_ else [])]))


@contextmanager
def _switched(checks: str) -> Generator[None]:
    outer = config.sanitize
    with override(sanitize=f"{outer},{checks}" if outer else checks):
        yield
