# SPDX-License-Identifier: Apache-2.0
"""`weft.warmup`: stand-ins of no memory compile what later calls need, for this machine or another GPU."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import weft
from tests.kernels.counting import CONSTANTS
from weft import kernels
from weft.api import JitFunction
from weft.autotuner import tuned

if TYPE_CHECKING:
    from collections.abc import Generator

F32, BF16, I32, E4M3 = weft.f32, weft.bf16, weft.i32, weft.f8e4m3


def fake(*shape: int, dtype: Any = F32, **keywords: Any) -> Any:
    return weft.fake_tensor(dtype, shape, **keywords)


def add(one: Any, other: Any) -> Any:
    return one + other


ROWS, ROW, CLASSES = fake(64, 4096), fake(4096), fake(64, dtype=I32)
HEADS, LSE = fake(2, 512, 8, 128, dtype=BF16), fake(2, 8, 512)
VECTOR, MASK, OFFSETS = fake(1 << 20), fake(1 << 20, dtype=weft.bool_), fake(5, dtype=I32)
COLUMNS = fake(4096, 64, strides=(1, 4096), dtype=E4M3)
CALLS: dict[str, Any] = {
    **{
        name: [ROWS]
        for name in (
            *("argmax", "argmin", "max", "min", "mean", "sum", "softmax", "log_softmax", "gelu"),
            *("sort", "argsort", "cumsum", "copy", "transpose", "layer_norm", "rms_norm", "rfft"),
        )
    },
    **{name: [ROWS, ROWS] for name in ("gelu_backward", "silu_mul", "softmax_backward")},
    **{name: [ROWS, ROWS] for name in ("log_softmax_backward", "rms_norm_backward")},
    "layer_norm_backward": [ROWS, ROWS],
    "silu_mul_backward": [ROWS, ROWS, ROWS],
    "attention": [HEADS, HEADS, HEADS],
    "attention_backward": [HEADS, HEADS, HEADS, HEADS],
    "cross_entropy": [ROWS, CLASSES],
    "cross_entropy_backward": [fake(64), ROWS, CLASSES],
    "dropout": [ROWS, 0.5, 1],
    "embedding": [ROWS, CLASSES],
    "embedding_backward": [ROWS, CLASSES, 100],
    "fft": [fake(4, 1009, 2)],
    "irfft": [fake(4, 513, 2)],
    "gather": [ROWS, fake(3, 4096, dtype=I32), 0],
    "scatter_add": [ROWS, fake(3, 4096, dtype=I32), fake(3, 4096), 0],
    "gemm": [ROWS, fake(4096, 512)],
    "matmul": [fake(64, 64, dtype=BF16), fake(64, 72, dtype=BF16)],
    "grouped_gemm": [fake(64, 128, dtype=BF16), fake(4, 128, 256, dtype=BF16), OFFSETS],
    "scaled_gemm": [fake(64, 4096, dtype=E4M3), COLUMNS, fake(64, 32), fake(32, 1)],
    "histogram": [fake(1000, dtype=I32), 256],
    "partition": [MASK, VECTOR],
    "reduce": [ROWS, add, 0.0],
    "rope": [fake(512, 8, 64), fake(512, 32), fake(512, 32)],
    "run_length_encode": [fake(1 << 20, dtype=I32)],
    "scan": [ROWS, add],
    "compress": [MASK, VECTOR],
    "sparse_matvec": [OFFSETS, fake(9, dtype=I32), fake(9), fake(7)],
    "top_k": [ROWS, 8],
}


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Generator[list[JitFunction]]:
    """The host functions that would be compiled."""
    found: list[JitFunction] = []

    def compiled(function: JitFunction, _: Any) -> Any:
        kinds = function.function.__annotations__
        names = function.function.__code__.co_varnames[: function.function.__code__.co_argcount]
        constants = tuple(i for i, name in enumerate(names) if kinds[name].startswith(CONSTANTS))
        found.append(function)
        return SimpleNamespace(captured=(), constant_positions=constants)

    monkeypatch.setattr(JitFunction, "_compile", compiled)
    yield found
    for function in found:
        function._prepared.clear()
        function._specializations = None


@pytest.mark.joined
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", CALLS)
def test_every_function_takes_stand_ins(name, arch, requests):
    weft.warmup(getattr(kernels, name), *CALLS[name], arch=arch)
    seen = len(requests)
    weft.warmup(getattr(kernels, name), *CALLS[name], arch=arch)
    assert len(requests) == seen  # all were found again


def test_every_function_has_a_call():
    assert CALLS.keys() == set(kernels.__all__)


def test_later_calls_compile_nothing(monkeypatch):
    @weft.kernel
    def double_kernel(a: weft.Tensor):
        for i in weft.each(a.size):
            a[i] *= 2

    @weft.jit
    def double(a: weft.Tensor, factor: weft.f32 = 1.0):
        double_kernel(a).launch(over=a.size)

    assert weft.warmup(kernels.softmax, fake(5, 40)) <= 1
    assert weft.warmup(double, fake(1 << 28)) == 1  # 1 GiB, which nothing touches
    assert weft.warmup(double_kernel.over(4), fake(8)) == 1
    assert weft.warmup(double, fake(8), factor=2.0) == 0
    monkeypatch.setattr(JitFunction, "_compile", None)
    x = np.ones((5, 40), np.float32)
    assert np.allclose(kernels.softmax(x), 1 / 40)
    double(x[0])
    double_kernel.over(4)(x[1])
    assert x[0, 0] == x[1, 0] == 2


def test_another_gpus_code_is_kept_apart():
    assert weft.warmup(kernels.gelu, fake(4, 64), arch="sm_80") == 1
    assert weft.warmup(kernels.gelu, fake(4, 64), arch="sm_90a") == 1
    assert weft.warmup(kernels.gelu, fake(4, 64), arch="sm_90a") == 0
    x = np.zeros((4, 64), np.float32)
    assert np.array_equal(kernels.gelu(x), x)


def test_other_processes_find_it_on_disk(tmp_path):
    program = (
        "import weft\n"
        "x = weft.fake_tensor(weft.f32, (4, 64))\n"
        "weft.warmup(weft.kernels.gelu, x, arch='sm_90a')\n"
        "print(weft.cache.stats().hits)"
    )
    environment = {"WEFT_CACHE_DIR": str(tmp_path), "PATH": ""}
    found = [
        subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    ]
    assert found == ["0\n", "1\n"]


def test_alignment_and_strides_are_those_of_the_stand_in():
    seen = []

    def note(x: Any) -> None:
        seen.append(weft.ffi.from_dlpack(x))

    weft.warmup(note, fake(8, 8, alignment_bytes=4, device="cuda"), arch="sm_90a")
    weft.warmup(note, fake(8, 8, strides=(16, 1), device="cuda:1"))
    assert [one.data % 512 for one in seen] == [4, 256]
    assert seen[1].strides == (16, 1)
    assert str(seen[1].device) == "cuda:1"


@pytest.mark.parametrize("arch", [None, "sm_90a"])
def test_packed_elements_have_stand_ins(arch):
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        out[weft.thread_idx.x] = weft.i32(a[weft.thread_idx.x])

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=1, block=8)

    weft.warmup(host, weft.fake_tensor(weft.i4, (8,)), fake(8, dtype=weft.i32), arch=arch)
    out = np.zeros(8, np.int32)
    host(weft.packed(np.array([0x21, 0x43, 0x65, 0x87], np.uint8), weft.i4), out)
    assert out.tolist() == [1, 2, 3, 4, 5, 6, 7, -8]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weft.warmup(3), "takes a function"),
        (lambda: weft.warmup(kernels.gelu, fake(4), arch="hopper"), "arch is 'hopper'"),
        (lambda: weft.warmup(kernels.gelu, fake(4, "n")), "argument 1: shape .* must be numbers"),
        (lambda: weft.warmup(kernels.gelu, x=weft.Tensor[F32]), "argument 'x' has no shape"),
        (lambda: weft.warmup(kernels.gemm, fake(4, 4), fake(5, 4)), "expected"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_an_autotuned_function_measures_nothing():
    @weft.kernel
    def fill_kernel(a: weft.Tensor):
        for i in weft.each(a.size):
            a[i] = 1.0

    @weft.autotune(space={"block": [32, 64]})
    @weft.jit
    def fill(a: weft.Tensor, block: weft.Constexpr):
        fill_kernel(a).launch(grid=1, block=block)

    assert isinstance(fill, tuned.Tuned)
    with pytest.raises(TypeError, match="measures nothing"):
        weft.warmup(fill, fake(8))
    assert weft.warmup(fill, fake(8), block=32) == 1
