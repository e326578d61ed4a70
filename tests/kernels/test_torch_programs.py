# SPDX-License-Identifier: Apache-2.0
"""What programs of torch keep finds weft's operators in another process; types under autocast, counts of operations."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from weft import kernels

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

TRAINING = """
import torch
import weft
from torch._dynamo.utils import counters


def program(x, w, classes):
    hidden = weft.kernels.gelu(weft.kernels.gemm(x, w, activation="silu"))
    return weft.kernels.cross_entropy(weft.kernels.rms_norm(hidden), classes).sum()


x, w = torch.ones(4, 8, requires_grad=True), torch.full((8, 6), 0.1, requires_grad=True)
torch.compile(program, fullgraph=True)(x, w, torch.tensor([0, 1, 2, 3])).backward()
assert x.grad is not None
print("hits", counters["aot_autograd"]["autograd_cache_hit"])
"""

EXPORT = """
import torch
import weft


class Layer(torch.nn.Module):
    def forward(self, x, w):
        return weft.kernels.softmax(weft.kernels.gemm(x, w, activation="silu"))


exported = torch.export.export(Layer(), (torch.ones(4, 8), torch.ones(8, 6)))
torch.export.save(exported, "layer.pt2")
if {aot}:
    torch._inductor.aoti_compile_and_package(exported, package_path="layer.aoti.pt2")
"""

LOAD = """
import torch
import weft.torch

given = torch.ones(4, 8), torch.ones(8, 6)
found = [torch.export.load("layer.pt2").module()(*given)]
if {aot}:
    found.append(torch._inductor.aoti_load_package("layer.aoti.pt2")(*given))
for one in found:
    assert torch.allclose(one, torch.full((4, 6), 1 / 6))
assert torch.ops.weft.cross_entropy_backward
"""


def run(text: str, folder) -> str:
    (path := folder / "program.py").write_text(text)
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, str(path)]
    done = subprocess.run(
        command, check=True, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("c++") is None, reason="torch's compiler needs one for C++")
def test_a_second_run_of_a_compiled_program_trains(tmp_path):
    assert "hits 0" in run(TRAINING, tmp_path)
    assert "hits 1" in run(TRAINING, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_exported_program_loads_after_import_weft_torch(tmp_path):
    has_compiler = shutil.which("c++") is not None
    run(EXPORT.replace("{aot}", str(has_compiler)), tmp_path)
    run(LOAD.replace("{aot}", str(has_compiler)), tmp_path)


def both():
    """weft's function and torch's, of two matrices."""
    functional = torch.nn.functional
    classes = torch.tensor([0, 1, 2, 3])
    return {
        "matmul": (kernels.matmul, torch.matmul),
        "gemm": (kernels.gemm, torch.mm),
        "softmax": (lambda a, b: kernels.softmax(a), lambda a, b: a.softmax(-1)),
        "log_softmax": (lambda a, b: kernels.log_softmax(a), lambda a, b: a.log_softmax(-1)),
        "layer_norm": (
            lambda a, b: kernels.layer_norm(a),
            lambda a, b: functional.layer_norm(a, a.shape[-1:]),
        ),
        "rms_norm": (
            lambda a, b: kernels.rms_norm(a),
            lambda a, b: functional.rms_norm(a, a.shape[-1:]),
        ),
        "cross_entropy": (
            lambda a, b: kernels.cross_entropy(a, classes),
            lambda a, b: functional.cross_entropy(a, classes, reduction="none"),
        ),
        "sum": (lambda a, b: kernels.sum(a), lambda a, b: a.sum()),
        "mean": (lambda a, b: kernels.mean(a), lambda a, b: a.mean()),
        "cumsum": (lambda a, b: kernels.cumsum(a), lambda a, b: a.cumsum(-1)),
        "gelu": (lambda a, b: kernels.gelu(a), lambda a, b: functional.gelu(a)),
        "silu_mul": (kernels.silu_mul, lambda a, b: functional.silu(a) * b),
        "attention": (
            lambda a, b: kernels.attention(*[one[None, :, None] for one in (a, b, b)]),
            lambda a, b: functional.scaled_dot_product_attention(
                *[one[None, None] for one in (a, b, b)]
            ),
        ),
    }


@pytest.mark.parametrize("name", both())
@pytest.mark.parametrize(("left", "right"), [("f", "f"), ("b", "f"), ("b", "b"), ("d", "d")])
def test_autocast_gives_the_types_that_torch_gives(name, left, right):
    own, other = both()[name]
    kinds = {"f": torch.float32, "b": torch.bfloat16, "d": torch.float64}
    a, b = (torch.randn(4, 4, dtype=kinds[one]) for one in (left, right))
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = own(a, b), other(a, b)
        assert found.dtype is expected.dtype
        wide = found.double().flatten(), expected.double().flatten()
        assert torch.allclose(*wide, rtol=0.05, atol=0.05)
        out = torch.empty(4, 4, dtype=a.dtype)
        assert kernels.softmax(a, out=out) is out  # as with torch's functions, `out` is not cast


def test_autocast_on_gpus_is_that_of_torch_for_gpus(monkeypatch):
    # torch.autocast itself does nothing for GPUs where there is none.
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    with torch._subclasses.FakeTensorMode(), torch.autocast("cuda", torch.float16):
        x, y = (torch.empty(4, 8, dtype=torch.float16, device="cuda") for _ in range(2))
        wide = torch.empty(4, 8, device="cuda")
        for name in ("softmax", "log_softmax", "layer_norm", "sum", "cumsum"):
            assert getattr(kernels, name)(x).dtype is torch.float32
        assert kernels.gemm(wide, y.mT).dtype is torch.float16
        assert kernels.silu_mul(x, wide).dtype is torch.float32


def test_derivatives_reach_what_autocast_has_cast():
    a, b = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        found = kernels.gemm(a, b)
    grads = torch.autograd.grad(found.sum(), (a, b))
    assert all(one.dtype is torch.float32 and one.any() for one in grads)


def count(program, *arguments) -> int:
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        program(*arguments)
    return counter.get_total_flops()


def test_operations_are_counted_as_those_of_torch():
    from torch.utils import flop_counter  # noqa: F401

    a, b, experts = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 4, 5)
    assert count(kernels.matmul, a, b) == count(torch.matmul, a, b) == 2 * 2 * 3 * 4 * 5
    rows, starts = torch.randn(6, 4), torch.tensor([0, 2, 6], dtype=torch.int32)
    assert count(kernels.grouped_gemm, rows, experts, starts) == 2 * 6 * 4 * 5
    q, k = torch.randn(2, 6, 4, 8), torch.randn(2, 6, 2, 8)
    expected = 4 * 2 * 4 * 6 * 6 * 8
    assert count(kernels.attention, q, k, k) == expected
    assert count(lambda q, k: kernels.attention(q, k, k), q, k) == expected
    packed = [one.reshape(12, -1, 8) for one in (q, k, k)]
    lengths = torch.tensor([0, 6, 12], dtype=torch.int32)
    assert (
        count(
            lambda *some: kernels.attention(*some, cu_seqlens_q=lengths, cu_seqlens_k=lengths),
            *packed,
        )
        == expected
    )
    a.requires_grad_()
    assert count(lambda: kernels.matmul(a, b).sum().backward()) == 2 * count(torch.matmul, a, b)


def test_a_counter_that_was_there_before_the_operators_counts_them(tmp_path):
    program = """
import torch, weft
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter:
    weft.kernels.matmul(torch.ones(2, 3), torch.ones(3, 4))
print(counter.get_total_flops())
"""
    assert run(program, tmp_path).strip() == "48"
