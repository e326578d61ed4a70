# SPDX-License-Identifier: Apache-2.0
"""Which backends there are, by name.

In: a name. Out: a backend: of the table here, or of another package that names one under the entry point
`weft.backends`. Nothing registers itself by being imported. Next: cpu.backend, cuda.backend.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Final

from weft.errors import OptionError

if TYPE_CHECKING:
    from weft.backends.base import Backend

ENTRY_POINT: Final = "weft.backends"

# Name -> module with a function `make_backend()`; imported when it is first asked for.
BACKENDS: Final = {
    "cpu": "weft.backends.cpu.backend",
    "cuda": "weft.backends.cuda.backend",
}


@functools.cache
def find_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        OptionError: if there is none; the message lists all names.
    Example:
        >>> find_backend("cpu").name
        'cpu'
    """
    module_name = BACKENDS.get(name)
    if module_name is not None:
        return importlib.import_module(module_name).make_backend()
    outside = _outside_backends()
    if name in outside:
        return outside[name]()
    raise OptionError(
        "OPTION_TARGET",
        f"there is no target {name!r}; there are: {', '.join([*BACKENDS, *outside])}",
        hint="another package can add one under the entry point weft.backends",
    )


def _outside_backends() -> dict[str, type[Backend]]:
    """Backends of other packages: entry point name → class or function that makes one."""
    from importlib.metadata import entry_points

    return {point.name: point.load() for point in entry_points(group=ENTRY_POINT)}
