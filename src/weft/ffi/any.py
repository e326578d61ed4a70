# SPDX-License-Identifier: Apache-2.0
"""Values of the ABI with their ownership in sight: `Any` owns, `AnyView` borrows.

In: Python values, or a TVMFFIAny in memory. Out: the value moved out (`take`) or shared (`copy`).
"""

from __future__ import annotations

from typing import Final

from weft import _native

Any: Final = _native.OwnedAny
"""An FFI value that owns what it holds: ``Any(value)``, or ``Any.from_address(address, borrowed=...)``.

`copy()` gives the value with a reference of its own, `take()` moves it out and leaves nothing: after that every use
but `is_moved` raises `ValueError`. `view()` borrows from it. `type_index` and `type_key` say what it is. As an
argument it is passed as it is, without being encoded again.

Args:
    value: any argument of a foreign function, but nothing that is lent for one call only.

Raises:
    TypeError: for what is lent, at any depth: a `TensorView`, or a moved argument.
    ValueError: after `take()`.

Example:
    >>> value = Any([1, "two"])
    >>> value.type_key, value.copy(), value.take(), value.is_moved
    ('ffi.Array', (1, 'two'), (1, 'two'), True)
"""

AnyView: Final = _native.AnyView
"""An FFI value that is borrowed: from an `Any`, or from the caller of a callback that was wrapped with `views=True`.

It ends when the `Any` is taken or the callback returns; then every use raises `ValueError`. `copy()` gives the value
with a reference of its own, which may be kept; `to_any()` gives an `Any` that owns the value, but for a tensor
that is only lent (`TypeError`).

Example:
    >>> value = Any([1, "two"])
    >>> view = value.view()
    >>> view.type_key, view.copy()
    ('ffi.Array', (1, 'two'))
    >>> sizes = wrap_function(lambda view: view.type_key, views=True)
    >>> sizes("a text of some length")
    'ffi.String'
"""
