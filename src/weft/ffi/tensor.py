# SPDX-License-Identifier: Apache-2.0
"""Tensors of the ABI, and their zero-copy exchange through DLPack, versioned and legacy.

`Tensor` is a counted object (type index 70), `TensorView` a DLTensor* (7).

In: arrays of any library, capsules; arrays of bytes, as tensors of packed elements (`weft.packed`); an address, a
shape, strides, an element type and a device, with something that keeps the memory alive: nothing is checked there,
fields may be wrong on purpose. Out: tensors over the same memory, capsules, and arrays and numbers again. An array's
library decides the stream, also of packed elements.
"""

from __future__ import annotations

import ctypes
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.ffi.object import Object
from weft.memo import kept
from weft.types.dtype import INFO, DType, dtype_from_dlpack, packed_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Types that ml_dtypes adds to NumPy, by DLPack code and bits: weft's own, and those that only pass through.
_ML_DTYPES: Final = {
    **{(info.dlpack_code, info.bits): info.numpy for info in INFO.values() if info.is_of_ml_dtypes},
    (7, 8): "float8_e3m4",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (11, 8): "float8_e4m3fnuz",
    (13, 8): "float8_e5m2fnuz",
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
    """Result of a tensor's ``__array__``: a NumPy array over the host's memory, or a copy by NumPy's rules.

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


_CAPSULE: Final = b"dltensor"


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensor(ctypes.Structure):
    _fields_ = (
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class Borrowed:
    """A tensor over borrowed memory, which must outlive everything made of it.

    Args:
        data: the address.
        shape: in elements.
        strides: in elements; None: a null pointer, which means row-major.
        dtype: DLPack's code, bits and lanes.
        device: DLPack's device type and ordinal.
        byte_offset: from the address to the first element.
    """

    def __init__(
        self,
        data: int,
        shape: Sequence[int],
        strides: Sequence[int] | None,
        dtype: tuple[int, int, int],
        device: tuple[int, int] = (1, 0),
        byte_offset: int = 0,
    ) -> None:
        self.data, self.shape, self.strides = data, shape, strides
        self.dtype, self.device, self.byte_offset = dtype, device, byte_offset

    def __dlpack__(self, **_: object) -> object:
        """A capsule with a structure of its own, in a block of the C library, which its deleter frees."""
        malloc, new_capsule, free = _library()
        rank, head = len(self.shape), ctypes.sizeof(_DLManagedTensor)
        block = malloc(head + 16 * rank)
        if block is None:
            raise MemoryError
        numbers = (ctypes.c_int64 * (2 * rank)).from_address(block + head)
        numbers[:] = [*self.shape, *(self.strides or [0] * rank)]
        pointers = (ctypes.c_int64 * rank).from_address
        shape, strides = pointers(block + head), pointers(block + head + 8 * rank)
        managed = _DLManagedTensor.from_address(block)
        managed.tensor = DLTensor(
            self.data, *self.device, rank, *self.dtype, shape, strides, self.byte_offset
        )
        if self.strides is None:
            managed.tensor.strides = None
        managed.context, managed.deleter = None, free
        return new_capsule(block, _CAPSULE, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def tensor_at(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: tuple[int, int, int],
    device: tuple[int, int],
) -> Any:
    """A tensor over memory that the caller keeps alive; arguments as for `Borrowed`."""
    return _native.from_dlpack(Borrowed(address, shape, strides, dtype, device).__dlpack__())


@kept
def _library() -> tuple[Any, Any, int]:
    """The C library's `malloc`, Python's `PyCapsule_New`, and the address of `free`."""
    c = ctypes.CDLL(None)
    c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    address = ctypes.cast(c.free, ctypes.c_void_p).value
    assert address is not None
    return c.malloc, new, address


class Packed(_native.Packed):
    """An array of bytes as elements of less than a byte, an argument of compiled functions.

    Attributes:
        array: that was packed.
        shape: dims, in elements.
    """

    __slots__ = ()

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        found = dtype_from_dlpack(self.code, self.bits, 1)
        assert found is not None
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return packed, (self.array, self.dtype)

    def __repr__(self) -> str:
        return (
            f"<weft packed {self.dtype.name}, shape={self.shape}, of {type(self.array).__name__}>"
        )


def packed(array: Any, dtype: object) -> Packed:
    """`weft.packed` outside compiled code.

    Raises:
        TypeError: `array` is not one of bytes, or `dtype` not a packed type.
        ValueError: the bytes are not adjacent along the last dimension.
    """
    if not isinstance(dtype, DType) or not dtype.is_packed:
        raise TypeError(f"packed: expected {packed_names()}, received {dtype!r}")
    return Packed(array, dtype.dlpack_code, dtype.bits)
