# SPDX-License-Identifier: Apache-2.0
"""Tensors cross without a copy, in both directions, with everything that describes them."""

from __future__ import annotations

import array
import ctypes
import gc
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

from tests.native.callee import CPU, CUDA
from tests.native.callee import library as callee
from tests.native.test_tensor_protocols import Producer, new_capsule
from weft import _native, ffi

pytestmark = pytest.mark.joined


def layouts():
    base = np.arange(120.0).reshape(4, 5, 6)
    yield base
    yield base[::2, 1:, 3:]
    yield base.transpose(2, 0, 1)
    yield base[::-1, :, ::-2]
    yield np.array(3.0)
    yield np.zeros((3, 0, 2))
    yield np.broadcast_to(np.zeros((3, 1)), (3, 4))
    yield np.zeros((1,) * 10 + (2, 3))


@pytest.mark.parametrize("source", list(layouts()), ids=lambda source: str(source.shape))
def test_every_layout_is_kept(source):
    tensor = ffi.from_dlpack(source)
    assert tensor.shape == source.shape
    assert tensor.data + tensor.byte_offset == source.ctypes.data
    assert (tensor.ndim, tensor.size) == (source.ndim, source.size)
    assert tensor.read_only != source.flags.writeable
    if source.size:
        assert tensor.is_contiguous == source.flags.c_contiguous
    again = np.from_dlpack(tensor)
    assert np.array_equal(again, source)
    assert again.shape == source.shape
    assert source.size == 0 or np.shares_memory(again, source)


DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_of_numpy_is_kept(dtype):
    source = np.ones(3, dtype)
    tensor = ffi.from_dlpack(source)
    assert tensor.dtype.itemsize == source.itemsize
    assert np.from_dlpack(tensor).dtype == source.dtype
    assert tensor.to(np.ndarray).dtype == source.dtype


