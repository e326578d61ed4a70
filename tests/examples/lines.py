# SPDX-License-Identifier: Apache-2.0
"""How long an example's source is."""

from __future__ import annotations

import inspect
from collections.abc import Callable


def code_lines(function: Callable[..., object]) -> int:
    """Lines of a function with its decorators, without empty ones."""
    return sum(bool(line.strip()) for line in inspect.getsource(function).splitlines())
