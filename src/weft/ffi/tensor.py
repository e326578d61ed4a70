# SPDX-License-Identifier: Apache-2.0
"""Tensors of the ABI, and their zero-copy exchange through DLPack, versioned and legacy.

`Tensor` is a counted object (type index 70), `TensorView` a DLTensor* (7).

In: arrays of any library, capsules. Out: tensors over the same memory, capsules, and arrays and numbers again.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.ffi.object import Object
from weft.types.dtype_info import INFO

if TYPE_CHECKING:
    from collections.abc import Iterator

# Types that ml_dtypes adds to NumPy, by DLPack code and bits: weft's own, and those that only pass through.
_ML_DTYPES: Final = {
    **{(info.dlpack_code, info.bits): info.numpy for info in INFO.values() if info.is_of_ml_dtypes},
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (11, 8): "float8_e4m3fnuz",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}


class Tensor(_native.Tensor, Object):
    """An owned FFI tensor, which keeps its memory alive. Any array library accepts it through DLPack.

    `weft.ffi.from_dlpack` makes one from an array without a copy; `weft.empty`, `weft.zeros` and `weft.full` make new
    ones. On the host it is an array in its own right: ``tensor[i, j]`` is a number; slices, ``...`` and None give
    tensors over the same memory; ``tensor[index] = value`` writes a number everywhere, or an array of the same shape
    and type. ``len``, iteration, ``tolist()``, ``tobytes()`` and, of one element, ``item()`` read it;
    ``numpy.asarray(tensor)`` and ``memoryview(tensor)`` copy nothing. GPU memory can be sliced; reading it is a
    `ValueError` (a `BufferError` from the protocols) that says how to copy it to the host:
    ``weft.copy(weft.empty(tensor.shape, dtype), tensor)``.

    Example:
        >>> import numpy as np, weft, weft.ffi
        >>> tensor = weft.ffi.from_dlpack(np.zeros((2, 3), np.float32))
        >>> tensor.shape, tensor.dtype, tensor.device, np.from_dlpack(tensor).shape
        ((2, 3), DataType('float32'), Device('cpu'), (2, 3))
        >>> tensor[1] = 2.5
        >>> tensor[1, 0], tensor[:, ::2].tolist(), np.asarray(tensor).sum()
        (2.5, [[0.0, 0.0], [2.5, 2.5]], np.float32(7.5))
    """

    __slots__ = ()
    __dlpack_c_exchange_api__ = _native.tensor_exchange_api()
    __contains__ = None  # by `==` of the rows, which are tensors, it would be False for all

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def to(self, array_type: type) -> Any:
        """An array of another library over the same memory: ``tensor.to(numpy.ndarray)``.

        Raises:
            TypeError: if the class is not an array class, or is torch's and a stride is negative.
        """
        return to_array(self, array_type)


TensorView: Final = _native.TensorView
"""An array as a DLTensor*, for functions that take no tensor objects: ``function(TensorView(array))``.

Callbacks receive views of tensors that are only lent to them. Such a view ends when the callback returns: using it
later raises, and so does the callback if an array made from it is still alive.

Example:
    >>> array = np.zeros((2, 3), np.float32)
    >>> view = TensorView(array)
    >>> view.shape, view.dtype, np.from_dlpack(view).shape
    ((2, 3), DataType('float32'), (2, 3))
    >>> wrap_function(lambda given: given.type_key, views=True)(view)
    'DLTensor*'
