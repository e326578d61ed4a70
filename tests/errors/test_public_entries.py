# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLW0108  all entries are functions of one value, alike
"""Whatever a public entry is given, it says in its own words what is wrong, or works."""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import weft

if TYPE_CHECKING:
    from collections.abc import Callable


@weft.kernel
def fill_kernel(a: weft.Tensor):
    a[weft.thread_idx.x] = 1


@weft.jit
def fill(a: weft.Tensor[weft.f32, ("n",)]):
    fill_kernel(a).launch(grid=1, block=a.shape[0])


class Odd:
    """Fails when it is shown or compared."""

    __hash__ = None

    def __repr__(self) -> str:
        raise RuntimeError("shown")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")


VALUES: dict[str, Any] = {
    "None": None,
    "True": True,
    "-1": -1,
    "huge": 10**30,
    "nan": float("nan"),
    "empty text": "",
    "text": "abc",
    "long text": "a" * 100_000,
    "bytes": b"x",
    "empty tuple": (),
    "tuple": (1, 2, 3, 4),
    "list": [1],
    "dict": {"a": 1},
    "object": object(),
    "odd": Odd(),
    "array": np.zeros(3, np.float32),
    "texts": np.array(["a"]),
    "dtype": weft.f32,
    "symbol": weft.sym("n"),
    "annotation": weft.Tensor[weft.f32, ("n",)],
    "kernel": fill_kernel,
    "function": lambda x: x,
    "class": int,
    "ellipsis": ...,
    "slice": slice(1, 2),
    "pointer": ctypes.c_void_p(8),
    "complex": 1j,
}

ENTRIES: dict[str, Callable[[Any], object]] = {
    "kernel": lambda v: weft.kernel(v),
    "kernel(max_threads=)": lambda v: weft.kernel(max_threads=v),
    "kernel(cluster=)": lambda v: weft.kernel(cluster=v),
    "jit": lambda v: weft.jit(v),
    "jit(options=)": lambda v: weft.jit(options=v),
    "compile": lambda v: weft.compile(v),
    "compile(function, example)": lambda v: weft.compile(fill, v),
    "compile(options=)": lambda v: weft.compile(fill, options=v),
    "compile[]": lambda v: weft.compile[v],
    "compile(post_compile_hooks=)": lambda v: weft.compile(fill, post_compile_hooks=v),
    "Tensor[]": lambda v: weft.Tensor[v],
    "Tensor[dtype, dims]": lambda v: weft.Tensor[weft.f32, v],
    "Tensor[dtype, dims, layout]": lambda v: weft.Tensor[weft.f32, ("n",), v],
    "fake_tensor(dtype)": lambda v: weft.fake_tensor(v, (3,)),
    "fake_tensor(shape)": lambda v: weft.fake_tensor(weft.f32, v),
    "fake_tensor(layout=)": lambda v: weft.fake_tensor(weft.f32, (3,), layout=v),
    "fake_tensor(strides=)": lambda v: weft.fake_tensor(weft.f32, (3,), strides=v),
    "fake_tensor(alignment_bytes=)": lambda v: weft.fake_tensor(weft.f32, (3,), alignment_bytes=v),
    "fake_tensor(device=)": lambda v: weft.fake_tensor(weft.f32, (3,), device=v),
    "sym": lambda v: weft.sym(v),
    "sym(divisibility=)": lambda v: weft.sym("n", divisibility=v),
    "sym(width=)": lambda v: weft.sym("n", width=v),
    "Constexpr[]": lambda v: weft.Constexpr[v],
    "Shape[]": lambda v: weft.Shape[v],
    "Pointer[]": lambda v: weft.Pointer[v],
    "Pointer[dtype, space]": lambda v: weft.Pointer[weft.f32, v],
    "Stream": lambda v: weft.Stream(v),
    "register_argument(type)": lambda v: weft.register_argument(v if v is not int else 3, int),
    "register_argument(adapter)": lambda v: weft.register_argument(type("New", (), {}), v),
    "synchronize": lambda v: weft.synchronize(v),
    "empty(shape)": lambda v: weft.empty(v, weft.f32),
    "empty(dtype)": lambda v: weft.empty(3, v),
    "empty(device=)": lambda v: weft.empty(3, weft.f32, v),
    "full(value)": lambda v: weft.full(3, v, weft.f32),
    "full(stream=)": lambda v: weft.full(3, 1, weft.f32, stream=v),
    "copy(to)": lambda v: weft.copy(v, np.zeros(2)),
    "copy(from_)": lambda v: weft.copy(np.zeros(2), v),
    "copy(stream=)": lambda v: weft.copy(np.zeros(2), np.zeros(2), stream=v),
    "OptLevel": lambda v: weft.OptLevel(v),
    "GPUArch": lambda v: weft.GPUArch(v),
    "UseExecutor": lambda v: weft.UseExecutor(v),
    "PtxasOptions": lambda v: weft.PtxasOptions(v),
    "KeepPTX": lambda v: weft.KeepPTX(v),
    "f32()": lambda v: weft.f32(v),
    "atomic_add": lambda v: weft.atomic_add(v),
    "function()": lambda v: fill(v),
    "kernel[]": lambda v: fill_kernel[v],
    "kernel[grid, ]": lambda v: fill_kernel[v, 1],
    "kernel[, block]": lambda v: fill_kernel[1, v],
    "kernel[grid, block]()": lambda v: fill_kernel[1, 1](v),
    "fn()": lambda v: compiled()(v),
    "fn(a=)": lambda v: compiled()(a=v),
    "fn(unknown=)": lambda v: compiled()(unknown=v),
    "fn.to": lambda v: compiled().to(v),
    "fn.preload": lambda v: compiled().preload(v),
    "fn.prepare": lambda v: compiled().prepare(v),
    "fn.engine.lookup": lambda v: compiled().engine.lookup(v),
    "profiler.buffer": lambda v: weft.profiler.buffer(v),
    "profiler.prepare": lambda v: weft.profiler.prepare(v),
    "profiler.capture": lambda v: weft.profiler.capture(v),
    "profiler.decode_track": lambda v: weft.profiler.decode_track(v),
    "profiler.decode_tirx": lambda v: weft.profiler.decode_tirx(v),
    "profiler.Trace": lambda v: weft.profiler.Trace(v),
}
# What Python says of its own objects is not what is wrong with a call.
PYTHONS_WORDS = re.compile(
    "has no attribute|not iterable|not subscriptable|unhashable|truth value|unsupported operand|too large to"
)
_made: list[Any] = []


def compiled() -> Any:
    """`fill`, compiled once."""
    if not _made:
        _made.append(weft.compile(fill))
    return _made[0]


@pytest.mark.joined
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_wrong_value_is_refused_in_words(entry: str):
    allowed = (TypeError, ValueError, KeyError, MemoryError, weft.WeftError, weft.CudaError)
    for name, value in VALUES.items():
        try:
            ENTRIES[entry](value)
        except allowed as error:
            text = str(error)
            assert not isinstance(error, weft.InternalCompilerError), f"{name}: {text}"
            assert not PYTHONS_WORDS.search(text), f"{name}: {text}"
            # A KeyError holds the whole key, as Python's own do.
            assert len(text) < 2000 or isinstance(error, KeyError), (
                f"{name}: {len(text)} characters"
            )