ML_DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4"]
ML_DTYPES += ["float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


@pytest.mark.parametrize("name", ML_DTYPES)
def test_types_that_numpy_lacks_are_kept(library, name):
    source = np.array([1, 2, 4], getattr(ml_dtypes, name))
    tensor = ffi.from_dlpack(source)
    assert tensor.dtype.name == name
    transposed = library.transposed(np.ones((2, 3), source.dtype))
    assert (transposed.shape, transposed.dtype) == ((3, 2), source.dtype)
    again = ffi.from_dlpack(tensor.__dlpack__(max_version=(1, 0))).to(np.ndarray)
    assert again.dtype == source.dtype
    assert again.tolist() == source.tolist()


@pytest.mark.torch
def test_four_bit_types_of_torch_are_passed_through():
    torch = pytest.importorskip("torch")
    source = torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    tensor = ffi.from_dlpack(source)
    assert (tensor.dtype, tensor.shape) == ((17, 4, 2), (4,))
    assert tensor.to(torch.Tensor).dtype == torch.float4_e2m1fn_x2


@pytest.mark.parametrize("device_type", [1, 2, 3, 4, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18])
@pytest.mark.parametrize("versioned", [True, False])
def test_every_device_is_passed_through(device_type, versioned):
    producer = Producer(device_type=device_type, versioned=versioned)
    deleted = callee().callee_deleted()
    tensor = ffi.from_dlpack(producer)
    assert tensor.device == (device_type, 0)
    assert (tensor.data, tensor.byte_offset, tensor.shape) == (0x1000, 8, (2, 3))
    capsule = tensor.__dlpack__(max_version=(1, 0) if versioned else None)
    assert ("dltensor_versioned" in repr(capsule)) == versioned
    del tensor
    assert callee().callee_deleted() == deleted  # the capsule holds it
    del capsule
    assert callee().callee_deleted() == deleted + 1


def test_the_read_only_flag_is_kept_all_the_way(library):
    source = np.zeros(3)
    source.flags.writeable = False
    tensor = ffi.from_dlpack(source)
    assert tensor.read_only
    assert not np.from_dlpack(tensor).flags.writeable
    with pytest.raises(BufferError, match="cannot express"):
        tensor.__dlpack__()
    assert ffi.from_dlpack(tensor).read_only
    keep = library.keep_value
    keep.writes = False
    keep(tensor)
    del tensor
    kept = library.kept_value
    kept.tensor_type = ffi.Tensor
    assert kept().read_only
    library.forget_value()
    assert not ffi.from_dlpack(np.zeros(3)).read_only


def test_read_only_memory_is_refused_where_it_is_written():
    from tests.native.callee import planned

    source = np.zeros(3)
    source.flags.writeable = False
    for value in (source, ffi.from_dlpack(source), ffi.TensorView(source)):
        planned("nothing", "a")(value)
        with pytest.raises(ValueError, match="writable memory"):
            planned("nothing", "a", written_mask=1)(value)


def test_a_copy_that_the_producer_made_is_distinguished():
    from tests.native.callee import planned

    assert not ffi.from_dlpack(Producer(flags=2)).read_only
    with pytest.raises(ValueError, match="a copy that the array's library made"):
        planned("nothing", "a", written_mask=1)(Producer(flags=2))


def test_a_capsule_is_used_up():
    source = np.zeros(3)
    for capsule in (ffi.to_dlpack(source), ffi.to_dlpack(source, versioned=False)):
        tensor = ffi.from_dlpack(capsule)
        assert tensor.data == source.ctypes.data
        with pytest.raises(TypeError, match="received one that has been used already"):
            ffi.from_dlpack(capsule)


def test_capsules_are_made_of_anything():
    source = np.arange(3)
    assert "dltensor_versioned" in repr(ffi.to_dlpack(source))
    assert "dltensor_versioned" not in repr(ffi.to_dlpack(source, versioned=False))
    assert ffi.from_dlpack(ffi.to_dlpack(source)).data == source.ctypes.data
    with pytest.raises(TypeError, match="expected a tensor or a DLPack capsule"):
        ffi.to_dlpack("text")


def test_an_export_keeps_its_memory_alive():
    class Array(np.ndarray):
        pass

    source = np.zeros(3).view(Array)
    reference = weakref.ref(source)
    tensor = ffi.from_dlpack(source)
    consumer = np.from_dlpack(tensor)
    del source, tensor
    gc.collect()
    assert reference() is not None
    consumer[0] = 1
    del consumer
    gc.collect()
    assert reference() is None


def test_a_producer_that_exports_a_copy_keeps_it_while_it_is_used(library):
    # What the call used to give back at its end, although the callee had kept the tensor.
    deleted = callee().callee_deleted()
    library.keep_value(Producer())
    assert callee().callee_deleted() == deleted
    library.forget_value_on_thread()
    assert callee().callee_deleted() == deleted + 1


def test_deleters_run_on_whatever_thread():
    deleted = callee().callee_deleted()
    holder = [ffi.from_dlpack(Producer())]
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    assert callee().callee_deleted() == deleted + 1


@pytest.mark.parametrize(
    "make", [bytearray, lambda n: array.array("b", bytes(n)), lambda n: (ctypes.c_int8 * n)()]
)
def test_buffers_are_tensors_that_hold_them(make):
    source = make(8)
    tensor = ffi.from_dlpack(source)
    assert (tensor.shape, tensor.dtype.bits) == ((8,), 8)
    if isinstance(source, bytearray):
        with pytest.raises(BufferError):
            source.append(1)
        del tensor
        source.append(1)


def test_complex_numbers_are_views_as_pairs():
    def viewed(tensor, code, bits):
        return ffi.from_dlpack(_native.export_as(tensor, code, bits, max_version=(1, 1)))

    numbers = (np.arange(24) + 0.5j).astype(np.complex64).reshape(4, 6)
    for source in (numbers, numbers.T[::-1], numbers[1:, ::2], numbers[:0], numbers[0, 0, ...]):
        pairs = viewed(ffi.from_dlpack(source), 2, 32)
        assert pairs.shape == (*source.shape, 2) and pairs.data == source.ctypes.data
        assert np.array_equal(np.asarray(pairs)[..., 1], source.imag)
        assert np.array_equal(np.asarray(viewed(pairs, 5, 64)), source)
    for source in (np.zeros((3, 3), np.float32)[:, :2], np.zeros((2, 3), np.float32)):
        with pytest.raises(ValueError, match="export_as: "):
            viewed(ffi.from_dlpack(source), 5, 64)


def test_the_package_s_tensors_are_shared(library):
    source = np.arange(3.0)
    theirs = tvm_ffi.from_dlpack(source)
    ours = ffi.from_dlpack(theirs)
    assert ours.data == source.ctypes.data
    assert ours.reference_count == 2
    again = tvm_ffi.from_dlpack(ours)
    assert np.array_equal(np.from_dlpack(again), source)
    count = tvm_ffi.convert(lambda tensor: tensor.numel())
    assert count(ours) == 3
    assert library.count_elements(theirs) == 3


def test_the_exchange_api_of_tensors_serves_other_libraries():
    class Borrowing:
        """A consumer that takes tensors through the C table."""

        def __init__(self, tensor):
            api = type(tensor).__dlpack_c_exchange_api__
            get = ctypes.pythonapi.PyCapsule_GetPointer
            get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            table = get(api, b"dlpack_exchange_api")
            pointers = ctypes.cast(table + 16, ctypes.POINTER(ctypes.c_void_p))
            prototype = ctypes.PYFUNCTYPE(
                ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p)
            )
            self.managed = ctypes.c_void_p()
            assert prototype(pointers[1])(tensor, ctypes.byref(self.managed)) == 0
            back = ctypes.PYFUNCTYPE(
                ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object)
            )
            made = ctypes.py_object()
            assert back(pointers[2])(self.managed, ctypes.byref(made)) == 0
            self.made = made.value
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(self.made))

    source = np.arange(4.0)
    source.flags.writeable = False
    tensor = ffi.from_dlpack(source)
    made = Borrowing(tensor).made
    assert isinstance(made, ffi.Tensor)
    assert (made.data, made.shape, made.read_only) == (source.ctypes.data, (4,), True)


