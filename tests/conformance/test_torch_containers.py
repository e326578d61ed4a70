# SPDX-License-Identifier: Apache-2.0
"""torch tensors inside containers and users' classes: read, written, checked and given back as outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import weft

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch
VECTOR = weft.Tensor[weft.f32, ("n",)]


class Pair(NamedTuple):
    source: VECTOR
    target: VECTOR


@dataclass(frozen=True)
class Job:
    pair: Pair
    factor: weft.f32


class Batch:
    """A class of a user's."""

    def __init__(self, source: Any, target: Any) -> None:
        self.source, self.target = source, target


weft.register_argument(Batch, lambda batch: (batch.source, (batch.target, 2.0)))


@weft.kernel
def scale_kernel(source, target, factor):
    i = weft.thread_idx.x
    if i < target.shape[0]:
        target[i] = source[i] * factor


@weft.jit
def of_tuple(t: tuple[VECTOR, tuple[VECTOR, weft.f32]]):
    scale_kernel(t[0], t[1][0], t[1][1]).launch(grid=1, block=32)
    return t[1][0], t[1][1]


@weft.jit
def of_job(job: Job):
    scale_kernel(job.pair.source, job.pair.target, job.factor).launch(grid=1, block=32)
    return job.pair.target, job.factor


@weft.jit
def of_batch(batch):
    scale_kernel(batch[0], batch[1][0], batch[1][1]).launch(grid=1, block=32)
    return batch[1][0], batch[1][1]


# Function, what is passed for a source and a target, how messages call the target.
CASES: dict[str, tuple[Any, Callable[[Any, Any], Any], str]] = {
    "tuple": (of_tuple, lambda a, b: (a, (b, 2.0)), "t[1][0]"),
    "list": (of_tuple, lambda a, b: [a, [b, 2.0]], "t[1][0]"),
    "dataclass": (of_job, lambda a, b: Job(Pair(a, b), 2.0), "job.pair.target"),
    "registered class": (of_batch, Batch, "batch[1][0]"),
}
cases = pytest.mark.parametrize("case", CASES)


def tensors() -> tuple[Any, Any]:
    import torch

    return torch.arange(10, dtype=torch.float32), torch.zeros(10)


@cases
@pytest.mark.parametrize("options", [None, "", "--executor context", "--enable-tvm-ffi"])
def test_written_containers_come_back_as_the_same_object(case, options):
    import torch

    function, pack, _ = CASES[case]
    a, b = tensors()
    call = function if options is None else weft.compile(function, pack(a, b), options=options)
    target, factor = call(pack(a, b))
    assert target is b
    assert factor == 2.0
    assert torch.equal(b, a * 2)


@cases
def test_torch_and_numpy_stand_beside_each_other(case):
    function, pack, _ = CASES[case]
    a, b = tensors()
    b = b.numpy()
    function(pack(a, b))
    np.testing.assert_array_equal(b, a.numpy() * 2)


@cases
def test_a_wrong_item_is_named_by_its_path(case):
    function, pack, place = CASES[case]
    a, b = tensors()
    call = weft.compile(function, pack(a, b))
    with pytest.raises(ValueError) as caught:
        call(pack(a, b.double()))
    assert f"argument #0 '{place}': dtype is f64, expected f32" in str(caught.value)
    with pytest.raises(TypeError) as caught:
        call(pack(a, 3))
    assert f"argument #0 '{place}': expected a tensor, received an int 3" in str(caught.value)


@cases
@pytest.mark.parametrize("kind", ["meta", "conjugate", "sparse"])
def test_tensors_without_plain_memory_are_refused(case, kind):
    import torch

    function, pack, place = CASES[case]
    a, b = tensors()
    call = weft.compile(function, pack(a, b))
    wrong = {
        "meta": lambda: torch.zeros(10, device="meta"),
        "conjugate": lambda: torch.zeros(10, dtype=torch.complex64).conj(),
        "sparse": lambda: torch.zeros(10).to_sparse(),
    }[kind]()
    with pytest.raises((TypeError, ValueError)) as caught:
        call(pack(a, wrong))
    assert f"argument #0 '{place}': " in str(caught.value)


@cases
def test_a_prepared_call_takes_them_and_takes_others(case):
    import torch

    function, pack, _ = CASES[case]
    a, b = tensors()
    launch = weft.compile(function, pack(a, b)).prepare(pack(a, b))
    launch()
    assert torch.equal(b, a * 2)
    other = torch.zeros(10)
    launch[0] = pack(a + 1, other)
    launch()
    assert torch.equal(other, (a + 1) * 2)


@cases
def test_what_needs_a_gradient_is_not_written_behind_torchs_back(case):
    function, pack, _ = CASES[case]
    a, b = tensors()
    a.requires_grad_()
    target, _ = function(pack(a, b))
    assert target is b
    assert (b.numpy() == a.detach().numpy() * 2).all()
