# SPDX-License-Identifier: Apache-2.0
"""Each kind of argument on each path: the direct call, the compiled function, the tvm_ffi package, an executor each.

In: functions that use every part of what they are given. Out: what they store, and what they return to the caller.
"""

from __future__ import annotations

import ctypes
import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft
from tests.sampling import sampled

SIZE = 10


class Pair(NamedTuple):
    source: weft.Tensor[weft.f32, ("n",)]
    target: weft.Tensor[weft.f32, ("n",)]

    def first(self):
        return self.source[0]


@dataclass(frozen=True)
class Scale:
    factor: weft.f32
    tile: weft.Constexpr[int] = 4

    @property
    def twice(self):
        return self.factor * 2.0


@dataclass(frozen=True)
class Job:
    pair: Pair
    scale: Scale
    shift: weft.f32 | None = None


class Image:
    """A user's class that weft knows nothing of."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels


weft.register_argument(Image, lambda image: (image.pixels, image.pixels.shape[0]))


@weft.kernel
def tuple_kernel(t, out):
    i = weft.thread_idx.x
    if i < out.shape[0]:
        out[i] = t[0][i] * t[1][0] + t[1][1][0]


@weft.jit
def nested_tuple(t, out: weft.Tensor):
    tuple_kernel(t, out).launch(grid=1, block=32)
    return t[1][0], (t[0].shape[0], t[1][1][0])


@weft.kernel
def job_kernel(job):
    i = weft.block_idx.x * job.scale.tile + weft.thread_idx.x
    if i < job.pair.target.shape[0]:
        value = job.pair.source[i] * job.scale.twice + job.pair.first()
        if job.shift is not None:
            value += job.shift
        job.pair.target[i] = value


@weft.jit
def run_job(job: Job):
    count = job.pair.target.shape[0]
    job_kernel(job).launch(grid=weft.ceil_div(count, job.scale.tile), block=job.scale.tile)
    return job.scale.factor, job.pair.target


@weft.kernel
def shape_kernel(out, shape):
    i = weft.thread_idx.x
    if i < shape[0]:
        out[i] = weft.f32(shape[0] * 100 + shape[1])


@weft.jit
def shaped(out: weft.Tensor[weft.f32, ("n",)], shape: weft.Shape["n", None, 3]):
    shape_kernel(out, shape).launch(grid=1, block=32)
    return shape


@weft.kernel
def pointer_kernel(p: weft.Pointer[weft.f32], count):
    i = weft.thread_idx.x
    if i < count:
        p[i + 1] = p[i + 1] + p[-1 + 1]


@weft.jit
def through_pointer(p: weft.Pointer[weft.f32], count: int):
    pointer_kernel(p, count).launch(grid=1, block=32)


@weft.kernel
def image_kernel(image):
    i = weft.thread_idx.x
    if i < image[1]:
        image[0][i] += 1.0


@weft.jit
def brighten(image: Image):
    image_kernel(image).launch(grid=1, block=32)
    return image[0], image[1]


@weft.kernel
def store_kernel(out, value):
    out[0] = value


@weft.jit
def defaults(
    out: weft.Tensor[weft.f32, (1,)],
    sizes: tuple[weft.i32, weft.f32] = (1, 2.0),
    *,
    shape: weft.Shape[None, None] = (3, 4),
    stream: weft.Stream = None,
):
    store_kernel(out, sizes[1] + weft.f32(shape[1])).launch(grid=1, block=1, stream=stream)
    return sizes, shape


def vector() -> np.ndarray:
    return np.arange(SIZE, dtype=np.float32)


def direct(function: Any, *examples: Any) -> Any:
    return function


def compiled(function: Any, *examples: Any) -> Any:
    return weft.compile(function, *examples)


def again(function: Any, *examples: Any) -> Any:
    """Compiled for the signature of what was compiled, after a trip through a pickle."""
    signature = weft.compile(function, *examples).signature
    made = weft.compile(function, pickle.loads(pickle.dumps(signature)))
    assert made.signature == signature
    assert str(made.signature) == str(signature)
    return made


def by_context(function: Any, *examples: Any) -> Any:
    return weft.compile(function, *examples, options="--executor context")


def by_package(function: Any, *examples: Any) -> Any:
    tvm_ffi = pytest.importorskip("tvm_ffi")
    made = weft.compile(function, *examples, options="--enable-tvm-ffi").as_tvm_ffi()

    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return tvm_ffi.from_dlpack(value)
        if isinstance(value, Image):
            return convert((value.pixels, value.pixels.shape[0]))
        if isinstance(value, Scale):
            return (value.factor,)
        if isinstance(value, Job):
            return tuple(map(convert, (value.pair, value.scale, value.shift)))
        return tuple(map(convert, value)) if isinstance(value, tuple) else value

    def back(value: Any) -> Any:
        if isinstance(value, tvm_ffi.Array):
            return tuple(map(back, value))
        return np.from_dlpack(value) if isinstance(value, tvm_ffi.Tensor) else value

    return lambda *arguments: back(made(*map(convert, arguments)))


def by_tvm_ffi(function: Any, *examples: Any) -> Any:
    return weft.compile(function, *examples, options="--enable-tvm-ffi")


def bound(function: Any, *examples: Any) -> Any:
    return weft.compile(function, *examples).to(0)


def prepared(function: Any, *examples: Any) -> Any:
    """Arguments that are converted once, and then replaced."""
    made = weft.compile(function, *examples)

    def call(*arguments: Any) -> Any:
        launch = made.prepare(*arguments)
        for index, argument in enumerate(arguments):
            launch[index] = argument
        return launch()

    return call


paths = pytest.mark.parametrize(
    "path", [direct, compiled, again, by_context, by_tvm_ffi, by_package, bound, prepared]
)


@paths
def test_nested_tuples(path):
    a, out = vector(), np.zeros(SIZE, np.float32)
    call = path(nested_tuple, (a, (1.0, (np.int64(1),))), out)
    assert call((a, (2.5, (np.int64(3),))), out) == (2.5, (SIZE, 3))
    assert (out == a * 2.5 + 3).all()


@paths
@pytest.mark.parametrize("shift", sampled([None, 0.5], 2))
def test_named_tuples_in_dataclasses_with_compile_time_fields(path, shift):
    a, out = vector() + 1, np.zeros(SIZE, np.float32)
    example = Job(Pair(a, out), Scale(1.0), None if shift is None else 1.0)
    call = path(run_job, example)
    factor, target = call(Job(Pair(a, out), Scale(3.0), shift))
    assert factor == 3.0
    assert (out == a * 6 + 1 + (shift or 0)).all()
    assert np.shares_memory(target, out)


@paths
def test_shapes(path):
    out = np.zeros(SIZE, np.float32)
    call = path(shaped, out, (SIZE, 1, 3))
    assert call(out, (SIZE, 7, 3)) == (SIZE, 7, 3)
    assert (out == SIZE * 100 + 7).all()
    with pytest.raises(ValueError, match=r"11, expected 10 to match out.shape\[0\]"):
        call(out, (11, 7, 3))


@paths
@pytest.mark.parametrize("wrap", [int, ctypes.c_void_p], ids=["int", "c_void_p"])
def test_pointers(path, wrap):
    a = vector() + 1
    call = (
        path(through_pointer, weft.Pointer[weft.f32], 1)
        if path is not direct
        else direct(through_pointer)
    )
    call(wrap(a.ctypes.data), 3)
    assert a.tolist() == [1, 3, 4, 5, 5, 6, 7, 8, 9, 10]


@paths
def test_registered_classes(path):
    image = Image(vector())
    pixels, count = path(brighten, image)(image)
    assert count == SIZE
    assert (image.pixels == vector() + 1).all()
    assert np.shares_memory(pixels, image.pixels)


@pytest.mark.parametrize("path", [direct, compiled, again, by_context])
def test_defaults_and_keywords_of_containers(path):
    out = np.zeros(1, np.float32)
    call = path(defaults, out)
    assert call(out) == ((1, 2.0), (3, 4))
    assert out[0] == 6
    assert call(out, shape=[5, 6], sizes=(7, 0.5)) == ((7, 0.5), (5, 6))
    assert out[0] == 6.5
    with pytest.raises(
        TypeError, match=r"defaults\(\) takes from 1 to 2 positional arguments but 3"
    ):
        call(out, (1, 2.0), (3, 4))


def test_values_in_containers_compile_nothing_and_types_do(monkeypatch):
    from weft.compiler import pipeline

    count = [0]
    original = pipeline.compile_function

    def counted(*arguments: Any, **keywords: Any) -> Any:
        count[0] += 1
        return original(*arguments, **keywords)

    monkeypatch.setattr(pipeline, "compile_function", counted)
    function = weft.jit(run_job.function)
    a = vector()

    def calls(job: Job) -> int:
        before = count[0]
        function(job)
        return count[0] - before

    assert calls(Job(Pair(a, a), Scale(1.0))) == 1
    assert calls(Job(Pair(a[:3], a[:3]), Scale(2.0))) == 0
    assert calls(Job(Pair(a, a), Scale(2.0, tile=8))) == 1
    assert calls(Job(Pair(a, a), Scale(2.0, tile=8), 1.0)) == 1
    assert calls(Job(Pair(a, a), Scale(7.0, tile=4))) == 0
    with pytest.raises(weft.CompileError, match="expected an integer"):  # True is not 1
        calls(Job(Pair(a, a), Scale(7.0, tile=True)))


def test_compile_time_field_of_another_value_is_refused_by_name():
    a = vector()
    call = weft.compile(run_job, Job(Pair(a, a), Scale(1.0)))
    with pytest.raises(
        ValueError,
        match=r"argument #0 'job.scale': its compile-time field 'tile' is 8, "
        "but the function was compiled for 4; compile it again",
    ):
        call(Job(Pair(a, a), Scale(1.0, tile=8)))


def test_nested_read_only_memory_is_refused_if_written():
    a, out = vector(), np.zeros(SIZE, np.float32)
    a.flags.writeable = False
    call = weft.compile(run_job, Job(Pair(a, out), Scale(1.0)))
    call(Job(Pair(a, out), Scale(1.0)))
    with pytest.raises(
        ValueError, match=r"argument #0 'job.pair.target': expected writable memory"
    ):
        call(Job(Pair(out, a), Scale(1.0)))


def test_none_is_fixed_when_compiling_in_both_directions():
    a = vector()
    without = weft.compile(run_job, Job(Pair(a, a), Scale(1.0)))
    with_value = weft.compile(run_job, Job(Pair(a, a), Scale(1.0), 1.0))
    with pytest.raises(TypeError, match=r"'job.shift': expected None, for which it was compiled"):
        without(Job(Pair(a, a), Scale(1.0), 1.0))
    with pytest.raises(TypeError, match=r"'job.shift': expected a float \(f32\), received None"):
        with_value(Job(Pair(a, a), Scale(1.0)))


@weft.kernel
def pointer_parts_kernel(p, out, n):
    tail = p[2:]
    part = tail[-1:n]
    out[0] = tail[0]
    out[1] = part[0]
    out[2] = weft.f32(part.shape[0])
    part[1] = 50.0
    p[:4][3] = 60.0


@weft.jit
def pointer_parts(p: weft.Pointer[weft.f32], out: weft.Tensor, n: int):
    pointer_parts_kernel(p, out, n).launch(grid=1, block=1)


def test_slices_of_a_pointer_are_pointers_or_tensors():
    a, out = vector(), np.zeros(3, np.float32)
    pointer_parts(a.ctypes.data, out, 4)
    assert out.tolist() == [2, 1, 5]
    assert a.tolist() == [0, 1, 50, 60, 4, 5, 6, 7, 8, 9]
    with pytest.raises(weft.ValueRangeError, match="which is a pointer, is 2; expected 1"):

        @weft.kernel
        def kernel(p):
            p[::2][0] = 1.0

        @weft.jit
        def host(p: weft.Pointer[weft.f32]):
            kernel(p).launch(grid=1, block=1)

        host(0)


def test_a_pointer_has_no_shape_and_cannot_be_returned():
    @weft.kernel
    def kernel(p):
        p[0] = weft.f32(p.shape[0])

    @weft.jit
    def measure(p: weft.Pointer[weft.f32]):
        kernel(p).launch(grid=1, block=1)

    with pytest.raises(weft.NameResolutionError, match=r"Pointer\[f32\] has no attribute 'shape'"):
        measure(0)

    @weft.jit
    def give(p: weft.Pointer[weft.f32]):
        return p

    with pytest.raises(weft.CompileError, match="cannot return Pointer"):
        give(0)


@pytest.mark.parametrize("function", [run_job, nested_tuple, through_pointer, shaped])
def test_each_kind_compiles_for_cuda(function):
    fake = weft.fake_tensor(weft.f32, ("n",), device="cuda")
    examples = {
        run_job: (Job(Pair(fake, fake), Scale(1.0)),),
        nested_tuple: ((fake, (1.0, (1,))), fake),
        through_pointer: (weft.Pointer[weft.f32], 1),
        shaped: (fake, weft.Shape["n", None, 3]),
    }
    made = weft.compile(function, *examples[function], options="--target cuda")
    assert ".visible .entry" in made.ptx
    assert "ffi.device_guard" in str(made.ir_module)
