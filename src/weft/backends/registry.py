# SPDX-License-Identifier: Apache-2.0
"""The backends, by name.

In: a name. Out: a backend, from this table or from another package's entry point
`weft.backends`. Importing registers nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.blame import is_of_a_handler
from weft.errors import OptionError
from weft.imports import imported
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

    from weft.backends.base import Backend

ENTRY_POINT: Final = "weft.backends"

# Name -> module with a function `make_backend()`; imported on first use.
BACKENDS: Final = {
    "cpu": "weft.backends.cpu.backend",
    "cuda": "weft.backends.cuda.backend",
}


_MEMBERS: Final = (
    *("name", "device_type", "architectures", "default_architecture", "stages"),
    *("runs_on_host", "find_architecture", "compile", "disassemble"),
)


@kept
def find_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        OptionError: if there is none; the message lists all names. If another package's cannot be loaded or
            lacks a part of the protocol; the message names the package.
    Example:
        >>> find_backend("cpu").name
        'cpu'
    """
    module_name = BACKENDS.get(name)
    if module_name is not None:
        return imported(module_name).make_backend()
    points = _entry_points()
    if name in points:
        return _load(points[name])
    raise OptionError(
        "OPTION_TARGET",
        f"there is no target {name!r}; there are: {', '.join([*BACKENDS, *points])}",
        hint="another package can add one under the entry point weft.backends",
    )


def find_target(architecture: str | None) -> str | None:
    """The target that an architecture belongs to, or None.

    Packages are imported only for an architecture that no backend of the table accepts.

    Example:
        >>> find_target("sm_90a"), find_target("sm90")
        ('cuda', None)
    """
    if not architecture:  # packages are not searched
        return None
    import re

    fitting = (each.name for each in _backends() if re.fullmatch(each.architectures, architecture))
    return next(fitting, None)


def find_backend_of(device_type: int) -> Backend | None:
    """The backend for tensors of a DLDeviceType, or None."""
    return next((each for each in _backends() if each.device_type == device_type), None)


def _backends() -> Iterator[Backend]:
    """All backends, made one at a time."""
    yield from map(find_backend, BACKENDS)
    yield from map(find_backend, _entry_points())


def _entry_points() -> dict[str, EntryPoint]:
    """Other packages' backends, by name, not imported; the table's names take precedence."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINT)}


def _load(point: EntryPoint) -> Backend:
    """Imports another package's class or function and makes the backend."""
    try:
        backend = point.load()()
    except Exception as error:
        if is_of_a_handler(error):
            raise
        raise OptionError(
            "OPTION_TARGET",
            f"the target {point.name!r} of {_package_of(point)} cannot be used: "
            f"{point.value} raised {type(error).__name__}: {error}",
            hint="the package is broken, or made for another version of weft",
        ) from error
    missing = [member for member in _MEMBERS if not hasattr(backend, member)]
    if missing or backend.name != point.name:
        said = f"lacks {', '.join(missing)}" if missing else f"calls itself {backend.name!r}"
        raise OptionError(
            "OPTION_TARGET",
            f"the target {point.name!r} of {_package_of(point)} {said}",
            hint="weft.backends.base.Backend describes a backend's members; its name is that of its entry point",
        )
    return backend


def _package_of(point: EntryPoint) -> str:
    distribution = point.dist
    return "another package" if distribution is None else f"the package {distribution.name}"
