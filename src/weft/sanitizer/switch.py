# SPDX-License-Identifier: Apache-2.0
"""`with weft.sanitize():` switches checks on for what is compiled and called inside.

In: names of checks. Out: a context manager; the compiler reads the configuration that it sets.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.config import SANITIZER_MODES, config, override
from weft.errors import OptionError, brief
from weft.sanitizer.checks import TAKES, ordered_checks

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager


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
