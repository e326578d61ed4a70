# SPDX-License-Identifier: Apache-2.0
"""Attributes an exception out of weft: to the user, the machine, or a defect of weft.

In: a caught exception with its frames. Out: whether the user's code raised it; which process limit it met.
"""

from __future__ import annotations

import errno
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

# The packages of weft's compiler. Failures in these and in Python's library are defects of weft.
_PARTS: Final = frozenset(("weft", "xdsl", "llvmlite", "immutabledict", "typing_extensions"))

HEAP_TYPE: Final = 1 << 9
"""The flag of a class that is not built into the interpreter."""

# Errors of the operating system: the exhausted resource, and its limit, if any.
_REFUSALS: Final = {
    errno.EMFILE: ("too many open files", "RLIMIT_NOFILE", "ulimit -n"),
    errno.ENFILE: ("too many open files on this machine", "", ""),
    errno.EAGAIN: ("no more threads or processes", "RLIMIT_NPROC", "ulimit -u"),
    errno.ENOMEM: ("no more memory", "RLIMIT_AS", "ulimit -v"),
    errno.EFBIG: ("a file is too large", "RLIMIT_FSIZE", "ulimit -f"),
    errno.ENOSPC: ("no space is left on the device", "", ""),
    errno.EDQUOT: ("no space is left in the user's quota", "", ""),
}


def is_the_users(error: BaseException) -> bool:
    """Whether it was raised by the user's code, or by code called from there: a property, a hook, a signal handler."""
    return any(not _is_a_part(frame.f_globals.get("__name__")) for frame in _frames(error))


def is_of_a_handler(error: BaseException) -> bool:
    """Whether a signal handler raised it, independently of the interrupted code."""
    import signal

    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame in _frames(error))


def limit_reached(error: BaseException) -> str:
    """The process or machine limit after an exception, in words; an empty string if none."""
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        number = errno.EAGAIN
    elif isinstance(error, OSError) and error.errno in _REFUSALS:
        number = error.errno
    else:
        return ""
    what, name, command = _REFUSALS[number]
    if not name:
        return what
    import resource

    limit = resource.getrlimit(getattr(resource, name))[0]
    value = "unlimited" if limit == resource.RLIM_INFINITY else limit
    return f"{what} ({name}, {command}: {value})"


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def top_package(module: object) -> str:
    """The package of a module's name; "" for none.

    The name may be anything: `exec` with a namespace of its own defines functions whose `__module__` is None.
    """
    return module.partition(".")[0] if isinstance(module, str) else ""


def package_of(item: object) -> str:
    """The package that defines a function, a class or a module; "" for one of no module.

    Of a class that `exec` defines in a namespace of its own, Python says that its module is `builtins`.
    """
    if isinstance(item, type) and item.__flags__ & HEAP_TYPE and item.__module__ == "builtins":
        return ""
    is_module = isinstance(item, ModuleType)
    return top_package(getattr(item, "__name__" if is_module else "__module__", None))


def is_of_weft(item: object) -> bool:
    """Whether a function, a class or a module is one of weft's own."""
    return package_of(item) == "weft"


def _is_a_part(module: object) -> bool:
    top = top_package(module)
    return top in _PARTS or top in sys.stdlib_module_names


def _code(handler: object) -> CodeType | None:
    """The code of a handler, which may be a method or a partial."""
    function = getattr(handler, "func", handler)
    return getattr(getattr(function, "__func__", function), "__code__", None)