def test_a_tensor_is_exported_in_place_or_refused():
    tensor = ffi.from_dlpack(np.zeros(3))
    assert tensor.__dlpack_device__() == (CPU, 0)
    for options in ({}, {"copy": False}, {"copy": None}):
        capsule = tensor.__dlpack__(dl_device=(CPU, 0), max_version=(1, 0), **options)
        assert ffi.from_dlpack(capsule).data == tensor.data
    with pytest.raises(BufferError, match="copy=False, and this tensor is on cpu, not on cuda:0"):
        tensor.__dlpack__(dl_device=(CUDA, 0), copy=False)
    with pytest.raises(TypeError):
        tensor.__dlpack__(max_version="1.0")
    with pytest.raises(TypeError):
        tensor.__dlpack__(dl_device=1)
    with pytest.raises(TypeError):
        tensor.__dlpack__(1)


def test_a_moved_tensor_says_so():
    tensor = ffi.from_dlpack(np.zeros(3))
    ffi.Tensor(tensor.release(), borrowed=False)
    for use in (
        lambda: tensor.shape,
        lambda: tensor.data,
        tensor.__dlpack__,
        tensor.__dlpack_device__,
    ):
        with pytest.raises(ValueError, match="moved from"):
            use()
    assert "moved from" in repr(tensor)


def test_a_view_is_passed_as_a_plain_descriptor(library):
    source = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    target = np.zeros_like(source)
    library.add_one(ffi.TensorView(source), ffi.TensorView(target))
    assert target.tolist() == (source + 1).tolist()
    view = ffi.TensorView(source)
    del source
    gc.collect()
    assert np.from_dlpack(view).sum() == 15
    with pytest.raises(TypeError, match=r"expected a tensor|Mismatched|Expected"):
        library.count_elements(view)
    with pytest.raises(TypeError, match="expected an array"):
        ffi.TensorView("text")


def test_a_tensor_of_another_library_s_class():
    source = np.arange(3.0)
    tensor = ffi.from_dlpack(source)
    assert ffi.to_array(tensor, np.ndarray).ctypes.data == source.ctypes.data
    assert isinstance(ffi.to_array(source, ffi.Tensor), ffi.Tensor)
    assert isinstance(ffi.to_array(source, tvm_ffi.Tensor), tvm_ffi.Tensor)
    with pytest.raises(TypeError, match="array class"):
        ffi.to_array(source, dict)
    with pytest.raises(TypeError, match="cannot hold"):
        ffi.to_array(Producer(device_type=CUDA), np.ndarray)


@pytest.mark.torch
def test_torch_tensors_keep_their_storage_whatever_happens_to_them():
    torch = pytest.importorskip("torch")
    source = torch.arange(6.0).reshape(2, 3)
    tensor = ffi.from_dlpack(source)
    assert isinstance(tensor.to(torch.Tensor), torch.Tensor)
    source.data = torch.zeros(1)
    source.resize_(0)
    gc.collect()
    assert tensor.to(torch.Tensor).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_making_tensors_keeps_no_memory():
    source = np.zeros(3)
    for _ in range(100):
        np.from_dlpack(ffi.from_dlpack(source))
    gc.collect()
    before, references = sys.getallocatedblocks(), sys.getrefcount(source)
    for _ in range(5000):
        np.from_dlpack(ffi.from_dlpack(source))
        ffi.to_dlpack(source)
        ffi.TensorView(source)
    gc.collect()
    assert sys.getallocatedblocks() - before < 50
    assert sys.getrefcount(source) == references


def test_an_exchange_api_without_managed_tensors_is_still_kept(library):
    from tests.native.test_tensor_protocols import exchange_type

    argument = exchange_type()()
    references = sys.getrefcount(argument)
    library.keep_value(argument)
    assert sys.getrefcount(argument) == references + 1
    library.forget_value()
    assert sys.getrefcount(argument) == references
    assert new_capsule is not None


