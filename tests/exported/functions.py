# SPDX-License-Identifier: Apache-2.0
"""Functions that the tests export, and files of them, made once."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import weft
from weft.ffi.library import find_ffi_library

FFI = Path(find_ffi_library()).parent
CPU_ONLY = ("x86-64-v3", "native")


class Sums(NamedTuple):
    """A result with names."""

    size: int
    doubled: int


@weft.kernel
def scale_kernel(a: weft.Tensor, b: weft.Tensor, factor: weft.f32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] * factor


@weft.jit
def scale(
    a: weft.Tensor[weft.f32, ("n",)],
    b: weft.Tensor[weft.f32, ("n",)],
    *,
    factor: weft.f32 = 2.0,
):
    """b = factor * a."""
    scale_kernel(a, b, factor).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


@weft.kernel
def add_kernel(a: weft.Tensor, by: weft.Constexpr[int]):
    for i in weft.each(a.shape[0]):
        a[i] += by


@weft.jit
def add_one(a: weft.Tensor[weft.i32, ("n",)]):
    add_kernel(a, 1).launch(over=a.shape[0])


@weft.jit
def add_two(a: weft.Tensor[weft.i32, ("n",)]):
    add_kernel(a, 2).launch(over=a.shape[0])


@weft.kernel
def block_sum_kernel(a: weft.Tensor, b: weft.Tensor):
    partial = weft.shared((128,), weft.f32)
    t = weft.thread_idx.x
    partial[t] = a[weft.block_idx.x * 128 + t]
    weft.sync_threads()
    if t == 0:
        total = weft.f32(0.0)
        for i in range(128):
            total += partial[i]
        b[weft.block_idx.x] = total


@weft.jit
def block_sum(
    a: weft.Tensor[weft.f32, (weft.sym("n", divisibility=128),)], b: weft.Tensor[weft.f32, ("m",)]
):
    block_sum_kernel(a, b).launch(grid=b.shape[0], block=128)


@weft.jit
def sums(a: weft.Tensor[weft.f32, ("n",)]):
    return Sums(a.shape[0], a.shape[0] * 2)


@weft.kernel
def repeat_kernel(a: weft.Tensor, b: weft.Tensor):
    for row, i in weft.each(b.shape):
        b[row, i] = a[i] * 2


@weft.jit
def doubled(a: weft.Tensor[weft.f32, ("n",)], rows: weft.i32):
    """Rows of 2 * a, a new tensor."""
    out = weft.empty((rows, a.shape[0]), weft.f32)
    repeat_kernel(a, out).launch(over=out.shape)
    return out


@weft.kernel(restrict=True)
def accumulate_kernel(a: weft.Tensor, b: weft.Tensor, z: weft.c64):
    for i in weft.each(a.shape[0]):
        b[i] += a[i] * z


@weft.jit
def accumulate(
    a: weft.fake_tensor(weft.c64, (weft.sym("n", divisibility=2),), alignment_bytes=16),
    b: weft.fake_tensor(weft.c64, ("m",), alignment_bytes=16),
    z: weft.c64,
):
    """b += a * z, of arrays apart."""
    weft.assume(b.shape[0] >= a.shape[0])
    accumulate_kernel(a, b, z).launch(over=a.shape[0])


@functools.cache
def compiled(name: str, options: str = "") -> Any:
    """A function of this file."""
    return weft.compile(globals()[name], options=options)


@functools.cache
def folder() -> Path:
    """A folder for files, removed with the process."""
    made = tempfile.TemporaryDirectory()
    _kept.append(made)
    return Path(made.name)


_kept: list[Any] = []


@functools.cache
def library() -> Path:
    """A shared library of three functions."""
    path = folder() / "functions.so"
    weft.export(path, [compiled("scale"), compiled("block_sum"), compiled("sums")])
    return path


@functools.cache
def gpu_library() -> Path:
    """The same of one function for a GPU."""
    path = folder() / "gpu.so"
    compiled("scale", "--gpu-arch sm_90a").export(path)
    return path
