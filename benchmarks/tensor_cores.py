# SPDX-License-Identifier: Apache-2.0
"""The examples that use a Hopper GPU's tensor cores, beside NVIDIA's libraries for the same.

Matrix products of bfloat16 beside cuBLAS, of 8-bit floats beside cuBLASLt, attention of bfloat16 beside cuDNN, each
called through torch on the same tensors. The data is random, since zeros draw less power and run faster. What weft
writes is compared with the library's result before anything is timed. Candidates take turns; a measurement is the
device's own time for a row of launches, each of which takes the next of several sets of tensors.

In: a GPU of compute capability 9.0, and torch. Out: TFLOP/s, so that a ratio above 1 is faster than the library; then
the geometric mean and the worst ratio of each kind. Says why there are none where there is no such GPU.
"""

from __future__ import annotations

import math
import statistics
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu_kernels import MOST_SETS, ROTATED, Stopwatch
from benchmarks.gpu_launch import gpu_missing
from benchmarks.harness import Figure, interleave, parse_arguments, reason_of, report
from examples.attention import attention_for
from examples.hopper_gemm import gemm
from weft.driver.device import device_properties, set_current_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PRODUCTS = (
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8192, 8192, 1024),
    (1024, 8192, 8192),
    (4096, 4096, 16384),
)
TOKENS = 16384  # of all sequences together
HIDDEN = 2048  # heads times elements of each
LENGTHS = (2048, 4096, 8192, 16384)


class Case(NamedTuple):
    """One row: what both do with a set of tensors.

    Attributes:
        name: of the figure.
        kind: the group whose geometric mean is taken.
        peer: the library.
        operations: floating-point operations of a call.
        tolerance: the largest difference of the results, of the norm.
        make: makes a set of tensors.
        ours: weft's call, which gives its result.
        theirs: the library's.
    """

    name: str
    kind: str
    peer: str
    operations: float
    tolerance: float
    make: Callable[[], Sequence[Any]]
    ours: Callable[[Sequence[Any]], Any]
    theirs: Callable[[Sequence[Any]], Any]


def product_case(torch: Any, m: int, n: int, k: int, dtype: Any, device: str = "cuda") -> Case:
    """A product of m x k by k x n, both factors with k innermost; of 8-bit floats the result is bfloat16."""
    eight = dtype.itemsize == 1
    one = torch.ones((), device=device)

    def make() -> Sequence[Any]:
        factors = (torch.randn(rows, k, device=device).to(dtype) for rows in (m, n))
        return (*factors, torch.empty(m, n, device=device, dtype=torch.bfloat16))

    def ours(given: Sequence[Any]) -> Any:
        gemm(*given)
        return given[2]

    def theirs(given: Sequence[Any]) -> Any:
        a, b, c = given
        if eight:
            return torch._scaled_mm(
                a, b.T, scale_a=one, scale_b=one, out_dtype=c.dtype, use_fast_accum=True
            )
        return torch.mm(a, b.T, out=c)

    kind, peer = ("gemm f8e4m3", "cuBLASLt") if eight else ("gemm bf16", "cuBLAS")
    # Both round f32 sums to bfloat16; of 8-bit floats the tensor cores keep 14 bits of a sum for some steps.
    tolerance = 2e-2 if eight else 5e-3
    return Case(f"{m}x{n}x{k}", kind, peer, 2.0 * m * n * k, tolerance, make, ours, theirs)


