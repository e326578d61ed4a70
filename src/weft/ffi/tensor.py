# SPDX-License-Identifier: Apache-2.0
"""Tensors of the ABI: `Tensor` is a counted object (type index 70), `TensorView` a DLTensor* (7).

In: arrays of any library. Out: tensors over the same memory, and arrays again. Next: dlpack.
"""

from __future__ import annotations

from typing import Any, Final

from weft import _native
from weft.ffi.object import Object


class Tensor(_native.Tensor, Object):
    """An FFI tensor, owned: it keeps its memory alive. Any array library takes it through DLPack.

    `weft.ffi.from_dlpack` makes one of an array without a copy.

    Example:
        >>> import numpy as np, weft.ffi
        >>> tensor = weft.ffi.from_dlpack(np.zeros((2, 3), np.float32))
        >>> tensor.shape, tensor.dtype, tensor.device, np.from_dlpack(tensor).shape
        ((2, 3), DataType('float32'), Device('cpu'), (2, 3))
    """

    __slots__ = ()
    __dlpack_c_exchange_api__ = _native.tensor_exchange_api()

    def to(self, array_type: type) -> Any:
        """An array of another library over the same memory: ``tensor.to(numpy.ndarray)``.

        Raises:
            TypeError: if the class is none of an array library.
        """
        from weft.ffi.dlpack import to_array

        return to_array(self, array_type)


TensorView: Final = _native.TensorView
"""An array as a DLTensor*, for functions that take no tensor objects: ``function(TensorView(array))``.

Callbacks are given views of tensors that are only lent to them. Such a view ends when the callback
returns: using it afterwards raises, and so does the callback if an array made of it is still there.

Example:
    >>> array = np.zeros((2, 3), np.float32)
    >>> view = TensorView(array)
    >>> view.shape, view.dtype, np.from_dlpack(view).shape
    ((2, 3), DataType('float32'), (2, 3))
    >>> wrap_function(lambda given: given.type_key, views=True)(view)
    'DLTensor*'
"""
