# SPDX-License-Identifier: Apache-2.0
"""Python objects as kernel parameters: bit for bit, range-checked, rounded to nearest even."""

from __future__ import annotations

import ctypes
import math
import struct

import numpy as np
import pytest

from tests.native.fake_cuda.code import assemble, parameter_kernel
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from weft.cli.functions import numpy_type
from weft.driver.binary import load_binary
from weft.driver.kernel_launch import (
    annotate_arguments,
    build_signature_metadata,
    launch_ex,
    make_kernel_signature,
    parse_signature,
)
from weft.driver.memory import empty
from weft.types.dtype import DTYPES, f32

PTX = {1: ".u8", 2: ".u16", 4: ".u32", 8: ".u64"}
SIZES = {
    "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u1": 1, "u8": 1, "u16": 2, "u32": 4, "u64": 8,
    "*i8": 8,
}  # fmt: skip
# Weft's and Triton's names of the floats.
FLOATS = {
    name: dtype
    for dtype in DTYPES
    if dtype.is_float
    for name in (dtype.name, dtype.name.replace("f", "fp", dtype.name[0] == "f"))
}
SIZES |= {name: dtype.itemsize for name, dtype in FLOATS.items()}


class Passer:
    """Passes one value as one type and gives the bytes that the driver received."""

    def __init__(self, fake: FakeCuda, kind: str, check: str = "device") -> None:
        self.fake = fake
        self.check = check
        self.signature = build_signature_metadata([kind])
        name = "take"
        if kind.startswith("struct"):
            parameter = f".align {kind.split(':')[1][:-1]} .b8 p[{kind.split('[')[1].split(':', maxsplit=1)[0]}]"
        else:
            parameter = ".align 64 .b8 p[128]" if kind == "nvTmaDesc" else PTX[SIZES[kind]]
        self.function = load_binary(name, assemble(parameter_kernel(name, [parameter])))[1]

    def __call__(self, value: object) -> bytes:
        launch_ex(self.function, 1, 1, self.signature, (value,), pointer_check=self.check)
        return bytes.fromhex(self.fake.launches()[-1].split("parameters=[")[1][:-1])


@on_fake()
def test_integers_are_passed_over_their_whole_range_and_not_beyond(fake: FakeCuda):
    for bits in (8, 16, 32, 64):
        for kind, least, most in [
            (f"i{bits}", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
            (f"u{bits}", 0, 2**bits - 1),
        ]:
            passer = Passer(fake, kind)
            for value in (least, most, 0, 1):
                assert int.from_bytes(passer(value), "little", signed=kind[0] == "i") == value
            for value in (least - 1, most + 1, 2**70, -(2**70)):
                with pytest.raises(
                    ValueError, match=rf"from {least} to {most} \({kind}\), received {value}"
                ):
                    passer(value)


@on_fake()
def test_flags_are_zero_or_one(fake: FakeCuda):
    for kind in ("i1", "u1"):
        passer = Passer(fake, kind)
        assert [passer(value) for value in (True, False, 1, np.bool_(True))] == [
            b"\1", b"\0", b"\1", b"\1",
        ]  # fmt: skip
        with pytest.raises(ValueError, match="from 0 to 1"):
            passer(2)


@on_fake()
def test_numpy_integers_are_integers_and_floats_are_not(fake: FakeCuda):
    passer = Passer(fake, "i32")
    assert passer(np.int64(-5)) == struct.pack("i", -5)
    for value in (1.0, np.float32(1), "1", None):
        with pytest.raises(TypeError, match=r"expected an int \(i32\), received"):
            passer(value)


@on_fake()
def test_floats_are_rounded_to_nearest_even(fake: FakeCuda):
    values = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        1 / 3,
        1 + 2**-8,
        1 + 3 * 2**-8,
        1e-8,
        6e-8,
        2**-140,
        240.0,
        math.pi,
    ]
    for kind, dtype in FLOATS.items():
        passer, element = Passer(fake, kind), numpy_type(dtype)
        for value in values:
            rounded = np.array(value).astype(element)
            if abs(value) > dtype.info.format.largest:
                with pytest.raises(ValueError, match="expected a float of magnitude"):
                    passer(value)
                continue
            if rounded == 0 and value != 0:
                with pytest.raises(ValueError, match="does not become 0"):
                    passer(value)
                continue
            assert passer(value) == rounded.tobytes(), (kind, value)
        assert math.isnan(float(np.frombuffer(passer(math.nan), element)[0]))
    for kind, dtype in FLOATS.items():
        infinity = dtype.info.format.infinity_bits
        if infinity is None:
            continue
        size = len(Passer(fake, kind)(0.0))
        assert Passer(fake, kind)(math.inf) == infinity.to_bytes(size, "little")
        negative = infinity | 1 << 8 * size - 1
        assert Passer(fake, kind)(-math.inf) == negative.to_bytes(size, "little")