"""


def from_dlpack(value: object, *, writable: bool = False) -> Tensor:
    """A tensor object over the memory of an array, without a copy.

    Args:
        value: an array of any library (also read-only, strided, or of a type that NumPy lacks), a tensor
            of tvm_ffi, a buffer, or a DLPack capsule, which is consumed.
        writable: your promise that the memory may be written although the array's library never does; without it JAX's
            arrays are read-only. Writes show in every array that shares the memory, and in the library's own cached
            results.

    Returns:
        A `Tensor` that keeps the memory alive and remembers whether it is read-only.

    Raises:
        BufferError: if `writable` and the memory itself is read-only.
        TypeError: if it is not a tensor, or has no memory of its own.
        ValueError: if its memory needs interpretation: a conjugate view, swapped bytes.

    Example:
        >>> import numpy as np
        >>> array = np.arange(3)
        >>> array.flags.writeable = False
        >>> from_dlpack(array).read_only
        True
    """
    return _native.from_dlpack(value, writable)  # type: ignore[return-value]


def to_dlpack(value: object, *, versioned: bool = True) -> object:
    """A DLPack capsule over the memory of any tensor, for consumers that take capsules.

    Args:
        value: as for `from_dlpack`.
        versioned: DLPack 1.0, which can mark memory read-only; False gives the older form.

    Raises:
        BufferError: if the memory is read-only and the older form is requested.
        TypeError: if elements run backward: torch, which takes most capsules, aborts the process on them.

    Example:
        >>> import numpy as np
        >>> "dltensor_versioned" in repr(to_dlpack(np.zeros(3)))
        True
    """
    return _native.from_dlpack(value).__dlpack__(max_version=(1, 1) if versioned else None)


def to_array(value: object, array_type: type) -> Any:
    """An array of a library's class over the memory of any tensor, without a copy.

    Args:
        value: as for `from_dlpack`.
        array_type: ``numpy.ndarray``, ``torch.Tensor``, ``cupy.ndarray``, ``jax.Array``, `Tensor`, ...

    Raises:
        TypeError: if it is not an array class, or the library cannot hold the tensor.

    Example:
        >>> import numpy as np, weft.ffi
        >>> to_array(weft.ffi.from_dlpack(bytearray(3)), np.ndarray)
        array([0, 0, 0], dtype=uint8)
    """
    owned = _native.OwnedAny(_native.from_dlpack(value))
    made = owned.take(tensor_type=array_type)
    if isinstance(made, array_type):
        return made
    raise TypeError(f"{array_type.__module__}.{array_type.__name__} cannot hold {made!r}")


def to_numpy_or_tensor(source: _native.Tensor | _native.TensorView) -> object:
    """A NumPy array of an ml_dtypes type, or the source itself if NumPy has no such type.

    Called by the extension for tensors that `numpy.from_dlpack` does not know.
    """
    dtype = _ml_dtype(source)
    # Code that asks for a NumPy array has imported NumPy.
    return source if dtype is None else _reinterpreted(source, dtype, sys.modules["numpy"])


def to_numpy(
    source: _native.Tensor | _native.TensorView, dtype: object = None, copy: bool | None = None
) -> Any:
    """What ``__array__`` of a tensor gives: a NumPy array over the host's memory, or a copy by NumPy's rules.

    Called by the extension.

    Raises:
        BufferError: the memory is on a GPU, or NumPy has no such type without ml_dtypes.
        ValueError: a copy is needed, and `copy` is False.
    """
    numpy: Any = import_module("numpy")
    added = _ml_dtype(source)
    array = memoryview(source) if added is None else _reinterpreted(source, added, numpy)
    return numpy.array(array, dtype=dtype, copy=copy)


def _ml_dtype(source: _native.Tensor | _native.TensorView) -> Any:
    """The type that ml_dtypes adds to NumPy for a tensor's elements; None where there is none."""
    code, bits, lanes = source.dtype
    name = _ML_DTYPES.get((code, bits))
    if name is None or lanes != 1:
        return None
    try:
        return getattr(import_module("ml_dtypes"), name, None)
    except ImportError:
        return None


def _reinterpreted(source: _native.Tensor | _native.TensorView, dtype: Any, numpy: Any) -> Any:
    """A NumPy array of a type that the buffer protocol lacks, through unsigned integers of its size."""
    capsule = _native.export_as(source, 1, source.dtype[1], max_version=(1, 1))
    return numpy.asarray(_native.from_dlpack(capsule)).view(dtype)
