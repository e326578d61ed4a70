# SPDX-License-Identifier: Apache-2.0
"""The memory of a cluster's other blocks: every access of every element type assembles, to instructions of its own
address space.
"""

from __future__ import annotations

import re

import pytest

import weft
from tests.conformance.harness import define
from tests.sampling import sampled
from weft.dialects.simt.atomics import LOAD_ORDERS, MEMORY_ORDERS, MEMORY_SCOPES, STORE_ORDERS
from weft.language.memory.atomics import ATOMIC_DTYPES

MODIFYING = [kind for kind in ATOMIC_DTYPES if kind not in ("load", "store", "cas")]
# Orders and scopes are printed alike for all types of a kind: one integer and one part of a word have them all.
WITH_ALL_ORDERS = (weft.i32, weft.f16)


def accesses(dtype: weft.DType) -> list[str]:
    """Statements, each with one access of `there`."""
    whole = dtype in WITH_ALL_ORDERS
    orders, scopes = (
        (MEMORY_ORDERS, MEMORY_SCOPES) if whole else (("relaxed", "acq_rel"), ("system",))
    )
    given = [f'order="{order}", scope="{scope}"' for order in orders for scope in scopes]
    found: list[str] = []
    if dtype.bits < 64:  # wider ones are refused: tests/conformance/test_clusters.py
        found += [
            f"v = weft.atomic_{kind}(there, t, v, {words})"
            for kind in MODIFYING
            if dtype in ATOMIC_DTYPES[kind]
            for words in given
        ]
        found += [f"v = weft.atomic_cas(there, t, v, v, {words})" for words in given]
    found += [f'v = weft.atomic_load(there, t, order="{order}")' for order in LOAD_ORDERS]
    found += [f'weft.atomic_store(there, t, v, order="{order}")' for order in STORE_ORDERS]
    found += ["v = weft.volatile_load(there, t)", "weft.volatile_store(there, t, v)"]
    found += ["v = there[t]", "there[t] = v"]
    counts = [count for count in (2, 4, 8, 16) if count * dtype.itemsize <= 16]
    for count in counts:
        found += [
            f"vs = weft.load_vector(there, {count} * t, {count})",
            f"weft.store_vector(there, {count} * t, vs)",
        ]
    return found


@pytest.mark.parametrize("architecture", sampled(["sm_90a", "sm_100a"], 2))
def test_every_access_of_every_type_assembles(architecture):
    dtypes = ATOMIC_DTYPES["load"]
    source = "".join(
        f"""
@weft.kernel
def {dtype}_kernel(out: weft.Tensor):
    own = weft.shared(1024, weft.{dtype})
    there = weft.map_shared(own, 1 - weft.cluster_rank())
    t = weft.thread_idx.x
    v = own[t]
    {"; ".join(accesses(dtype))}
    own[t] = v
    out[t] = weft.i32(own[t])
"""
        for dtype in dtypes
    )
    launches = "\n".join(
        f"    {dtype}_kernel(out).launch(grid=2, block=32, cluster=2)" for dtype in dtypes
    )
    host = define(f"{source}\n@weft.jit\ndef host(out: weft.Tensor):\n{launches}\n")["host"]
    compiled = weft.compile(
        host, weft.fake_tensor(weft.i32, (None,)), options=f"--gpu-arch {architecture}"
    )
    forms = re.findall(r"^\t(?:@%p\d+ )?(?:atom|red)\.[\w.:]+", compiled.ptx, re.MULTILINE)
    assert len(forms) > 300
    assert all(".shared::cluster" in form for form in forms)
