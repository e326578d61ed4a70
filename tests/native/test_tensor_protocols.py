# SPDX-License-Identifier: Apache-2.0
"""Tensors of other libraries: the exchange API, __dlpack__, __cuda_array_interface__ and buffers."""

import array
import ctypes

import pytest

from tests.native.callee import CPU, CUDA, DLTensor, library, planned, seen_tensor
from weft import _native, ffi

pytestmark = pytest.mark.joined

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


@pytest.fixture
def clean_stream():
    for device in (0, 1):
        library().callee_set_environment_stream(device, None)
    yield
    for device in (0, 1):
        library().callee_set_environment_stream(device, None)


def exchange_type(api: str = "callee_exchange_api") -> type:
    class Exchanged:
        __dlpack_c_exchange_api__ = new_capsule(
            getattr(library(), api)(), b"dlpack_exchange_api", None
        )

    return Exchanged


class Producer:
    """Exports a managed tensor and remembers how it was asked."""

    def __init__(self, device_type=CPU, flags=0, versioned=True, major=1, knows_version=True):
        self.device_type, self.flags, self.versioned, self.major = (
            device_type,
            flags,
            versioned,
            major,
        )
        self.knows_version = knows_version
        self.asked: list[dict] = []

    def __dlpack_device__(self):
        return (self.device_type, 0)

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        if "max_version" in keywords and not self.knows_version:
            raise TypeError("unexpected keyword argument 'max_version'")
        managed = library().callee_managed(
            self.device_type, self.flags, int(self.versioned), self.major
        )
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new_capsule(managed, name, None)


def test_the_exchange_api_gives_the_tensor_and_the_stream(clean_stream):
    queries = library().callee_stream_queries()
    tensor = seen_tensor(exchange_type()())
    assert (tensor.shape, tensor.strides, tensor.device) == ((2, 3), (3, 1), (CUDA, 1))
    assert (tensor.data, tensor.byte_offset) == (0x1000, 8)
    assert library().callee_stream(1) == 0x5001
    assert library().callee_stream_queries() == queries + 1


def test_a_newer_exchange_api_is_used_through_a_known_one():
    argument = exchange_type("callee_future_exchange_api")()
    deleted = library().callee_deleted()
    assert seen_tensor(argument).shape == (2, 3)
    assert library().callee_deleted() == deleted + 1
    with pytest.raises(ValueError, match="writable memory"):
        planned("record", "a", written_mask=1)(argument)
    assert library().callee_deleted() == deleted + 2


def test_the_stream_is_asked_once_and_restored(clean_stream):
    library().callee_set_environment_stream(1, ctypes.c_void_p(0x99))
    queries = library().callee_stream_queries()
    argument = exchange_type()()
    planned("record", "a", "b", "c")(argument, argument, argument)
    assert library().callee_stream_queries() == queries + 1
    assert library().callee_stream(1) == 0x5001
    assert library().callee_environment_stream(1) == 0x99
    with pytest.raises(ValueError, match="expected 10"):
        planned("raise_value_error", "a")(argument)
    assert library().callee_environment_stream(1) == 0x99


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_capsules_are_used_once_and_given_back(versioned):
    producer = Producer(versioned=versioned)
    deleted = library().callee_deleted()
    tensor = seen_tensor(producer)
    assert (tensor.shape, tensor.data, tensor.byte_offset) == ((2, 3), 0x1000, 8)
    assert library().callee_deleted() == deleted + 1
    assert producer.asked == [{"max_version": (1, 1)}]


def test_an_old_dlpack_producer_is_asked_without_version():
    producer = Producer(versioned=False, knows_version=False)
    assert seen_tensor(producer).shape == (2, 3)
    assert producer.asked == [{"max_version": (1, 1)}, {}]


def test_a_cuda_producer_gets_the_stream_that_the_call_runs_on(clean_stream):
    producer = Producer(device_type=CUDA)
    seen_tensor(producer)
    library().callee_set_environment_stream(0, ctypes.c_void_p(0x66))
    seen_tensor(producer)
    assert [asked["stream"] for asked in producer.asked] == [1, 0x66]


