# SPDX-License-Identifier: Apache-2.0
"""inline_ptx through the whole compiler: what PTX it becomes, and what users read where it cannot be.

In: kernels with instructions of their own. Out: PTX, errors.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import define
from tests.conformance.test_cuda import why_no_cuda


@pytest.fixture
def cuda():
    """Skips where PTX cannot be assembled."""
    if reason := why_no_cuda():
        pytest.skip(reason)


SOURCE = """
@weft.kernel
def kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    weft.inline_ptx({text!r}, out[i:], a[i])

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor):
    kernel(a, out).launch(grid=1, block=32)
"""
FAKES = (weft.fake_tensor(weft.u32, ("n",)), weft.fake_tensor(weft.u32, ("n",)))


def host_of(text: str):
    return define(SOURCE.format(text=text))["host"]


@pytest.mark.usefixtures("cuda")
def test_the_text_stands_in_the_ptx_with_registers_and_addresses():
    compiled = weft.compile(
        host_of("st.global.wt.u32 [$0], $1;"), *FAKES, options="--gpu-arch sm_90a"
    )
    assert "st.global.wt.u32 [%rd" in compiled.ptx
    assert "STG.E" in compiled.sass


@pytest.mark.usefixtures("cuda")
def test_what_the_assembler_refuses_is_an_error_at_the_users_line():
    with pytest.raises(weft.ToolchainError) as caught:
        weft.compile(host_of("no.such.thing [$0], $1;"), *FAKES, options="--gpu-arch sm_90a")
    assert caught.value.code == "ASSEMBLY_FAILED"
    assert caught.value.location.line == 5
    assert "weft.inline_ptx('no.such.thing [$0], $1;', out[i:], a[i])" in str(caught.value)


def test_the_cpu_refuses_it_by_name_at_its_line():
    with pytest.raises(weft.UnavailableError) as caught:
        host_of("st.global.u32 [$0], $1;")(np.zeros(32, np.uint32), np.zeros(32, np.uint32))
    assert caught.value.code == "TARGET_OPERATION"
    assert "inline_ptx" in caught.value.message
    assert caught.value.location.line == 5