@on_fake()
def test_a_finite_float_beyond_the_range_is_refused(fake: FakeCuda):
    for kind, value, largest in [
        ("fp16", 65520.0, "65504.0"),
        ("bf16", 3.4e38, r"3\.38953138925153\d*e\+38"),
        ("fp32", 1e39, r"3\.4028234663852886e\+38"),
        ("fp8e4m3", 500.0, "448.0"),
        ("fp8e5m2", -70000.0, "57344.0"),
        ("fp8e4m3", math.inf, "448.0"),  # the format has no infinity
        ("fp8e4m3", -math.inf, "448.0"),
        ("fp8e4m3", np.float32("inf"), "448.0"),
    ]:
        with pytest.raises(ValueError, match=rf"magnitude at most {largest} \({kind}\), received"):
            Passer(fake, kind)(value)
    for kind in (name for name in FLOATS if name.startswith(("fp", "bf"))):
        with pytest.raises(
            ValueError, match=rf"expected a float \({kind}\), received an int beyond"
        ):
            Passer(fake, kind)(10**400)
    with pytest.raises(TypeError, match=r"expected a float \(fp32\), received str"):
        Passer(fake, "fp32")("1.0")


class DataPointer:
    def __init__(self, address: object) -> None:
        self.address = address

    def data_ptr(self) -> object:
        return self.address


class CudaArray:
    def __init__(self, address: int) -> None:
        self.address = address

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        data = (self.address, False)
        return {"shape": (4,), "typestr": "<f4", "data": data, "version": 3, "strides": None}


@on_fake()
def test_pointers_come_from_none_ints_and_anything_with_an_address(fake: FakeCuda):
    passer = Passer(fake, "*i8")
    tensor = empty(16, f32, 0)
    address = int.from_bytes(passer(tensor), "little")
    assert address != 0
    assert passer(None) == bytes(8)
    assert passer(2**64 - 1) == b"\xff" * 8
    assert passer(DataPointer(address)) == address.to_bytes(8, "little")
    assert passer(CudaArray(address)) == address.to_bytes(8, "little")
    for wrong, exception, text in [
        (-1, ValueError, r"an address from 0 to 2\*\*64 - 1, received -1"),
        (2**64, ValueError, "an address from 0"),
        (DataPointer("x"), TypeError, r"an int from data_ptr\(\) of DataPointer, received str"),
        (1.5, TypeError, r"with data_ptr\(\), received float"),
    ]:
        with pytest.raises(exception, match=text):
            passer(wrong)


