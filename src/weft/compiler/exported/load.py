# SPDX-License-Identifier: Apache-2.0
"""Loads functions from exported files.

In: a path. Out: the same callable that was exported.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.compiler.exported.record import function_of, name_of
from weft.compiler.exported.sections import records
from weft.errors import ExportError, brief

if TYPE_CHECKING:
    import os

_LISTED: Final = 20
"""Functions that a message names."""


def load(path: str | os.PathLike[str], name: str | None = None) -> Any:
    """A function of a file that `weft.export` wrote: a shared library, an archive or an object.

    It is the callable that was exported, with its signature, keywords, defaults and results, and is linked into this
    process as one that was just compiled; neither the compiler nor the file's own runtime is loaded. As with any
    library, load only files that you trust: they hold code.

    Args:
        path: of the file.
        name: of the function; None if the file has one.

    Raises:
        ExportError: if there is no such file or function, or the file is damaged or for other CPUs.

    Example:
        >>> weft.export("library.so", [fn])
        (PosixPath('library.so'), PosixPath('library.h'))
        >>> weft.load("library.so", "add")(a, b)
    """
    file = Path(path)
    try:
        found = records(file.read_bytes())
    except OSError as error:
        raise ExportError(
            "EXPORT_FILE", f"cannot read {file}: {error.strerror or error}"
        ) from error
    except ValueError:
        raise ExportError(
            "EXPORT_DAMAGED", f"{file} is truncated", hint="export the functions again"
        ) from None
    if not found:
        raise ExportError(
            "EXPORT_FILE",
            f"{file} holds no function that weft exported",
            hint="weft.export writes .so, .a and .o files that do; tvm_ffi.load_module loads others",
        )
    if name is None and len(found) == 1:
        return function_of(found[0], str(file))
    names = {name_of(record, str(file)): record for record in found}
    if name in names:
        return function_of(names[name], str(file))
    listed = ", ".join(sorted(names)[:_LISTED])
    if len(names) > _LISTED:
        listed += f" and {len(names) - _LISTED:,} more"
    raise ExportError(
        "EXPORT_FILE",
        f"{file} has no function {brief(name)}" if name else f"{file} has {len(names)} functions",
        hint=f"name one of them: {listed}",
    )
