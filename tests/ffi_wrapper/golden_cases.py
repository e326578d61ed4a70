# SPDX-License-Identifier: Apache-2.0
"""The ways in which an argument can be wrong, or odd and right: annotations, values, and what every caller gets.

Out: tables by the name of the case.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

from tests.ffi_wrapper.golden_callers import ADDRESS, Tensor
from weft.arguments.constant import Constexpr
from weft.arguments.pointer import Pointer
from weft.arguments.shape import Shape
from weft.arguments.stream import Stream
from weft.arguments.tensor_spec import Tensor as Spec
from weft.arguments.tensor_spec import fake_tensor
from weft.types.dims import sym
from weft.types.dtype import bf16, bool_, f8e4m3, f16, f32, f64, i8, i32, i64, u8, u64

N = Spec[f32, ("n",)]


@dataclass(frozen=True)
class Pair:
    a: N
    b: N
    tile: Constexpr[int] = 4


def errors(received: str, expected: str) -> str:
    return f"TypeError: argument #0 'a': expected {expected}, received {received}"


T10, T12 = Tensor(10), Tensor(12)
KIND = {
    "int": (3, "an int 3"),
    "float": (1.5, "a float 1.5"),
    "bool": (True, "a bool True"),
    "None": (None, "None"),
    "str": ("abc", "a str 'abc'"),
    "tuple": ((1, 2), "a list or tuple of 2 items"),
    "pointer": (ctypes.c_void_p(64), "a pointer 0x40"),
}

# name: (annotations, values, answer)
WRONG: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], str]] = {
    **{
        f"{name} for a tensor": ((N,), (v,), errors(r, "a tensor")) for name, (v, r) in KIND.items()
    },
    "dtype": (
        (N,),
        (Tensor(10, dtype="f64"),),
        "ValueError: argument #0 'a': dtype is f64, expected f32",
    ),
    "dtype of the same size": (
        (N,),
        (Tensor(10, dtype="i32"),),
        "ValueError: argument #0 'a': dtype is i32, expected f32",
    ),
    "u8 for bool": (
        (Spec[bool_, ("n",)],),
        (Tensor(10, dtype="u8"),),
        "ValueError: argument #0 'a': dtype is u8, expected bool_",
    ),
    "rank": (
        (N,),
        (Tensor(3, 4),),
        "ValueError: argument #0 'a': rank is 2 (shape (3, 4)), expected 1",
    ),
    "rank 0 for 1": (
        (N,),
        (Tensor(),),
        "ValueError: argument #0 'a': rank is 0 (shape ()), expected 1",
    ),
    "no memory": (
        (N,),
        (Tensor(10, data=0),),
        "ValueError: argument #0 'a': data is a null pointer, expected the elements of shape (10,)",
    ),
    "tensor for 0-d": (
        (Spec[f32, ()],),
        (Tensor(1),),
        "ValueError: argument #0 'a': rank is 1 (shape (1,)), expected 0",
    ),
    "device": (
        (N,),
        (Tensor(10, device=(2, 1)),),
        "ValueError: argument #0 'a': device is cuda:1, expected cpu",
    ),
    "misaligned": (
        (N,),
        (Tensor(10, data=ADDRESS + 2),),
        f"ValueError: argument #0 'a': data is at {ADDRESS + 2:#x}, expected an address divisible by 4",
    ),
    "misaligned by byte_offset": (
        (fake_tensor(f32, ("n",), alignment_bytes=16),),
        (Tensor(10, byte_offset=8),),
        f"ValueError: argument #0 'a': data is at {ADDRESS + 8:#x}, expected an address divisible by 16",
    ),
    "symbol": (
        (N, N),
        (T10, T12),
        "ValueError: argument #1 'b': shape[0] is 12, expected 10 to match a.shape[0]",
    ),
    "static dim": (
        (Spec[f32, (4,)],),
        (T10,),
        "ValueError: argument #0 'a': shape[0] is 10, expected 4",
    ),
    "divisibility of a dim": (
        (Spec[f32, (sym("n", 16),)],),
        (T10,),
        "ValueError: argument #0 'a': shape[0] is 10, expected a multiple of 16",
    ),
    "divisibility of a stride": (
        (fake_tensor(f32, ("n", "m"), strides=(sym("s", 4), 1)),),
        (Tensor(3, 5, strides=(5, 1)),),
        "ValueError: argument #0 'a': strides[0] is 5, expected a multiple of 4",
    ),
    "stride": (
        (N,),
        (Tensor(10, strides=(2,)),),
        "ValueError: argument #0 'a': strides[0] is 2, expected 1 for layout contiguous of Tensor[f32, (n,)]; "
        "compile with such a tensor, or annotate the layout 'strided'",
    ),
    "huge dim": (
        (N,),
        (Tensor(1 << 40),),
        "ValueError: argument #0 'a': shape[0] is 1099511627776, expected 0 to 2147483647 "
        "(32 bits; weft.sym(..., width=64) allows more)",
    ),
    "negative dim": (
        (Spec[f32, ("n",), "strided"],),
        (Tensor(-1, strides=(1,)),),
        "ValueError: argument #0 'a': shape[0] is -1, expected 0 to 2147483647 "
        "(32 bits; weft.sym(..., width=64) allows more)",
    ),
    "symbol of 64 bits": (
        (Spec[u8, (sym("n", width=64),), "strided"],) * 2,
        (Tensor(1 << 40, dtype="u8", strides=(0,)), Tensor(1 << 41, dtype="u8", strides=(0,))),
        "ValueError: argument #1 'b': shape[0] is 2199023255552, expected 1099511627776 to match a.shape[0]",
    ),
    "layout inner": (
        (Spec[f32, ("n", "m"), "inner"],),
        (Tensor(3, 4, strides=(1, 3)),),
        "ValueError: argument #0 'a': strides[1] is 3, expected 1 for layout inner of "
        "Tensor[f32, (n, m), inner]; compile with such a tensor, or annotate the layout 'strided'",
    ),
    "int below the type": (
        (i8,),
        (-129,),
        "ValueError: argument #0 'a': value is -129, expected -128 to 127 (i8)",
    ),
    "int beyond the type": (
        (u8,),
        (256,),
        "ValueError: argument #0 'a': value is 256, expected 0 to 255 (u8)",
    ),
    "-1 for unsigned": (
        (u8,),
        (-1,),
        "ValueError: argument #0 'a': value is -1, expected 0 to 255 (u8)",
    ),
    "-1 for u64": (
        (u64,),
        (-1,),
        "ValueError: argument #0 'a': value is -1, expected 0 to 18446744073709551615 (u64)",
    ),
    "2**63 for i64": (
        (i64,),
        (1 << 63,),
        "ValueError: argument #0 'a': value is 9223372036854775808, "
        "expected -9223372036854775808 to 9223372036854775807 (i64)",
    ),
    "float for int": ((i32,), (1.0,), errors("a float 1.0", "an int (i32)")),
    "NaN for int": ((i32,), (math.nan,), errors("a float nan", "an int (i32)")),
    "None for int": ((i32,), (None,), errors("None", "an int (i32)")),
    "None for float": ((f32,), (None,), errors("None", "a float (f32)")),
    "None for a tuple": (
        (tuple[i32, f32],),
        (None,),
        errors("None", "a tuple of 2 (tuple[i32, f32])"),
    ),
    "infinity for int": ((i32,), (math.inf,), errors("a float inf", "an int (i32)")),
    "65520 for f16": (
        (f16,),
        (65520.0,),
        "ValueError: argument #0 'a': value is 65520.0, expected at most 65504.0 in magnitude (f16)",
    ),
    "str for float": ((f32,), ("abc",), errors("a str 'abc'", "a float (f32)")),
    "tensor for int": (
        (i32,),
        (T10,),
        errors("a tensor of f32 with shape (10,) on cpu", "an int (i32)"),
    ),
    "1e300 for f32": (
        (f32,),
        (1e300,),
        "ValueError: argument #0 'a': value is 1e+300, expected at most 3.4028234663852886e+38 in magnitude (f32)",
    ),
    "2 for bool": (
        (bool_,),
        (2,),
        "ValueError: argument #0 'a': value is 2, expected 0 or 1 (bool_)",
    ),
    "float for bool": ((bool_,), (1.0,), errors("a float 1.0", "a bool (bool_)")),
    "value for None": ((None,), (0,), errors("an int 0", "None, for which it was compiled")),
    "int for a tuple": (
        (tuple[i32, f32],),
        (3,),
        errors("an int 3", "a tuple of 2 (tuple[i32, f32])"),
    ),
    "size of a tuple": (
        (tuple[i32, f32],),
        ((1,),),
        "ValueError: argument #0 'a': it has 1 item, expected 2 (tuple[i32, f32])",
    ),
    "item of a tuple": (
        (tuple[i32, tuple[f32, N]],),
        ((1, (2.0, 3)),),
        "TypeError: argument #0 'a[1][1]': expected a tensor, received an int 3",
    ),
    "size of a nested tuple": (
        (tuple[i32, tuple[f32, N]],),
        ((1, ()),),
        "ValueError: argument #0 'a[1]': it has 0 items, expected 2 (tuple[f32, Tensor[f32, (n,)]])",
    ),
    "field of a dataclass": (
        (Pair,),
        ((T10, T12),),
        "ValueError: argument #0 'a.b': shape[0] is 12, expected 10 to match a.a.shape[0]",
    ),
    "int for a shape": ((Shape["n", 4],), (3,), errors("an int 3", "a shape of 2")),
    "size of a shape": (
        (Shape["n", 4],),
        ((1, 2, 3),),
        "ValueError: argument #0 'a': it has 3 items, expected 2",
    ),
    "item of a shape": (
        (Shape["n", 4],),
        ((1, 2.0),),
        "TypeError: argument #0 'a': shape[1] is a float 2.0, expected an int",
    ),
    "demanded size of a shape": (
        (Shape["n", 4],),
        ((1, 5),),
        "ValueError: argument #0 'a': shape[1] is 5, expected 4",
    ),
    "shape and tensor": (
        (N, Shape["n"]),
        (T10, (11,)),
        "ValueError: argument #1 'b': shape[0] is 11, expected 10 to match a.shape[0]",
    ),
    "tensor and shape": (
        (Shape["n"], N),
        ((11,), T10),
        "ValueError: argument #1 'b': shape[0] is 10, expected 11 to match a[0]",
    ),
    "negative size": (
        (Shape["n"],),
        ((-1,),),
        "ValueError: argument #0 'a': shape[0] is -1, expected 0 to 2147483647 "
        "(32 bits; weft.sym(..., width=64) allows more)",
    ),
    "size and tensor": (
        (N, sym("n")),
        (T10, 11),
        "ValueError: argument #1 'b': value is 11, expected 10 to match a.shape[0]",
    ),
    "tensor and size": (
        (sym("n"), N),
        (11, T10),
        "ValueError: argument #1 'b': shape[0] is 10, expected 11 to match a",
    ),
    "size that is not divisible": (
        (sym("n", 8),),
        (12,),
        "ValueError: argument #0 'a': value is 12, expected a multiple of 8",
    ),
    "float for a size": ((sym("n"),), (2.0,), errors("a float 2.0", "an int (i64)")),
    "tensor for a pointer": (
        (Pointer[f32],),
        (T10,),
        errors("a tensor of f32 with shape (10,) on cpu", "an address (Pointer[f32])"),
    ),
    "float for a pointer": (
        (Pointer[f32],),
        (1.5,),
        errors("a float 1.5", "an address (Pointer[f32])"),
    ),
    "str for a pointer": (
        (Pointer[f32],),
        ("abc",),
        errors("a str 'abc'", "an address (Pointer[f32])"),
    ),
    "address less aligned than promised": (
        (Pointer[f32, "global", 64],),
        (0x1010,),
        "ValueError: argument #0 'a': address is 0x1010, expected a multiple of 64",
    ),
    "odd address": (
        (Pointer[f32],),
        (0x1002,),
        "ValueError: argument #0 'a': address is 0x1002, expected a multiple of 4",
    ),
    "negative address": (
        (Pointer[u8],),
        (-4,),
        "ValueError: argument #0 'a': value is -4, expected an address, which is not negative",
    ),
}

# Checks that need tensors on CUDA devices; they fail before a driver is asked for.
ON_CUDA: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], str]] = {
    "CPU tensor": (
        (N,),
        (T10,),
        "ValueError: argument #0 'a': device is cpu, expected cuda",
    ),
    "two devices": (
        (N, N),
        (Tensor(10, device=(2, 0)), Tensor(10, device=(2, 1))),
        "ValueError: argument #1 'b': device is cuda:1, expected cuda:0 to match 'a'",
    ),
    "another device than demanded": (
        (fake_tensor(f32, ("n",), device="cuda:1"),),
        (Tensor(10, device=(2, 0)),),
        "ValueError: argument #0 'a': device is cuda:0, expected cuda:1",
    ),
    "two devices in a tuple": (
        (tuple[N, N],),
        ((Tensor(10, device=(2, 0)), Tensor(10, device=(2, 1))),),
        "ValueError: argument #0 'a[1]': device is cuda:1, expected cuda:0 to match 'a[0]'",
    ),
    "a tensor and one in a tuple": (
        (tuple[i32, N], N),
        ((1, Tensor(10, device=(2, 1))), Tensor(10, device=(2, 0))),
        "ValueError: argument #1 'b': device is cuda:0, expected cuda:1 to match 'a[1]'",
    ),
    "no stream": (
        (Stream,),
        (1.5,),
        "TypeError: argument #0 'a': expected a stream (a handle, an int or None), received a float 1.5",
    ),
}

# What looks odd and is right: annotations, values, what is returned, its value.
STRIDED = Spec[f32, ("n", "m"), "strided"]
RIGHT: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], Any, Any]] = {
    "null strides": ((N,), (T10,), ("dim", "a", 0), 10),
    "null strides of a matrix": ((STRIDED,), (Tensor(3, 4),), ("stride", "a", 0), 4),
    "byte_offset": ((N,), (Tensor(10, byte_offset=16),), ("dim", "a", 0), 10),
    "an odd pointer that byte_offset makes even": (
        (fake_tensor(f32, ("n",), alignment_bytes=16),),
        (Tensor(10, data=ADDRESS + 8, byte_offset=8),),
        ("dim", "a", 0),
        10,
    ),
    "0-d": ((Spec[f32, ()], i32), (Tensor(), 5), "b", 5),
    "0-d with byte_offset": ((Spec[f32, ()], i32), (Tensor(byte_offset=4), 5), "b", 5),
    "zero size": ((N,), (Tensor(0, data=0),), ("dim", "a", 0), 0),
    "zero size with odd strides": (
        (Spec[f32, ("n", "m")],),
        (Tensor(0, 4, strides=(77, 33), data=2),),
        ("dim", "a", 1),
        4,
    ),
    "size-1 dims with odd strides": (
        (Spec[f32, ("n", "m")],),
        (Tensor(1, 4, strides=(77, 1)),),
        ("dim", "a", 0),
        1,
    ),
    "negative strides": ((STRIDED,), (Tensor(3, 4, strides=(-4, 1)),), ("stride", "a", 0), -4),
    "stride 0": ((STRIDED,), (Tensor(3, 4, strides=(0, 1)),), ("stride", "a", 0), 0),
    "huge dim of 64 bits": (
        (Spec[u8, (sym("n", width=64),), "strided"],),
        (Tensor(1 << 40, dtype="u8", strides=(0,)),),
        ("dim", "a", 0),
        1 << 40,
    ),
    "u64 from 2**63": ((u64, i32), ((1 << 64) - 1, 7), "b", 7),
    "int for float": ((f64,), (3,), "a", 3.0),
    "bool for int": ((i32,), (True,), "a", 1),
    "int for bool": ((bool_,), (1,), "a", True),
    "infinity": ((f16,), (math.inf,), "a", math.inf),
    "pointer": ((Pointer[f32], i32), (ctypes.c_void_p(64), 3), "b", 3),
    "null pointer": ((Pointer[f32], i32), (None, 3), "b", 3),
    "address as an int": ((Pointer[f32], i32), (64, 3), "b", 3),
    "shape": ((Shape["n", 4],), ((3, 4),), "a[0]", 3),
    "wide shape": ((Shape[sym("n", width=64)],), ((1 << 40,),), "a[0]", 1 << 40),
    "size": ((sym("n", 8), i32), (16, 3), "a", 16),
    "wide size": ((sym("n", width=64),), (1 << 40,), "a", 1 << 40),
    "tuple": ((tuple[i32, tuple[f64, i8]],), ((1, (2.5, -3)),), "a[1][1]", -3),
    "empty tuple": ((tuple[()], i32), ((), 5), "b", 5),
    "None": ((None, i32), (None, 5), "b", 5),
    "bf16": ((bf16,), (1.0078125,), "a", 1.0078125),
    "f8": ((f8e4m3,), (448.0,), "a", 448.0),
}
