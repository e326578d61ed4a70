# SPDX-License-Identifier: Apache-2.0
"""Errors of the ABI and exceptions of Python, in both directions.

In: an exception, or an error that foreign code raised. Out: the other. An exception that crosses foreign code comes
back as the same object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from weft import _native
from weft.ffi.library import open_ffi_library
from weft.ffi.object import Object

if TYPE_CHECKING:
    from collections.abc import Callable


class Error(Object):
    """An FFI error: kind, message and backtrace.

    The backtrace is decoded on request. An error raised by foreign code arrives as a Python exception; `error_of`
    returns its `Error`.

    Example:
        >>> error = to_error(ValueError("too long"))
        >>> error.kind, error.message, error.exception()
        ('ValueError', 'too long', ValueError('too long'))
    """

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The name of the exception's class, such as ``"ValueError"``."""
        return _native.error_text(self, 0)

    @property
    def message(self) -> str:
        """Text of the error."""
        return _native.error_text(self, 1)

    @property
    def backtrace(self) -> str:
        """The frames it passed through, the most recent first; empty if none were recorded."""
        return _native.error_text(self, 2)

    @property
    def cause(self) -> Error | None:
        """The error that led to this one."""
        return _native.error_detail(self, False)

    @property
    def context(self) -> Any:
        """The cause that the raiser attached: the exception itself for an error from Python."""
        return _native.error_detail(self, True)

    def exception(self) -> BaseException:
        """The Python exception: the original if there is one, else a new one of the class for its kind."""
        return _native.exception_of_error(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Kind, message, backtrace and cause, for another process; the attached exception stays here."""
        return _native.make_error, (self.kind, self.message, self.backtrace, self.cause)

    def __repr__(self) -> str:
        return f"<weft.ffi.Error {self.kind}: {self.message}>"


def to_error(exception: BaseException) -> Error:
    """An FFI error that carries an exception, its traceback and its causes.

    Raises:
        TypeError: if it is not an exception.

    Example:
        >>> error = to_error(KeyError("no such name"))
        >>> error.kind, error.message
        ('KeyError', "'no such name'")
    """
    open_ffi_library()
    return _native.error_of_exception(exception)  # type: ignore[return-value]


def error_of(exception: BaseException) -> Error | None:
    """The FFI error that an exception was made from; None if foreign code added nothing.

    Example:
        >>> error_of(ValueError("raised by Python")) is None
        True
    """
    found = getattr(exception, "__ffi_error__", None)
    return found if isinstance(found, Error) else None


_Class = TypeVar("_Class", bound=type[BaseException])


def register_error(kind: str) -> Callable[[_Class], _Class]:
    """Registers an exception class for a kind of error, in both directions.

    Errors of unknown kinds raise RuntimeError; other exceptions take the kind of their nearest registered base.

    Example:
        >>> @register_error("CalibrationError")
        ... class CalibrationError(ValueError): ...
        >>> to_error(CalibrationError("off by one")).kind
        'CalibrationError'
    """

    def register(exception_class: _Class) -> _Class:
        _native.register_error_kind(kind, exception_class)
        return exception_class

    return register
