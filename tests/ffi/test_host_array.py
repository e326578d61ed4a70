# SPDX-License-Identifier: Apache-2.0
"""A tensor on the host is a Python array: numbers, views, buffers, NumPy's arrays; compared with NumPy's own."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import io
import itertools
import pickle
import struct
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.native.callee import CUDA
from tests.native.callee import library as callee
from tests.native.test_tensor_protocols import Producer
from weft import _native, ffi
from weft.cli.functions import numpy_type
from weft.types.dtype import DTYPES, dtype_of_numpy

pytestmark = pytest.mark.joined

LETTERS = {
    "bool_": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "l", "u8": "B", "u16": "H", "u32": "I", "u64": "L",
    "f16": "e", "f32": "f", "f64": "d",
}  # fmt: skip
NUMPY = {dtype.name: numpy_type(dtype).type for dtype in DTYPES}
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def values(dtype: weft.DType) -> list:
    """Numbers that the type holds exactly, its ends among them."""
    if not dtype.is_float:
        return sorted({dtype.minimum, 0, 1, dtype.maximum})
    ends = np.inf if dtype.info.format.has_infinity else dtype.info.format.largest
    return [-1.5, -0.0, 0.5, 1.75, float(ends), float(-ends), float("nan")]


def filled(dtype: weft.DType) -> tuple[ffi.Tensor, list]:
    numbers = values(dtype)
    tensor = weft.empty(len(numbers), dtype)
    for index, number in enumerate(numbers):
        tensor[index] = number
    return tensor, numbers


def same(one: list, other: list) -> bool:
    return repr(one) == repr(other)  # NaN is NaN, and -0.0 is not 0.0


@by_dtype
def test_elements_are_numbers_of_python_and_those_of_numpy(dtype: weft.DType):
    tensor, numbers = filled(dtype)
    expected = [bool(number) for number in numbers] if dtype.is_bool else numbers
    assert same([tensor[index] for index in range(len(tensor))], expected)
    assert same(tensor.tolist(), expected)
    assert same(list(tensor), expected)
    array = np.asarray(tensor)
    assert array.dtype == NUMPY[dtype.name]
    assert array.ctypes.data == tensor.data
    assert same([value.item() for value in array], expected)
    assert tensor.tobytes() == array.tobytes()
    assert ffi.from_dlpack(array).tolist().__repr__() == expected.__repr__()


@by_dtype
def test_each_type_has_its_letter_or_says_what_takes_it(dtype: weft.DType):
    tensor, numbers = filled(dtype)
    if dtype.name in LETTERS:
        with memoryview(tensor) as view:
            assert (view.format, view.itemsize, view.shape) == (
                LETTERS[dtype.name],
                dtype.itemsize,
                (len(tensor),),
            )
            assert struct.calcsize(view.format) == dtype.itemsize
            if view.format not in "e?":
                assert same(view.tolist(), numbers)
        return
    with pytest.raises(BufferError, match=f"no letter for elements of {dtype.name}; numpy.asarray"):
        memoryview(tensor)
    # A consumer of bytes alone needs no letter.
    assert hashlib.sha256(tensor).digest() == hashlib.sha256(tensor.tobytes()).digest()


def layouts():
    base = np.arange(120, dtype=np.int32).reshape(4, 5, 6)
    yield base
    yield base[::2, 1:, 3:]
    yield base.transpose(2, 0, 1)
    yield base[::-1, :, ::-2]
    yield np.array(3, np.int32)
    yield np.zeros((3, 0, 2), np.int32)
    yield np.broadcast_to(np.arange(3, dtype=np.int32)[:, None], (3, 4))
    yield np.zeros((1,) * 10 + (2, 3), np.int32)


INDICES = [
    (), ..., None, 0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(5, 1, -2), slice(10, 20),
    slice(None, None, 2**62), slice(-(2**70), 2**70), np.int64(1), True - 1, (0, ...), (..., 0), (None, 0, None),
    (slice(None), None, -1), (slice(1, 2), slice(None, None, -1)), (..., slice(None, None, 2), None), (0, 0, 0),
    (0, 0, 0, ...), (slice(None, None, -3), 1, slice(2, 4)),
]  # fmt: skip


@pytest.mark.parametrize("source", list(layouts()), ids=lambda source: str(source.shape))
def test_indices_pick_what_numpy_picks_from_every_layout(source: np.ndarray):
    tensor = ffi.from_dlpack(source)
    assert tensor.tolist() == source.tolist()
    assert tensor.tobytes() == source.tobytes()
    for index in INDICES:
        try:
            expected = source[index]
        except IndexError:
            with pytest.raises(IndexError):
                tensor[index]
            continue
        found = tensor[index]
        if not isinstance(found, ffi.Tensor):
            assert type(found) is int
            assert found == expected.item()
            continue
        assert (found.shape, found.tolist()) == (expected.shape, expected.tolist())
        assert found.read_only != source.flags.writeable
        again = np.asarray(found)
        assert np.array_equal(again, expected)
        assert again.size == 0 or again.ctypes.data == expected.ctypes.data
        with memoryview(found) as view:
            assert view.tobytes() == expected.tobytes()


def test_random_indices_pick_and_write_what_numpy_does():
    generator = np.random.default_rng(7)

    def random_index(shape: tuple[int, ...]) -> tuple:
        items: list = []
        for size in shape[: generator.integers(len(shape) + 1)]:
            kind = generator.integers(4)
            if kind == 0 and size:
                items.append(int(generator.integers(-size, size)))
            elif kind == 1:
                items.append(None)
            ends = [
                None if generator.random() < 0.3 else int(generator.integers(-9, 10))
                for _ in range(2)
            ]
            items.append(slice(*ends, int(generator.choice([-3, -2, -1, 1, 2, 3]))))
        taking = [item for item in items if item is not None]
        if len(taking) > len(shape):
            items = items[: len(shape)]
        if generator.random() < 0.4:
            items.insert(generator.integers(len(items) + 1), ...)
        return tuple(items)

    for _ in range(2000):
        shape = tuple(int(size) for size in generator.integers(0, 6, generator.integers(0, 5)))
        source = generator.integers(0, 1000, shape, dtype=np.int32)
        tensor = ffi.from_dlpack(source.copy())
        index = random_index(shape)
        try:
            expected = source[index]
        except IndexError:
            continue
        found = tensor[index]
        assert np.array_equal(np.asarray(found), expected), (shape, index)
        number = int(generator.integers(1000))
        tensor[index] = number
        source[index] = number
        assert np.array_equal(np.asarray(tensor), source), (shape, index)
        update = generator.integers(0, 1000, np.shape(expected), dtype=np.int32)
        tensor[index] = update
        source[index] = update
        assert np.array_equal(np.asarray(tensor), source), (shape, index)


def test_a_view_holds_the_memory_and_nothing_between():
    class Array(np.ndarray):
        pass

    source = np.arange(100_000, dtype=np.int32).view(Array)
    reference = weakref.ref(source)
    tensor = ffi.from_dlpack(source)
    whole = tensor.reference_count
    view = tensor
    for _ in range(50_000):  # views of views do not pile up: nothing recurs when they are dropped
        view = view[1:]
    assert view[0] == 50_000
    assert tensor.reference_count == whole + 1
    array = np.from_dlpack(view[1:])
    del source, tensor, view
    gc.collect()
    assert array[0] == 50_001
    assert reference() is not None
    del array
    gc.collect()
    assert reference() is None


def test_a_view_is_read_only_where_its_memory_is():
    tensor = weft.zeros((3, 4), weft.i16)
    tensor[1][2:][0] = 7
    assert tensor[1, 2] == 7
    source = np.zeros(3)
    source.flags.writeable = False
    view = ffi.from_dlpack(source)[1:]
    assert view.read_only
    for write in (lambda: view.__setitem__(0, 1.0), lambda: weft.copy(view, np.ones(2))):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert memoryview(view).readonly
    assert not np.asarray(view).flags.writeable
    with pytest.raises((BufferError, TypeError), match=r"read-only|read-write"):
        io.BytesIO(bytes(24)).readinto(view)


WRONG_INDICES = [
    ([0], TypeError, "ints, slices, ... and None, received list; numpy.asarray"),
    (True, TypeError, "received bool"),
    (np.array([0]), TypeError, "only integer scalar arrays|received|only length-1|only 0-dim"),
    (1.0, TypeError, "received float"),
    ("a", TypeError, "received str"),
    (3, IndexError, "index 3 is out of range for axis 0, which has size 3"),
    (-4, IndexError, "index -4 is out of range"),
    ((0, 4), IndexError, "out of range for axis 1, which has size 4"),
    (2**70, IndexError, "cannot fit"),
    ((0, 0, 0), IndexError, "the tensor has rank 2, received 3 indices"),
    ((..., 0, ...), IndexError, "one ... at most"),
    ((None,) * 63, IndexError, "more than 64 dims"),
    (slice(None, None, 0), ValueError, "slice step cannot be zero"),
    (slice("a", None), TypeError, "slice indices"),
]


@pytest.mark.parametrize(
    ("index", "error", "words"), WRONG_INDICES, ids=lambda value: repr(value)[:30]
)
def test_a_wrong_index_is_refused_for_reading_and_writing(index, error, words):
    tensor = weft.zeros((3, 4), weft.f32)
    with pytest.raises(error, match=words):
        tensor[index]
    with pytest.raises(error, match=words):
        tensor[index] = 1.0


WRONG_VALUES = [
    (weft.i8, 128, ValueError, "expected an int from -128 to 127"),
    (weft.u64, -1, ValueError, "from 0 to 18446744073709551615"),
    (weft.u64, 2**64, ValueError, "from 0 to 18446744073709551615"),
    (weft.bool_, 2, ValueError, "from 0 to 1"),
    (weft.i32, 1.0, TypeError, "expected an int .*received float"),
    (weft.i32, "1", TypeError, "expected an int .*received str"),
    (weft.f16, 65520, ValueError, "magnitude at most 65504"),
    (weft.f32, 1e39, ValueError, "magnitude at most 3.402"),
    (weft.f64, 10**400, ValueError, "beyond every float"),
    (weft.f8e4m3, 480, ValueError, "magnitude at most 448"),
    (weft.f8e4m3, float("inf"), ValueError, "magnitude at most 448"),
    (weft.f8e5m2, 65536, ValueError, "magnitude at most 57344"),
    (weft.bf16, 3.4e38, ValueError, "magnitude at most 3.38"),
    (weft.f32, None, TypeError, "received NoneType"),
    (weft.f32, [1.0], TypeError, "received list"),
    (weft.f32, 1j, TypeError, "complex"),
    (weft.f32, b"1", TypeError, "received bytes"),
]


@pytest.mark.parametrize(
    ("dtype", "value", "error", "words"), WRONG_VALUES, ids=lambda value: repr(value)[:20]
)
def test_a_value_out_of_range_writes_nothing(dtype, value, error, words):
    tensor = weft.zeros(3, dtype)
    with pytest.raises(error, match=words):
        tensor[:2] = value
    with pytest.raises(error, match=words):
        weft.full(3, value, dtype)
    assert not any(tensor.tolist())


@by_dtype
def test_full_rounds_as_numpy_does_and_fills_every_size(dtype: weft.DType):
    third = 1 / 3 if dtype.is_float else 1
    for size in (0, 1, 2, 7, 1000, 70_001):
        tensor = weft.full(size, third, dtype)
        expected = np.full(size, NUMPY[dtype.name](third))
        assert tensor.tobytes() == expected.tobytes()
        assert weft.zeros(size, dtype).tobytes() == bytes(size * dtype.itemsize)
    assert weft.full((2, 3), third, dtype).shape == (2, 3)
    assert weft.full((), third, dtype).item() == expected[0].item()
    assert weft.full((3, 0, 2), third, dtype).tolist() == [[], [], []]
    assert weft.zeros(4, dtype).data % 64 == 0


def test_numbers_of_numpy_and_rank_zero_tensors_are_values():
    tensor = weft.zeros(4, weft.f32)
    tensor[0], tensor[1], tensor[2] = np.float64(1.5), np.int8(2), weft.full((), 3, weft.f32)
    tensor[3:] = np.array([4], np.float32)
    assert tensor.tolist() == [1.5, 2, 3, 4]
    for value, words in (
        (np.zeros(2, np.float32), "shape"),
        (np.float64([1.0]), "converts nothing"),
    ):
        with pytest.raises(ValueError, match=words):
            tensor[3:] = value
    with pytest.raises(TypeError, match="deleted"):
        del tensor[0]


def test_numpy_s_rules_of_copies():
    tensor = weft.full((2, 3), 1, weft.f32)
    bits = weft.full((2, 3), 1, weft.bf16)
    for source in (tensor, bits):
        assert np.shares_memory(np.asarray(source), np.asarray(source))
        assert np.shares_memory(source.__array__(), np.asarray(source))
        assert not np.shares_memory(source.__array__(copy=True), np.asarray(source))
        assert not np.shares_memory(np.array(source), np.asarray(source))
        assert np.asarray(source, np.float64).dtype == np.float64
        assert source.__array__(np.int32).tolist() == [[1, 1, 1]] * 2
        assert np.array(source, copy=None).base is not None
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            source.__array__(np.float64, copy=False)
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            np.array(source, np.float64, copy=False)
    assert (np.arange(3, dtype=np.float32) + tensor).tolist() == [[1, 2, 3]] * 2
    assert (tensor == np.ones((2, 3), np.float32)).all()
    assert np.sum(tensor) == 6


def test_without_ml_dtypes_numpy_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    tensor = weft.full(3, 2, weft.f8e5m2)
    with pytest.raises(BufferError, match="takes those that ml_dtypes has"):
        np.asarray(tensor)
    assert tensor.tolist() == [2, 2, 2]


def test_a_buffer_is_given_as_it_is_asked_for():
    numbers = np.arange(12, dtype=np.int16).reshape(3, 4)
    tensor = ffi.from_dlpack(numbers)
    assert bytes(tensor) == numbers.tobytes()
    assert bytes(tensor[:, 1:3]) == numbers[:, 1:3].tobytes()  # memoryview copies by the strides
    with pytest.raises(BufferError, match="gaps between its elements"):
        hashlib.sha256(tensor[:, 1:3])
    view = memoryview(tensor)
    assert (view.shape, view.strides, view.ndim, view.readonly) == ((3, 4), (8, 2), 2, False)
    assert view[1, 2] == 6
    view[1, 2] = 60
    assert numbers[1, 2] == 60
    transposed = memoryview(ffi.from_dlpack(numbers.T))
    assert (transposed.f_contiguous, transposed.c_contiguous) == (True, False)
    assert memoryview(weft.empty((), weft.f64)).shape == ()
    assert bytes(weft.empty((0, 3), weft.f64)) == b""


@pytest.mark.parametrize("flags", range(0x200))
def test_every_kind_of_request_gets_what_the_protocol_promises(flags: int):
    class Buffer(ctypes.Structure):
        _fields_ = [
            ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
            ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
            ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
            ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.c_void_p),
            ("internal", ctypes.c_void_p),
        ]  # fmt: skip

    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.POINTER(Buffer), ctypes.c_int]
    release = ctypes.pythonapi.PyBuffer_Release
    release.argtypes = [ctypes.POINTER(Buffer)]
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    for array in (base, base.T, base[:, ::2], base[:1, :1], base[0], np.array(1, np.int32)):
        tensor, buffer = ffi.from_dlpack(array), Buffer()
        wants = [order for order, bits in (("C", 0x38), ("F", 0x58)) if flags & bits == bits]
        strided = flags & 0x18 == 0x18
        if flags & 0x98 == 0x98 and not wants:
            fits = array.flags.c_contiguous or array.flags.f_contiguous
        else:
            fits = all(
                array.flags[f"{order}_CONTIGUOUS"] for order in wants or ([] if strided else ["C"])
            )
        if "C" in wants:
            fits = array.flags.c_contiguous
        if not fits:
            with pytest.raises(BufferError):
                get(tensor, ctypes.byref(buffer), flags)
            continue
        get(tensor, ctypes.byref(buffer), flags)
        assert (buffer.buf, buffer.len, buffer.itemsize) == (array.ctypes.data, array.nbytes, 4)
        assert buffer.format == (b"i" if flags & 4 else None)
        assert bool(buffer.shape) == bool(flags & 8)
        assert bool(buffer.strides) == strided
        if strided:
            assert tuple(buffer.shape[: array.ndim]) == array.shape
            assert all(
                found == stride
                for found, stride, size in zip(
                    buffer.strides[: array.ndim], array.strides, array.shape, strict=True
                )
                if size > 1
            )
        release(ctypes.byref(buffer))


def test_an_export_outlives_what_is_done_to_the_tensor():
    tensor = weft.full(4, 5, weft.i32)
    view = memoryview(tensor)
    array = np.asarray(tensor)
    ffi.Tensor(tensor.release(), borrowed=False)  # the reference goes at once
    gc.collect()
    assert view.tolist() == array.tolist() == [5] * 4
    for use in (lambda: tensor[0], lambda: len(tensor), lambda: memoryview(tensor), tensor.tolist, tensor.tobytes,
                tensor.item, tensor.__array__, lambda: tensor.__setitem__(0, 1), lambda: list(tensor),
                lambda: bool(tensor), lambda: weft.copy(tensor, array), lambda: weft.copy(array, tensor)):  # fmt: skip
        with pytest.raises(ValueError, match="moved from"):
            use()


class Taking:
    """A number that takes the tensor away when it is asked for."""

    def __init__(self, tensor: ffi.Tensor) -> None:
        self.tensor = tensor

    def __index__(self) -> int:
        if not self.tensor.is_moved:
            ffi.Tensor(self.tensor.release(), borrowed=False)
        return 1


@pytest.mark.parametrize(
    "make", [lambda: weft.full(4, 5, weft.i32), lambda: weft.full((2, 4), 5, weft.i32)[1]]
)
def test_what_an_index_or_a_value_runs_may_take_the_tensor_away(make):
    taking = Taking(make())
    assert taking.tensor[taking] == 5
    taking = Taking(make())
    assert taking.tensor[taking:].tolist() == [5] * 3
    taking = Taking(make())
    taking.tensor[1:] = taking
    for place in ("dl_device", "max_version"):
        taking = Taking(make())
        options = {"max_version": (1, 0), "dl_device": (1, 0)}
        capsule = taking.tensor.__dlpack__(**{**options, place: (taking, 0)})
        assert ffi.from_dlpack(capsule).tolist() == [5] * 4


def test_a_tensor_of_one_element_is_a_number():
    for one in (weft.full((), 2, weft.i32), weft.full((1, 1), 2, weft.i32)):
        assert (one.item(), int(one), float(one), bool(one)) == (2, 2, 2.0, True)
    assert not weft.zeros(1, weft.f32)
    assert float(weft.full((), 0x31, weft.u8)) == 49.0  # and not the text "1"
    for use in (bool, int, float, lambda many: many.item()):
        for many in (weft.zeros(2, weft.f32), weft.zeros(0, weft.f32)):
            with pytest.raises(ValueError, match="only a tensor of one element is a number"):
                use(many)
    with pytest.raises(TypeError, match="rank 0 has no length"):
        len(weft.zeros((), weft.f32))
    with pytest.raises(TypeError, match="rank 0 has no length"):
        iter(weft.zeros((), weft.f32))
    with pytest.raises(TypeError, match="not a container"):
        assert 1.0 in weft.zeros(2, weft.f32)
    assert [row.tolist() for row in weft.zeros((2, 1), weft.i8)] == [[0], [0]]
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(weft.zeros(1, weft.i8))


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in ("float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "float8_e4m3b11fnuz")
        if dtype_of_numpy(name) is None
    ],
)
def test_types_that_weft_has_not_are_numpy_s_to_read(name: str):
    source = np.array([1, 2, 4], getattr(ml_dtypes, name))
    tensor = ffi.from_dlpack(source)
    assert np.asarray(tensor).tolist() == source.tolist()
    assert tensor[1:].shape == (2,)
    assert weft.copy(np.zeros_like(source), tensor).tolist() == source.tolist()
    with pytest.raises(TypeError, match="cannot be read as numbers"):
        tensor[0]
    with pytest.raises(TypeError, match="cannot be made of a number"):
        tensor[0] = 1.0


def test_complex_numbers_are_read():
    for dtype, letter in ((np.complex64, "Zf"), (np.complex128, "Zd")):
        source = np.array([1 + 2j, -3j], dtype)
        tensor = ffi.from_dlpack(source)
        assert tensor.tolist() == source.tolist()
        assert memoryview(tensor).format == letter
        assert np.asarray(tensor).dtype == dtype


@pytest.mark.torch
def test_packed_elements_are_copied_and_not_read():
    torch = pytest.importorskip("torch")
    packed = [
        torch.full((4,), number, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
        for number in (1, 2)
    ]
    assert weft.copy(*packed) is packed[0]
    assert packed[0].view(torch.uint8).tolist() == [2] * 4
    with pytest.raises(TypeError, match="cannot be read"):
        ffi.from_dlpack(packed[0])[0]


def test_memory_of_a_device_says_how_it_comes_to_the_host():
    tensor = ffi.from_dlpack(Producer(device_type=CUDA))
    assert len(tensor) == 2
    view = tensor[1, ::2]
    assert (view.device, view.data, view.shape, view.strides) == (
        (CUDA, 0),
        0x1008 + 12,
        (2,),
        (2,),
    )
    assert tensor[1, 2, ...].data == 0x1008 + 20
    hint = r"on cuda:0; copy it: weft.copy\(weft.empty\(tensor.shape, weft.f32\), tensor\)"
    first = view[0, ...]
    for read in (lambda: tensor[0, 0], tensor.tolist, tensor.tobytes, lambda: list(view), first.item,
                 lambda: float(first), lambda: bool(first), lambda: tensor.__setitem__(0, 1.0)):  # fmt: skip
        with pytest.raises(ValueError, match=hint):
            read()
    for export in (lambda: memoryview(tensor), lambda: np.asarray(tensor), lambda: np.asarray(tensor, np.int8),
                   lambda: np.array(tensor), tensor.__array__, lambda: bytes(tensor)):  # fmt: skip
        with pytest.raises((BufferError, TypeError), match=hint):
            export()
    deleted = callee().callee_deleted()
    del tensor, view
    assert callee().callee_deleted() == deleted
    del first
    gc.collect()


def test_memory_without_addresses_has_no_parts():
    tensor = ffi.from_dlpack(Producer(device_type=8))
    with pytest.raises(ValueError, match="a tensor on metal:0 cannot be sliced"):
        tensor[1:]
    with pytest.raises(ValueError, match="metal"):
        weft.copy(np.zeros((2, 3), np.float32), tensor)


def test_a_lent_view_is_a_buffer_until_its_callback_returns(library):
    kept = []

    def look(view):
        assert np.asarray(view).shape == np.from_dlpack(view).shape
        assert memoryview(view).nbytes > 0
        kept.append(weft.copy(np.zeros(view.shape, np.from_dlpack(view).dtype), view))

    library.lend_tensor(look)
    assert kept[0].size
    with pytest.raises(RuntimeError, match="kept an array"):
        library.lend_tensor(lambda view: kept.append(np.asarray(view)))
    ended = []
    library.lend_tensor(ended.append)
    for use in (memoryview, np.asarray, lambda view: weft.copy(kept[0], view)):
        with pytest.raises(ValueError, match="callback that has returned"):
            use(ended[0])


def test_the_standard_s_arguments_of_dlpack():
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    source.flags.writeable = False
    tensor = ffi.from_dlpack(source)
    copied = np.from_dlpack(tensor, copy=True)
    assert (copied.tolist(), copied.flags.writeable) == (source.tolist(), True)
    assert not np.shares_memory(copied, source)
    assert np.shares_memory(np.from_dlpack(tensor, copy=False), source)
    assert np.from_dlpack(tensor, device="cpu").tolist() == source.tolist()
    assert "dltensor_versioned" not in repr(
        tensor.__dlpack__(copy=True)
    )  # a copy is writable, so the older form is right
    transposed = ffi.from_dlpack(source.T)
    assert np.from_dlpack(transposed, copy=True).flags.c_contiguous
    assert np.from_dlpack(transposed, copy=True).tolist() == source.T.tolist()
    deleted = ffi.from_dlpack(tensor.__dlpack__(copy=True, max_version=(1, 0)))
    assert not deleted.read_only


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"stream": 1}, ValueError, "stream is 1, expected None on the host"),
        ({"stream": -1}, ValueError, "expected None on the host"),
        ({"stream": "x"}, TypeError, "expected an int or None as stream"),
        ({"stream": True}, TypeError, "expected an int or None as stream, received bool"),
        ({"copy": 1}, TypeError, "expected True, False or None as copy"),
        ({"dl_device": (8, 0)}, BufferError, "not from cpu to metal:0"),
        ({"dl_device": (3, 0), "copy": True}, BufferError, "not from cpu to"),
        (
            {"dl_device": (2, 0), "copy": False},
            BufferError,
            "copy=False, and this tensor is on cpu, not on cuda:0",
        ),
        ({"dl_device": [1, 0]}, TypeError, "pair as dl_device"),
        ({"dl_device": (1, 0, 0)}, TypeError, "at most 2|2 arguments"),
        ({"dl_device": (1 << 40, 0)}, OverflowError, "too large|greater than maximum|int too"),
        ({"max_version": (1 << 80, 0)}, OverflowError, "too large|greater than maximum|int too"),
        ({"max_version": 1}, TypeError, "max_version"),
        ({"other": 1}, TypeError, "other"),
    ],
    ids=str,
)
def test_wrong_arguments_of_dlpack_are_refused(options, error, words):
    for tensor in (weft.zeros(3, weft.f32), ffi.TensorView(np.zeros(3))):
        with pytest.raises(error, match=words):
            tensor.__dlpack__(**options)


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (0, "stream is 0, expected -1 for no order"),
        (-2, "stream is -2"),
        (2**63, "too (large|big)"),
        (1.0, "an int"),
    ],
)
def test_streams_of_a_device_are_those_of_the_standard(stream, words):
    tensor = ffi.from_dlpack(Producer(device_type=CUDA))
    tensor.__dlpack__(stream=-1)
    tensor.__dlpack__(stream=1)  # the stream that it is on
    tensor.__dlpack__()
    with pytest.raises((ValueError, TypeError, OverflowError), match=words):
        tensor.__dlpack__(stream=stream)


def test_nothing_is_kept(library):
    source = np.zeros((50, 50), np.float32)
    tensor = ffi.from_dlpack(source)

    def use() -> None:
        memoryview(tensor)
        np.asarray(tensor)
        tensor[1:, ::2].tolist()
        tensor[1] = source[0]
        tensor[2] = 1.0
        np.from_dlpack(tensor, copy=True)
        weft.copy(source, tensor[::-1])
        weft.copy(weft.empty((50, 50), weft.f32), source.T)
        np.asarray(weft.full(3, 1, weft.bf16))
        for wrong in (
            lambda: tensor[99],
            lambda: tensor.__setitem__(0, "x"),
            lambda: weft.copy(source, tensor[0]),
        ):
            with pytest.raises((IndexError, TypeError, ValueError)):
                wrong()

    for _ in range(20):
        use()
    gc.collect()
    before, references = sys.getallocatedblocks(), sys.getrefcount(source)
    held = tensor.reference_count
    for _ in range(300):
        use()
    gc.collect()
    assert sys.getallocatedblocks() - before < 250  # less than one for each use
    assert (sys.getrefcount(source), tensor.reference_count) == (references, held)


def test_threads_read_write_and_drop_one_tensor():
    tensor = weft.zeros((64, 64), weft.i64)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(200):
                tensor[number] = turn
                assert set(tensor[number].tolist()) == {turn}
                weft.copy(tensor[number + 32], tensor[number])
                view = memoryview(tensor[number])
                assert view[0] == turn
                np.asarray(tensor).sum()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert tensor[::32, 0].tolist() == [199, 199]


def test_a_kernel_reads_a_tensor_of_the_host_as_numpy_s_array():
    table, rounded = weft.full(3, 2, weft.f32), weft.full(3, 2, weft.bf16)

    @weft.kernel
    def scale_kernel(a: weft.Tensor):
        for factor in table:
            a[0] *= factor
        a[0] += weft.f32(rounded[1])

    @weft.jit
    def scale(a: weft.Tensor[weft.f32, ("n",)]):
        scale_kernel(a).launch(grid=1, block=1)

    a = weft.full(1, 1, weft.f32)
    scale(a)
    assert a[0] == 10
    table[2] = 0.5  # compiled again: what it read has changed
    scale(a)
    assert a[0] == 22
    rounded[1] = 1
    scale(a)
    assert a[0] == 45

    def count() -> None:
        table[0] = 5

    @weft.kernel
    def changing_kernel(a: weft.Tensor):
        if a[0] > 0:
            count()

    with pytest.raises(weft.UnsupportedSyntaxError, match="this Tensor cannot be changed by count"):
        weft.compile(weft.jit(lambda a: changing_kernel(a).launch(grid=1, block=1)), a)


def test_every_instance_of_a_subclass_is_read_like_its_base():
    class Named(np.ndarray):
        pass

    source = np.arange(4, dtype=np.int32).view(Named)
    target = weft.zeros(4, weft.i32)
    target[:] = source
    assert weft.copy(np.zeros(4, np.int32).view(Named), target).tolist() == [0, 1, 2, 3]
    own = type("Own", (ffi.Tensor,), {})(target.release(), borrowed=False)
    assert own[1] == 1
    assert isinstance(own[1:], ffi.Tensor)
    with pytest.raises(TypeError, match="masked array"):
        weft.copy(own, np.ma.masked_array([1, 2, 3, 4], [0, 1, 0, 0], np.int32))


def test_the_extension_refuses_a_non_tensor():
    for wrong in (3, ffi.Array([1]), None):
        with pytest.raises(TypeError):
            _native.fill_tensor(wrong, 1)
    with pytest.raises(TypeError, match="is not a tensor"):
        weft.copy(np.zeros(1), ffi.Array([1]))
    assert list(itertools.islice(weft.full(3, 1, weft.u8), 2)) == [1, 1]