class Named(Producer):
    """As CuPy's arrays are: exported by DLPack, with the library's current stream in the interface."""

    stream: object = 0x77

    @property
    def __cuda_array_interface__(self):
        if isinstance(self.stream, BaseException):
            raise self.stream
        return {"shape": (2, 3), "typestr": "<f4", "data": (0x1000, False), "stream": self.stream}


def test_a_call_runs_on_the_stream_that_a_dlpack_producer_names(clean_stream):
    library().callee_set_environment_stream(0, ctypes.c_void_p(0x66))
    producer = Named(device_type=CUDA)
    call = planned("record", "a").prepare(producer)
    for stream, expected in (
        (0x77, 0x77),
        (None, 0x66),
        (0x78, 0x78),
        (AttributeError("no such type"), 0x66),
    ):
        producer.stream = stream
        seen_tensor(producer)
        assert library().callee_stream(0) == producer.asked[-1]["stream"] == expected
        call()
        assert library().callee_stream(0) == expected
        assert library().callee_environment_stream(0) == 0x66
    producer.stream = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        seen_tensor(producer)


def test_a_later_producer_gets_the_stream_of_the_first(clean_stream):
    first, second = Named(device_type=CUDA), Producer(device_type=CUDA)
    planned("record", "a", "b")(first, second)
    assert second.asked[-1]["stream"] == 0x77
    planned("record", "a", "b")(second, first)
    assert first.asked[-1]["stream"] == second.asked[-1]["stream"] == 1


@pytest.mark.parametrize("flag", [1, 2], ids=["read-only", "copied"])
def test_what_must_not_be_written_is_refused_where_it_is(flag):
    planned("record", "a")(Producer(flags=flag))
    with pytest.raises(ValueError, match="writable memory"):
        planned("record", "a", written_mask=1)(Producer(flags=flag))


@pytest.mark.parametrize(
    ("producer", "message"),
    [
        (Producer(major=2), "DLPack version 2, expected version 1"),
        (Producer(flags=4), "padded sub-byte"),
    ],
)
def test_exports_that_cannot_be_used_are_refused_and_given_back(producer, message):
    with pytest.raises(TypeError, match=rf"argument #0 'a': .*{message}"):
        planned("record", "a")(producer)


def test_a_producer_that_raises_is_quoted_and_kept_as_the_cause():
    class Failing(Producer):
        def __dlpack__(self, **_keywords):
            raise BufferError("not today")

    with pytest.raises(
        TypeError, match="Failing cannot be exported through DLPack: not today"
    ) as caught:
        planned("record", "a")(Failing())
    assert isinstance(caught.value.__cause__, BufferError)


class CudaArray:
    """Whatever the interface says."""

    def __init__(self, **changes):
        self.__cuda_array_interface__ = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (0x2000, False),
            "version": 3,
            **changes,
        }


CudaArray.__cuda_array_interface__ = None  # type: ignore[attr-defined]


class CudaArrayType(CudaArray):
    """With a property on the type, as libraries have it."""

    __cuda_array_interface__ = property(  # type: ignore[assignment]
        lambda self: self.__dict__["interface"],
        lambda self, value: self.__dict__.__setitem__("interface", value),
    )


def test_the_cuda_array_interface_is_read_with_strides_and_stream(clean_stream):
    tensor = seen_tensor(CudaArrayType(strides=(24, 8), stream=0x44))
    assert (tensor.data, tensor.shape, tensor.strides) == (0x2000, (2, 3), (6, 2))
    assert (tensor.dtype, tensor.device) == ((2, 32, 1), (CUDA, 0))
    assert library().callee_stream(0) == 0x44
    assert seen_tensor(CudaArrayType()).strides == (3, 1)


