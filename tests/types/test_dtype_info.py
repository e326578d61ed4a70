# SPDX-License-Identifier: Apache-2.0
"""Each column of `INFO` is what its owner says, and no table of types elsewhere lacks one."""

from __future__ import annotations

import math
import random
import re
import runpy
import struct
from importlib.util import find_spec
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

import weft
from weft import _native
from weft.cli.functions import numpy_type
from weft.codegen.llvm.types import FLOAT_NAMES, llvm_type
from weft.codegen.operations import conversions
from weft.driver.tensor_map import ELEMENTS
from weft.ffi.data_type import DataType
from weft.language.ir_types import ir_type
from weft.language.other_names import meant
from weft.types.dtype import (
    ALL_DTYPES,
    DTYPES,
    INFO,
    PACKED_DTYPES,
    SCALE_DTYPES,
    dtype_from_dlpack,
    dtype_named,
    dtype_of_numpy,
)

ROOT = Path(__file__).resolve().parents[2]
ALL = ALL_DTYPES
FLOATS = [dtype for dtype in ALL if dtype.is_float]


def test_every_dtype_is_complete():
    """Both ways: a row for each type, a type for each row, and every name in each library of one type only."""
    assert sorted(dtype.name for dtype in ALL) == sorted(INFO)
    for column in ("numpy", "torch", "xla"):
        said = [getattr(info, column) for info in INFO.values() if getattr(info, column)]
        assert len(said) == len(set(said)), column
    for dtype in ALL:
        info = dtype.info
        assert getattr(weft, dtype.name) is dtype is dtype_named(dtype.name)
        assert (dtype.kind, dtype.bits, dtype.dlpack_code) == info[:3]
        assert (info.format is not None) == dtype.is_float
        sign_bits = 0 if dtype in SCALE_DTYPES else 1
        assert info.format is None or info.format.sign_bit << sign_bits == 1 << dtype.bits
        assert info.is_packed == dtype.is_packed == (dtype.bits < 8) == (dtype in PACKED_DTYPES)
        assert info.storage_bytes(24) * 8 == 24 * dtype.bits
    stubs = (ROOT / "src/weft/__init__.pyi").read_text()
    pages = (ROOT / "docs/language.md").read_text()
    for dtype in ALL:
        assert re.search(rf"\b{dtype.name}\b", stubs), dtype
        assert re.search(rf"`[^`]*\b{dtype.name}\b[^`]*`", pages), dtype


@pytest.mark.joined
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_dlpack_and_the_extension_agree(dtype):
    triple = (dtype.dlpack_code, dtype.bits, 1)
    assert dtype_from_dlpack(*triple) is dtype
    assert _native.data_type_triple(dtype) == triple
    assert DataType(dtype).weft is dtype


def test_the_codes_are_those_of_dlpack():
    spec = find_spec("tvm_ffi")
    assert spec is not None
    assert spec.submodule_search_locations
    header = Path(spec.submodule_search_locations[0]) / "include/dlpack/dlpack.h"
    codes = dict(re.findall(r"kDL(\w+) = (\d+)U", header.read_text()))
    words = {"bool": "Bool", "int": "Int", "uint": "UInt"}
    for dtype in ALL:
        name = words.get(dtype.kind) or dtype.info.numpy.removesuffix(str(dtype.bits)).capitalize()
        assert dtype.dlpack_code == int(codes[name.replace("Bfloat", "Bfloat")]), dtype


@pytest.mark.parametrize("dtype", (*DTYPES, *SCALE_DTYPES), ids=str)
def test_numpy_and_ml_dtypes_agree(dtype):
    kind = numpy_type(dtype)
    assert dtype_of_numpy(kind.name) is dtype
    assert 8 * kind.itemsize == dtype.bits
    if dtype.is_float:
        facts = ml_dtypes.finfo(kind)
        assert float(facts.max) == dtype.info.format.largest
        assert float(facts.smallest_subnormal) == 2.0**dtype.info.format.smallest_exponent
    elif not dtype.is_bool:
        assert (np.iinfo(kind).min, np.iinfo(kind).max) == (dtype.minimum, dtype.maximum)
    found = _native.tensor_info(np.zeros(2, kind))
    assert (found.dtype_code, found.dtype_bits, found.dtype_lanes) == (*dtype.info[2:0:-1], 1)