@on_fake(devices=2)
def test_a_pointer_to_the_wrong_memory_is_refused(fake: FakeCuda):
    host, other = np.zeros(4, np.float32), empty(4, f32, 1)
    passer = Passer(fake, "*i8")
    with pytest.raises(
        ValueError, match=r"argument #0: expected memory of cuda:0.* received host memory"
    ):
        passer(host)
    with pytest.raises(ValueError, match="received memory of cuda:1"):
        passer(other)
    address = int.from_bytes(Passer(fake, "*i8", "off")(other), "little")
    # An object with nothing but data_ptr(): only the driver knows what its address is of.
    with pytest.raises(ValueError, match=r"which CUDA does not know \(host memory\?\)"):
        passer(DataPointer(host.ctypes.data))
    with pytest.raises(ValueError, match="received memory of cuda:1"):
        passer(DataPointer(address))
    assert passer(DataPointer(0)) == bytes(8)
    unchecked = Passer(fake, "*i8", "off")
    assert unchecked(DataPointer(host.ctypes.data)) == host.ctypes.data.to_bytes(8, "little")
    assert passer(address) == address.to_bytes(8, "little")
    with pytest.raises(ValueError, match="received memory of cuda:1"):
        passer(CudaArray(address))
    checked = Passer(fake, "*i8", "driver")
    for wrong in (address, DataPointer(address)):
        with pytest.raises(ValueError, match="received memory of cuda:1"):
            checked(wrong)
    with pytest.raises(ValueError, match=r"which CUDA does not know \(host memory\?\)"):
        checked(host.ctypes.data)
    assert checked(None) == bytes(8)
    with pytest.raises(
        ValueError, match="pointer_check is 'x', expected one of: off, device, driver"
    ):
        Passer(fake, "*i8", "x")(0)


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_float), ("y", ctypes.c_float), ("n", ctypes.c_int))


@on_fake()
def test_structs_are_passed_by_value(fake: FakeCuda):
    passer = Passer(fake, "struct[12:4]")
    assert passer(Point(1.0, 2.0, 3)) == struct.pack("ffi", 1, 2, 3)
    assert passer(b"abcdefghijkl") == b"abcdefghijkl"
    with pytest.raises(ValueError, match=r"expected 12 bytes \(struct\), received 11"):
        passer(b"abcdefghijk")
    with pytest.raises(TypeError, match="expected an object with the buffer protocol of 12 bytes"):
        passer(3)


@on_fake()
def test_parameters_are_aligned_as_their_types_ask(fake: FakeCuda):
    kinds = ["i8", "i64", "i8", "struct[16:16]", "i16", "fp64"]
    parameters = [".u8", ".u64", ".u8", ".align 16 .b8 q[16]", ".u16", ".f64"]
    function = load_binary("many", assemble(parameter_kernel("many", parameters)))[1]
    launch_ex(function, 1, 1, build_signature_metadata(kinds), (1, 2, 3, bytes(range(16)), 4, 0.5))
    assert fake.launches()[-1].endswith(
        f"parameters=[01 0200000000000000 03 {bytes(range(16)).hex()} 0400 000000000000e03f]"
    )


@on_fake()
def test_many_and_large_parameters_fit(fake: FakeCuda):
    parameters = [f".align 1 .b8 q{index}[1000]" for index in range(4)]
    function = load_binary("large", assemble(parameter_kernel("large", parameters)))[1]
    blobs = tuple(bytes([index]) * 1000 for index in range(4))
    launch_ex(function, 1, 1, build_signature_metadata(["struct[1000:1]"] * 4), blobs)
    assert fake.launches()[-1].endswith(" ".join(blob.hex() for blob in blobs) + "]")


def test_unknown_type_names_are_refused_with_the_list():
    for name in ("f99", "", "*", "struct[0]", "struct[12:3]", "struct[x]", "struct[4:4", "i32 "):
        with pytest.raises(
            ValueError,
            match="is not a kernel parameter type, expected one of: '\\*<element>', 'i1'",
        ):
            build_signature_metadata([name])
    with pytest.raises(TypeError, match="expected a list of type names"):
        build_signature_metadata(3)  # type: ignore[arg-type]


def test_signatures_flatten_tuples_and_drop_constants():
    signature = {"a": "*fp32", "b": ("i32", ("constexpr", "bf16")), "C": "constexpr"}
    assert annotate_arguments(signature) == (1, (1, (0, 1)), 0)
    assert make_kernel_signature(signature) == build_signature_metadata(["*fp32", "i32", "bf16"])
    assert parse_signature(signature) == (
        annotate_arguments(signature),
        make_kernel_signature(signature),
    )
    assert annotate_arguments(["i32"]) == (1,)
