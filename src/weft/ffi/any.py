# SPDX-License-Identifier: Apache-2.0
"""Values of the ABI with explicit ownership: `Any` owns, `AnyView` borrows.

In: Python values, or a TVMFFIAny in memory. Out: the value moved out (`take`) or shared (`copy`).
"""

from __future__ import annotations

from typing import Final

from weft import _native

Any: Final = _native.OwnedAny
"""An FFI value that owns what it holds: ``Any(value)``, or ``Any.from_address(address, borrowed=...)``.

`copy()` returns the value with its own reference; `take()` moves it out, after which every use but `is_moved` raises
`ValueError`. `view()` borrows it. `type_index` and `type_key` name its type. As an argument it is passed unchanged,
without being encoded again.

Args:
    value: any argument of a foreign function that is not lent for one call only.

Raises:
    TypeError: for a lent value, at any depth: a `TensorView`, or a moved argument.
    ValueError: after `take()`.

Example:
    >>> value = Any([1, "two"])
    >>> value.type_key, value.copy(), value.take(), value.is_moved
    ('ffi.Array', (1, 'two'), (1, 'two'), True)
"""

AnyView: Final = _native.AnyView
"""A borrowed FFI value: from an `Any`, or from the caller of a callback wrapped with `views=True`.

It ends when the `Any` is taken or the callback returns; then every use raises `ValueError`. `copy()` returns the value
with its own reference, which may be kept; `to_any()` returns an owning `Any`, except for a tensor that is only lent
(`TypeError`).

Example:
    >>> value = Any([1, "two"])
    >>> view = value.view()
    >>> view.type_key, view.copy()
    ('ffi.Array', (1, 'two'))
    >>> sizes = wrap_function(lambda view: view.type_key, views=True)
    >>> sizes("a text of some length")
    'ffi.String'
"""