NO_TENSORS = {
    "masked": (lambda: np.ma.masked_array([1.0, 2.0], [0, 1]), "masked array"),
    "byte-swapped": (lambda: np.zeros(2, ">f4"), "byte.order|'>f'"),
    "records": (lambda: np.zeros(2, [("a", "i4"), ("b", "i4")]), "dtype|format"),
    "a field between others": (lambda: np.zeros(4, [("a", "i4"), ("b", "i2")])["a"], "strides"),
    "dates": (lambda: np.zeros(2, "M8[s]"), "dtype"),
    "objects": (lambda: np.array([object()]), "dtype|format"),
    "texts": (lambda: np.array(["a"]), "dtype|format"),
    "long doubles": (lambda: np.zeros(2, np.longdouble), "float128|longdouble|'g'"),
}


@pytest.mark.parametrize("rung", [2, 8, 32, 63], ids=["structure", "dlpack", "buffer", "all"])
@pytest.mark.parametrize("kind", NO_TENSORS)
def test_foreign_numpy_dtypes_are_refused_by_every_reader(library, kind, rung):
    make, message = NO_TENSORS[kind]
    _native.set_reader_rungs(rung)
    try:
        for value, where in ((make(), ""), ((1, [make()]), r"\[1\]\[0\]")):
            with pytest.raises(
                (TypeError, ValueError), match=rf"^echo: argument #0{where}: .*({message})"
            ):
                library.echo(value)
    finally:
        _native.set_reader_rungs(63)


def backward():
    """Arrays whose strides reach elements before the first one, also where the sum of all strides is positive."""
    yield np.arange(6.0)[::-1]
    yield np.arange(24.0).reshape(4, 6)[:, ::-2]
    yield np.arange(24.0).reshape(4, 6)[::-1, ::-1]
    yield np.lib.stride_tricks.as_strided(np.arange(20.0)[5:], (3, 4), (-8, 32))


TORCH_IMPORTS = {
    "torch.from_dlpack": lambda torch, tensor: torch.from_dlpack(tensor),
    "torch.utils.dlpack": lambda torch, tensor: torch.utils.dlpack.from_dlpack(tensor),
    "a capsule by hand": lambda torch, tensor: torch.from_dlpack(tensor.__dlpack__()),
    "a versioned one": lambda torch, tensor: torch.from_dlpack(
        tensor.__dlpack__(max_version=(1, 0))
    ),
    "to_dlpack": lambda torch, tensor: torch.from_dlpack(ffi.to_dlpack(tensor)),
    "an older one": lambda torch, tensor: torch.from_dlpack(ffi.to_dlpack(tensor, versioned=False)),
    "torch.tensor": lambda torch, tensor: torch.tensor(tensor),
    "torch.as_tensor": lambda torch, tensor: torch.as_tensor(tensor),
    "a class around it": lambda torch, tensor: torch.from_dlpack(Around(tensor)),
    "a view": lambda torch, tensor: torch.from_dlpack(ffi.TensorView(np.from_dlpack(tensor))),
    "to": lambda torch, tensor: tensor.to(torch.Tensor),
    "to a class": lambda torch, tensor: tensor.to(torch.nn.Parameter),
    "to_array": lambda torch, tensor: ffi.to_array(tensor, torch.Tensor),
}


class Around:
    """A tensor in a user's class."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)


@pytest.mark.torch
@pytest.mark.parametrize("way", TORCH_IMPORTS)
@pytest.mark.parametrize("source", list(backward()), ids=lambda source: str(source.strides))
def test_torch_which_would_abort_gets_no_negative_stride(way, source):
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="negative stride, which torch does not support"):
        TORCH_IMPORTS[way](torch, ffi.from_dlpack(source))
    again = ffi.from_dlpack(np.from_dlpack(ffi.from_dlpack(source)))
    assert np.array_equal(np.from_dlpack(again), source)
    copy = torch.from_dlpack(ffi.from_dlpack(source), copy=True)
    assert np.array_equal(copy.numpy(), source)


@pytest.mark.torch
def test_a_result_for_torch_gets_no_negative_stride(library):
    torch = pytest.importorskip("torch")
    seen = []
    call_back = ffi.wrap_function(seen.append)
    call_back(ffi.from_dlpack(np.arange(3.0)[::-1]))
    assert np.array_equal(np.from_dlpack(seen[0]), [2, 1, 0])
    library.keep_value(ffi.from_dlpack(np.arange(3.0)[::-1]))
    kept = library.kept_value
    kept.tensor_type = torch.Tensor
    try:
        with pytest.raises(TypeError, match="negative stride"):
            kept()
    finally:
        kept.tensor_type = ffi.Tensor
        library.forget_value()


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 1)])
def test_a_negative_stride_of_no_element_is_accepted(shape):
    torch = pytest.importorskip("torch")
    source = np.lib.stride_tricks.as_strided(np.arange(8.0), shape, (16, -8))
    assert torch.from_dlpack(ffi.from_dlpack(source)).tolist() == source.tolist()