def attention_case(torch: Any, hdim: int, length: int, causal: bool, device: str = "cuda") -> Case:
    """Attention of sequences of one length, as many as have `TOKENS` tokens together."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attention = attention_for(hdim)
    batch, heads = TOKENS // length, HIDDEN // hdim
    starts = torch.arange(0, TOKENS + 1, length, device=device, dtype=torch.int32)
    scale = hdim**-0.5

    def make() -> Sequence[Any]:
        shape = batch, length, heads, hdim
        q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))
        return q, k, v, torch.empty_like(q)

    def ours(given: Sequence[Any]) -> Any:
        rows = (one.view(TOKENS, heads, hdim) for one in given)
        attention(*rows, starts, starts, length, scale, causal)
        return given[3]

    def theirs(given: Sequence[Any]) -> Any:
        q, k, v = (one.transpose(1, 2) for one in given[:3])
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            call = torch.nn.functional.scaled_dot_product_attention
            return call(q, k, v, is_causal=causal, scale=scale).transpose(1, 2)

    operations = 4.0 * batch * heads * length * length * hdim * (0.5 if causal else 1.0)
    name = f"{length}{' causal' if causal else ''}"
    return Case(name, f"attention {hdim}", "cuDNN", operations, 1e-2, make, ours, theirs)


def cases(torch: Any) -> Iterator[Case]:
    """Every row of the table."""
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        for sizes in PRODUCTS:
            yield product_case(torch, *sizes, dtype)
    for hdim in (128, 64):
        for causal in (False, True):
            for length in LENGTHS:
                yield attention_case(torch, hdim, length, causal)


def difference(ours: Any, theirs: Any) -> float:
    """How far two results are from each other, of the norm of the second; infinite for a NaN in either."""
    apart = (ours.float() - theirs.float()).norm() / theirs.float().norm()
    found = float(apart)
    return found if math.isfinite(found) else math.inf


def measured(case: Case, watch: Stopwatch, rounds: int) -> Iterator[Figure]:
    """A case's figure, or why there is none."""
    name = f"tensor_cores/{case.kind}/{case.name}"
    first = case.make()
    ours = case.ours(first).clone()
    theirs = case.theirs(first)
    apart = difference(ours, theirs)
    if apart > case.tolerance:
        note = f"differs from {case.peer}'s result by {apart:.1e} of the norm"
        yield Figure(name, None, "TFLOP/s", case.peer, note=note)
        return
    size = sum(one.nbytes for one in first)
    sets = [first, *(case.make() for _ in range(min(MOST_SETS, max(2, ROTATED // size)) - 1))]
    candidates: dict[str, Callable[[], float]] = {}
    for who, call in (("weft", case.ours), (case.peer, case.theirs)):
        turn = cycle(sets)
        candidates[who] = watch.measurement(lambda call=call, turn=turn: call(next(turn)))
    samples = interleave(candidates, rounds)
    middle = {who: case.operations / statistics.median(all_) / 1e6 for who, all_ in samples.items()}
    low, _, high = statistics.quantiles(samples["weft"] * (2 if rounds == 1 else 1))
    note = f"middle half {case.operations / high / 1e6:.0f} to {case.operations / low / 1e6:.0f}"
    yield Figure(name, middle["weft"], "TFLOP/s", case.peer, middle[case.peer], note)


def figures(rounds: int, driver: str = "libcuda.so.1") -> Iterator[Figure]:
    """Every row, and after the rows of a kind the geometric mean and the worst of its ratios.

    Args:
        rounds: measurements of each candidate.
        driver: the library whose events are used.
    """
    set_current_device(0)
    version = device_properties(0).compute_capability
    if version != (9, 0):
        found = ".".join(map(str, version))
        note = f"needs a GPU of compute capability 9.0; this one's is {found}"
        yield Figure("tensor_cores", None, "TFLOP/s", note=note)
        return
    try:
        import torch
    except ImportError as error:
        yield Figure("tensor_cores", None, "TFLOP/s", note=reason_of(error))
        return
    watch = Stopwatch(driver)
    ratios: dict[str, list[float]] = {}
    for case in cases(torch):
        try:
            for figure in measured(case, watch, rounds):
                if figure.ratio:
                    ratios.setdefault(case.kind, []).append(figure.ratio)
                yield figure
        except RuntimeError as error:  # a library that has no such kernel
            name = f"tensor_cores/{case.kind}/{case.name}"
            yield Figure(name, None, "TFLOP/s", case.peer, note=reason_of(error))
    for kind, all_ in ratios.items():
        mean = math.exp(sum(map(math.log, all_)) / len(all_))
        note = f"of {len(all_)} ratios of rates, worst {min(all_):.3f}"
        yield Figure(f"tensor_cores/{kind}/geometric mean", mean, "x", note=note)


def main() -> None:
    """Print every figure, or why there is none."""
    arguments = parse_arguments(__doc__ or "", rounds=9)
    if reason := gpu_missing():
        note = f"needs a GPU: {reason}"
        report([Figure("tensor_cores", None, "TFLOP/s", note=note)], arguments.json)
    else:
        report(figures(arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