@pytest.mark.parametrize(
    ("typestr", "dtype"),
    [
        *[("|b1", (6, 8, 1)), ("|i1", (0, 8, 1)), ("<i8", (0, 64, 1)), ("<u4", (1, 32, 1))],
        *[("<f2", (2, 16, 1)), ("<f8", (2, 64, 1)), ("<c8", (5, 64, 1)), ("<c16", (5, 128, 1))],
    ],
)
def test_every_type_of_the_cuda_array_interface_is_read(typestr, dtype):
    assert seen_tensor(CudaArrayType(typestr=typestr)).dtype == dtype


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *[
            ({"typestr": text}, "numeric typestr")
            for text in ("<f16", "<i16", "<c4", "|b2", "<f12")
        ],
        ({"typestr": ">f4"}, "numeric typestr"),
        ({"typestr": "|V4"}, "numeric typestr"),
        ({"mask": object()}, "masked array"),
        ({"strides": (24, 6)}, r"strides\[1\] = 6 bytes"),
        ({"strides": (24,)}, "tuple of 2 as strides"),
        ({"data": (0, False)}, "6 elements and no data"),
        ({"data": None}, "pointer, read_only"),
        ({"shape": 3}, "tuple as shape"),
    ],
)
def test_an_interface_that_cannot_be_used_is_refused(changes, message):
    with pytest.raises((TypeError, ValueError), match=rf"argument #0 'a': .*{message}"):
        planned("record", "a")(CudaArrayType(**changes))


def test_a_read_only_interface_is_refused_where_it_is_written():
    with pytest.raises(ValueError, match="writable memory"):
        planned("record", "a", written_mask=1)(CudaArrayType(data=(0x2000, True)))


class Described(Producer):
    """Exports a managed tensor with anything in it."""

    def __init__(self, versioned=True, **fields):
        super().__init__(versioned=versioned)
        self.fields = fields

    def __dlpack__(self, **_keywords):
        managed = library().callee_managed(CPU, 0, int(self.versioned), 1)
        tensor = DLTensor.from_address(managed + (32 if self.versioned else 0))
        for name, value in self.fields.items():
            if isinstance(value, tuple):
                value = (ctypes.c_int64 * len(value))(*value)
                self.kept = [*getattr(self, "kept", []), value]
            setattr(tensor, name, value)
        return new_capsule(managed, b"dltensor_versioned" if self.versioned else b"dltensor", None)


