# SPDX-License-Identifier: Apache-2.0
"""Every example assembles for one GPU of each kind, and every kernel of the conformance tests for two of them."""

from __future__ import annotations

import pytest

import weft
from examples.catalog import EXAMPLES
from tests.conformance.assembling import ARCHITECTURES, Assembling
from weft.arguments.signature import infer_signature
from weft.frontend.source import read_source
from weft.frontend.trace import trace


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_example_assembles_for_every_kind_of_gpu(monkeypatch):
    assembling = Assembling(every=True)
    assembling.watch(monkeypatch, "an example")
    for example in EXAMPLES:
        weft.compile(example.function, *example.fake_arguments())
    assert len(assembling.origins) >= len(EXAMPLES) - 1
    assert [str(error) for _, _, error in assembling.refused] == []
    assert assembling.assembled() == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_kernel_of_these_tests_assembles(assembling):
    """The last test of a run; conftest collects what all before it compiled."""
    assert assembling.refused == []
    assert assembling.assembled() == []


def test_assembly_failures_name_test_and_architecture():
    @weft.kernel
    def kernel(a: weft.Tensor):
        weft.inline_ptx("no.such.instruction;")

    @weft.jit
    def host(a: weft.Tensor[weft.f32, ("n",)]):
        kernel(a).launch(grid=1, block=1)

    assembling = Assembling(every=True)
    source = read_source(host)
    signature = infer_signature(source.name, source.parameters)
    assembling.take(trace(source, signature).module, "this test")
    complaints = assembling.assembled()
    assert [complaint.partition(":")[0] for complaint in complaints] == list(ARCHITECTURES)
    for complaint in complaints:
        assert "refused the code" in complaint and complaint.endswith("made by this test")