@pytest.mark.joined
@pytest.mark.parametrize("dtype", [d for d in ALL if d.info.torch], ids=str)
def test_torch_agrees(dtype):
    torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
    kind = getattr(torch, dtype.info.torch)
    lanes = 8 * kind.itemsize // dtype.bits
    assert lanes == dtype.info.in_whole_bytes if dtype.is_packed else lanes == 1
    assert _native.data_type_triple(kind) == (dtype.dlpack_code, dtype.bits, lanes)
    if lanes > 1:
        return
    found = _native.tensor_info(torch.zeros(2, dtype=kind))
    assert (found.dtype_code, found.dtype_bits) == (dtype.dlpack_code, dtype.bits)


def test_the_header_of_the_extension_is_generated():
    generator = runpy.run_path(str(ROOT / "tools/write_native_types.py"))
    assert generator["TARGET"].read_text() == generator["text"](), "make native"


@pytest.mark.joined
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_mlir_and_llvm_have_the_type(dtype):
    context = Context()
    context.load_dialect(Builtin)
    assert Parser(context, dtype.info.mlir).parse_type() == ir_type(dtype)
    assert llvm_type(ir_type(dtype)) == dtype.info.llvm
    if dtype.is_float:
        assert FLOAT_NAMES[type(ir_type(dtype))] == dtype.name
        assert conversions._LLVM[dtype.name] == dtype.info.llvm


def test_tensor_maps_have_every_whole_type():
    own = {name: row for name, row in ELEMENTS.items() if name in INFO}
    whole = {name for name, info in INFO.items() if not info.is_packed and info.kind != "complex"}
    assert own.keys() | {"bool_"} == whole
    assert all(INFO[name].storage_bytes(1) == size for name, (_, size) in own.items())
    assert len({number for number, _ in ELEMENTS.values()}) == 13


@pytest.mark.joined
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_other_languages_names_lead_to_the_type(dtype):
    assert {meant(alias, [dtype.name]) for alias in dtype.info.aliases} <= {dtype.name}


def numpy_of(dtype):
    """The type of NumPy, or of ml_dtypes with a byte for each element."""
    return getattr(ml_dtypes, dtype.info.numpy) if dtype.bits < 8 else numpy_type(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_format_reads_and_writes_its_numbers(dtype):
    kind = dtype.info.format
    letter = {64: "d", 32: "f"}.get(dtype.bits)
    generator = random.Random(3)
    patterns = range(1 << dtype.bits) if dtype.bits <= 16 else ()
    patterns = patterns or [generator.getrandbits(dtype.bits) for _ in range(2000)]
    unsigned = {16: np.uint16, 32: np.uint32, 64: np.uint64}.get(dtype.bits, np.uint8)
    with np.errstate(invalid="ignore"):  # of signaling NaNs
        values = np.array(patterns, unsigned).view(numpy_of(dtype)).astype(np.float64)
    for bits, value in zip(patterns, values.tolist(), strict=True):
        found = kind.value_of(bits)
        assert found == value or (math.isnan(found) and math.isnan(value)), hex(bits)
        assert (
            math.isnan(value)
            or (kind.saturates and math.isinf(value))
            or kind.bits_of(value) == bits
        )
    for _ in range(2000):
        value = math.ldexp(generator.uniform(-2, 2), generator.randint(-20, 15))
        if (
            dtype in SCALE_DTYPES
        ):  # ml_dtypes rounds to nearest, and has NaN for what is not positive
            wanted = int(np.ceil(np.log2(abs(value)))) + 127
        elif letter:
            (wanted,) = struct.unpack(
                f"<{'Q' if letter == 'd' else 'I'}", struct.pack(letter, value)
            )
        else:
            limit = kind.largest if kind.saturates else math.inf
            clipped = min(max(value, -limit), limit)
            wanted = int(np.float64(clipped).astype(numpy_of(dtype)).view(unsigned))
        assert kind.bits_of(value) == wanted, value


PRIVATE = re.compile(r"""["'](?:bfloat16|float8_e4m3fn|e4m3x2|f8E4M3FN)["']""")


def test_no_other_module_has_a_table_of_types():
    """A name of a type in another language stands in `dtype_info` alone."""
    found = [
        path.relative_to(ROOT / "src/weft").as_posix()
        for path in sorted((ROOT / "src/weft").rglob("*.py"))
        if PRIVATE.search(re.sub(r'"""(.|\n)*?"""', "", path.read_text()))
    ]
    assert [name for name in found if not name.startswith("kernels/")] == ["types/dtype.py"]