MOST = 2**63 - 1
NOWHERE = "expected elements inside the address space"
WRAPPING = {
    "byte_offset": ({"byte_offset": 2**64 - 8}, NOWHERE),
    "byte_offset before the last element": ({"byte_offset": 2**64 - 0x1000 - 8}, NOWHERE),
    "stride": ({"strides": (2**62, 1)}, NOWHERE),
    "sum of strides": ({"shape": (2, 2), "strides": (MOST, MOST)}, NOWHERE),
    "product of dim and stride": ({"shape": (2**32, 3), "strides": (2**32, 1)}, NOWHERE),
    "before address 0": ({"strides": (-(2**20), 1)}, NOWHERE),
    "shape": (
        {"shape": (2**32, 2**32), "strides": (0, 0)},
        "expected fewer than 2\\*\\*63 elements",
    ),
    "compact strides": ({"shape": (2**40, 2**40), "strides": None}, "expected fewer than 2"),
    "empty": ({"shape": (0, 2**62), "strides": (1, 1), "byte_offset": 2**64 - 8}, NOWHERE),
    "negative dim": ({"shape": (2, -3)}, r"expected dims of 0 and more, .* shape\[1\] = -3"),
}


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(("fields", "message"), WRAPPING.values(), ids=WRAPPING)
def test_a_description_that_wraps_is_refused(fields, message, versioned):
    argument = Described(versioned, **fields)
    deleted = library().callee_deleted()
    with pytest.raises(ValueError, match=rf"argument #0 'a': {message}"):
        planned("record", "a")(argument)
    with pytest.raises(ValueError, match=message):
        ffi.from_dlpack(argument)
    assert library().callee_deleted() == deleted + 2


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": (MOST, 1), "strides": (0, MOST)},
        {"shape": (0, 3), "strides": (MOST, MOST)},
        {"strides": (-3, 1)},
        {"byte_offset": 2**63},
    ],
    ids=["broadcast", "no elements", "backwards", "far"],
)
def test_a_description_that_does_not_wrap_is_taken(fields):
    tensor = seen_tensor(Described(**fields))
    assert {name: getattr(tensor, name) for name in fields} == fields


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(("code", "bits"), [(2, 32), (2, 64), (5, 64), (5, 128), (0, 16)])
def test_a_negative_stride_divided_as_unsigned_is_accepted(code, bits, versioned):
    """As CuPy 14 exports reversed arrays."""
    size = bits // 8
    for stride in (-1, -3, -17):
        quotient = (2**64 + stride * size) // size
        argument = Described(
            versioned, code=code, bits=bits, strides=(quotient, 1), byte_offset=17 * size
        )
        assert seen_tensor(argument).strides == (stride, 1)
        assert ffi.from_dlpack(argument).strides == (stride, 1)
    argument = Described(code=code, bits=bits, strides=(2**64 // size - 2**20, 1))
    with pytest.raises(ValueError, match=NOWHERE):
        ffi.from_dlpack(argument)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (-2, 3)}, "expected dims of 0 and more"),
        ({"shape": (2**40, 2**40)}, "expected fewer than 2"),
        ({"shape": (9, 3), "strides": (2**61, 4)}, NOWHERE),
        ({"strides": (-(2**20), 4)}, NOWHERE),
        ({"data": (2**64 - 4, False)}, NOWHERE),
    ],
)
def test_an_interface_that_wraps_is_refused(changes, message):
    with pytest.raises(ValueError, match=rf"argument #0 'a': {message}"):
        planned("record", "a")(CudaArrayType(**changes))


@pytest.mark.parametrize(
    ("buffer", "dtype", "shape"),
    [
        (bytearray(b"abcd"), (1, 8), (4,)),
        (array.array("d", [1.0, 2.0]), (2, 64), (2,)),
        (memoryview(bytearray(24)).cast("i", (2, 3)), (0, 32), (2, 3)),
        ((ctypes.c_int16 * 3 * 2)(), (0, 16), (2, 3)),
        (memoryview(bytearray(4)).cast("?"), (6, 8), (4,)),
        (memoryview(array.array("i", range(6)))[::2], (0, 32), (3,)),
    ],
    ids=["bytearray", "array", "memoryview", "ctypes", "bool", "strided"],
)
def test_buffers_are_tensors(buffer, dtype, shape):
    tensor = seen_tensor(buffer, written_mask=1)
    assert (tensor.dtype, tensor.shape, tensor.device) == ((*dtype, 1), shape, (CPU, 0))


def test_a_buffer_is_released_when_the_call_ends():
    buffer = bytearray(b"abcd")
    planned("record", "a")(buffer)
    buffer.append(1)


def test_a_read_only_buffer_is_refused_where_it_is_written():
    with pytest.raises(ValueError, match="writable memory"):
        planned("record", "a", written_mask=1)(memoryview(b"abcd"))


def test_buffers_of_other_things_are_refused():
    class Record(ctypes.Structure):
        _fields_ = (("x", ctypes.c_int32), ("y", ctypes.c_int32))

    with pytest.raises(TypeError, match="format"):
        planned("record", "a")((Record * 2)())


def test_a_rung_can_be_forced():
    import numpy as np

    _native.set_reader_rungs(32)
    try:
        assert seen_tensor(np.zeros((2, 3), "f4")).shape == (2, 3)
        with pytest.raises(TypeError, match="received Producer"):
            planned("record", "a")(Producer())
    finally:
        _native.set_reader_rungs(63)
    assert seen_tensor(Producer()).shape == (2, 3)
