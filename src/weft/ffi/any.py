# SPDX-License-Identifier: Apache-2.0
"""Values of the ABI with their ownership in sight: `Any` owns, `AnyView` borrows.

In: Python values, or a TVMFFIAny in memory. Out: the value moved out (`take`) or shared (`copy`).
Next: object.
"""

from __future__ import annotations

from typing import Final

from weft import _native

Any: Final = _native.OwnedAny
"""An FFI value that owns what it holds; see `help(weft.ffi.Any)`.

Example:
    >>> value = Any([1, "two"])
    >>> value.copy(), value.take(), value.is_moved
    ((1, 'two'), (1, 'two'), True)
"""

AnyView: Final = _native.AnyView
"""An FFI value that is borrowed, from an `Any` or from the caller of a callback."""
