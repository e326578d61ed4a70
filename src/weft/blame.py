# SPDX-License-Identifier: Apache-2.0
"""Whose an exception is that comes out of weft: the user's, the machine's, or a defect of weft's own.

In: an exception that was just caught, with its frames. Out: whether code of the user raised it; which limit of the
process it met.
"""

from __future__ import annotations

import errno
import resource
import signal
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

# What weft's compiler is made of. With Python's library this is all that fails because of a defect of weft.
_PARTS: Final = frozenset(("weft", "xdsl", "llvmlite", "immutabledict", "typing_extensions"))

# What the operating system refuses: what there is too much or too little of, and the limit, where it is one.
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
    """Whether code of the user raised it, or what this code called: a property, a hook, a signal's handler."""
    return any(not _is_a_part(frame.f_globals.get("__name__", "")) for frame in _frames(error))


def is_of_a_handler(error: BaseException) -> bool:
    """Whether a signal's handler raised it: it has nothing to do with the code that was interrupted."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame in _frames(error))


def limit_reached(error: BaseException) -> str:
    """Which limit of the process or the machine an exception is about, in words; an empty string for none."""
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        number = errno.EAGAIN
    elif isinstance(error, OSError) and error.errno in _REFUSALS:
        number = error.errno
    else:
        return ""
    what, name, command = _REFUSALS[number]
    if not name:
        return what
    limit = resource.getrlimit(getattr(resource, name))[0]
    value = "unlimited" if limit == resource.RLIM_INFINITY else limit
    return f"{what} ({name}, {command}: {value})"


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _is_a_part(module: str) -> bool:
    top = module.partition(".")[0]
    return top in _PARTS or top in sys.stdlib_module_names


def _code(handler: object) -> CodeType | None:
    """The code of a handler, which may be a method or a partial."""
    function = getattr(handler, "func", handler)
    return getattr(getattr(function, "__func__", function), "__code__", None)
