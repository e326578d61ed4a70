# SPDX-License-Identifier: Apache-2.0
"""The width of iterations on a GPU, and their number per thread, follow from their accesses and length."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, scf

import weft
from tests.conformance.harness import define
from weft.compiler.module_text import parse_module
from weft.dialects.builder import constant_integer
from weft.dialects.flow import walk
from weft.dialects.simt.threads import EachOp
from weft.passes.iterations import reuse_loads
from weft.passes.map_each import Plan, map_each

TYPES = {name: getattr(weft, name) for name in ("i8", "bf16", "f32", "f64")}


def each_of(body: str, *kinds: str, layout: str = "contiguous") -> str:
    """The traced module of one statement's iterations over arrays a, b, ... of these types."""
    names = "abcd"[: len(kinds)]
    listed = ", ".join(names)
    space = define(
        f"""
        @weft.kernel
        def kernel({listed}):
            for i in weft.each(a.shape[0]):
                {body}

        @weft.jit
        def host({listed}):
            kernel({listed}).launch(over=a.shape[0])
        """
    )
    examples = [weft.fake_tensor(TYPES[kind], (None,), layout=layout) for kind in kinds]
    return weft.compile(space["host"], *examples).stages["trace"]


def plan_of(body: str, *kinds: str, layout: str = "contiguous") -> Plan:
    """The plan of these iterations."""
    text = each_of(body, *kinds, layout=layout)
    found = [op for op in walk(parse_module(text)) if isinstance(op, EachOp)]
    reuse_loads(found[0])
    return Plan.of(found[0])


@pytest.mark.parametrize(
    ("body", "kinds", "plan"),
    [
        ("b[i] = a[i]", ("f32", "f32"), Plan(4, 0)),
        ("c[i] = a[i] + b[i]", ("f32", "f32", "f32"), Plan(4, 0)),
        ("b[i] = a[i]", ("bf16", "bf16"), Plan(8, 0)),
        ("b[i] = weft.f32(a[i])", ("bf16", "f32"), Plan(4, 0)),
        ("b[i] = weft.f64(a[i])", ("i8", "f64"), Plan(2, 0)),
        ("b[i] = a[i]", ("i8", "i8"), Plan(16, 0)),
        ("b[i] = a[i]", ("f64", "f64"), Plan(2, 0)),
        ("a[i] = 0.0", ("f32",), Plan(4, 0)),
    ],
)
def test_a_group_is_16_bytes_of_the_array_with_the_widest_elements(body, kinds, plan):
    assert plan_of(body, *kinds) == plan


@pytest.mark.parametrize(
    "body",
    [
        "a[i] = b[i] if b[i] > 0.0 else 1.0 / b[i + 1]",
        "a[i] = 2.0 * b[i] if b[i] > 0.0 else weft.math.exp(b[i])",
        "b[i + 1] = a[i]",
    ],
)
def test_unrelated_accesses_leave_vectors_alone(body):
    assert plan_of(body, "f32", "f32").width == 4


@pytest.mark.parametrize("body", ["if b[i] > 0.0: a[i] = 1.0"])
def test_conditional_stores_run_one_by_one_in_adjacent_threads(body):
    assert plan_of(body, "f32", "f32") == Plan(1, 4)


def test_written_arrays_of_different_alignment_iterate_in_turn():
    assert plan_of("b[i] = a[i]; a[i] = 0.0", "f32", "f32") == Plan(4, 4)
    assert plan_of("a[i] = b[i]; a[i] = 2 * a[i]", "f32", "f32") == Plan(4, 0)


def test_iterations_over_arrays_of_any_strides_run_one_by_one():
    assert plan_of("b[i] = a[i]", "f32", "f32", layout="strided") == Plan(1, 4)


@pytest.mark.parametrize(
    "body",
    [
        "a[i] = weft.volatile_load(b, i)",
        'weft.printf("%d\\n", i)',
        "for k in range(b.shape[0]): a[i] += b[k]",
        "weft.atomic_add(a, 0, b[i], order='acq_rel')",
    ],
)
def test_what_is_ordered_or_long_is_not_interleaved(body):
    assert plan_of(body, "f32", "f32") == Plan(1, 1)


def test_a_long_iteration_has_fewer_copies():
    sums = " + ".join(f"a[i] * {factor}.5" for factor in range(2, 10))
    assert plan_of(f"b[i] = {sums}", "f32", "f32") == Plan(4, 0)
    assert plan_of("b[i] = weft.math.erf(a[i])", "f32", "f32") == Plan(4, 0)
    longer = " * ".join(f"weft.math.exp({power}.0 * a[i])" for power in range(2, 12))
    assert plan_of(f"b[i] = {longer}", "f32", "f32") == Plan(4, 0)
    both = f"b[i] = {longer.removesuffix(' * weft.math.exp(11.0 * a[i])')}; a[i] = b[i]"
    assert plan_of(both, "f32", "f32") == Plan(4, 1)
    assert plan_of(f"b[i + 1] = {longer} * i", "f32", "f32") == Plan(4, 0)
    assert plan_of(f"b[i + 1] = {longer.replace('[i]', '[0]')}", "f32", "f32") == Plan(1, 4)
    longest = " * ".join(f"weft.math.exp({power}.0 * a[i])" for power in range(2, 42))
    assert plan_of(f"b[i] = {longest}", "f32", "f32") == Plan(1, 1)


@pytest.mark.parametrize(("kind", "margin"), [("i8", 4), ("bf16", 2), ("f32", 0)])
def test_whole_word_loads_stay_inside_a_row(kind, margin):
    text = each_of("b[i] = a[i]", kind, kind)
    change = parse_module(text)
    map_each(change)
    whole = [op for op in walk(change) if isinstance(op, scf.IfOp)][-1].cond.owner
    limits = [bound.owner.operands[1].owner for bound in whole.operands]
    if margin:
        chosen = limits[0]
        assert isinstance(chosen, arith.SelectOp)
        assert [constant_integer(side) for side in chosen.operands[1:]] == [0, margin]
    else:
        assert constant_integer(limits[0].result) == 0


@pytest.mark.parametrize(
    ("iterations", "index", "narrows"),
    [
        ("a.size", "b[i] = a[i]", False),
        ("a.shape[0]", "b[i] = a[i]", False),
        ("a.size", "b[i] = a[i + 1]", False),
        ("a.shape[0]", "b[i] = weft.f32(i)", True),
    ],
)
def test_gpu_addresses_have_64_bits_from_the_iteration_on(iterations, index, narrows):
    space = define(
        f"""
        @weft.kernel
        def kernel(a: weft.Tensor, b: weft.Tensor):
            for i in weft.each({iterations}):
                {index}

        @weft.jit
        def host(a: weft.Tensor, b: weft.Tensor):
            kernel(a, b).launch(over={iterations})
        """
    )
    examples = [weft.fake_tensor(weft.f32, (None,), device="cuda")] * 2
    ptx = weft.compile(space["host"], *examples, options="--gpu-arch sm_90a --keep-ptx").ptx
    assert ("cvt.u32.u64" in ptx) == narrows
