# SPDX-License-Identifier: Apache-2.0
"""A kernel and its launches keep what the kernel uses, in the order pointer, dims, strides of each tensor."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

import weft
from weft.dialects.context import make_context
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp, LaunchExOp
from weft.dialects.simt.memory import DimOp, LoadOp
from weft.passes.remove_unused import remove_unused_parameters


def tensor(dims="?, ?, ?", layout="contiguous", element="i32"):
    return f"!simt.tensor<{element}, [{dims}], {layout}, global, dims 32, offsets 64, align 4>"


def after(kernel, *launches):
    """A module's kernel and launches after the pass; a launch is its operands and their types."""
    lines = [
        f"simt.launch_ex @k grid(%n, %n, %n) block(%n, %n, %n) {given}{{programmatic}}"
        for given in launches
    ]
    text = "\n".join(
        [
            kernel,
            f"func.func @host(%a: {tensor()}, %b: {tensor()}, %x: f32, %n: i64, %c: i1) {{",
            "scf.if %c {",
            *lines[1:],
            "}",
            *lines[:1],
            "func.return",
            "}",
        ]
    )
    module = Parser(make_context(), text).parse_module()
    remove_unused_parameters(module)
    module.verify()
    found = list(walk(module))
    (made,) = (op for op in found if isinstance(op, KernelOp))
    return made, [op for op in found if isinstance(op, LaunchExOp)]


def parts(uses, kind):
    """Remaining parameters of a tensor argument with these uses."""
    view = tensor("?", "strided")
    body = "\n".join(uses).replace("VIEW", view).replace("T", kind)
    kernel, _ = after(f"simt.kernel @k(%t: {kind}, %i: i32) {{\n{body}\nsimt.return\n}}")
    text = " ".join(
        f"{part} {dimension}" for part, dimension in kernel.parts(kernel.body.block.args[0])
    )
    return text.replace("pointer 0", "pointer")


ACCESSES = {
    "load": "%l = simt.load %t[%i, %i, %i : i32, i32, i32] : T -> i32",
    "store": "simt.store %i, %t[%i, %i, %i : i32, i32, i32] : i32, T",
    "atomic load": '%o = simt.atomic_load "relaxed" "device" %t[%i, %i, %i : i32, i32, i32] : T -> i32',
    "atomic store": 'simt.atomic_store "relaxed" "device" %i, %t[%i, %i, %i : i32, i32, i32] : i32, T',
    "add": '%o = simt.atomic_rmw "add" "relaxed" "device" %i, %t[%i, %i, %i : i32, i32, i32] : i32, T -> i32',
    "swap": '%s = simt.atomic_cas "relaxed" "device" %i, %i, %t[%i, %i, %i : i32, i32, i32] : i32, i32, T -> i32',
}
NEEDS = {
    "contiguous": "pointer dim 1 dim 2",
    "inner": "pointer stride 0 stride 1",
    "strided": "pointer stride 0 stride 1 stride 2",
}


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("layout", NEEDS)
def test_an_access_needs_what_its_address_is_made_of(access, layout):
    assert parts([ACCESSES[access]], tensor(layout=layout)) == NEEDS[layout]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("contiguous", "pointer dim 1 dim 2"),
        ("inner", "pointer stride 0 stride 1"),
        ("strided", "pointer stride 0 stride 1 stride 2"),
    ],
)
def test_a_view_needs_its_offset_and_kept_strides(layout, expected):
    view = "%v = simt.view %t[%i, %i, %i : i32, i32, i32] keeps [0] steps [2] sizes(%i : i32) : T -> VIEW"
    assert parts([view], tensor(layout=layout)) == expected


PASSED_ON = {
    "select": """%c = arith.constant true
%m = arith.select %c, %t, %t : T
""",
    "branch": """%c = arith.constant true
%m = scf.if %c -> (T) { scf.yield %t : T } else { scf.yield %t : T }
""",
    "loop": """%m = scf.for %k = %i to %i step %i iter_args(%u = %t) -> (T) : i32 { scf.yield %u : T }
""",
}


@pytest.mark.parametrize("way", PASSED_ON)
@pytest.mark.parametrize("layout", NEEDS)
def test_what_control_flow_passed_on_needs_the_same(way, layout):
    kind = tensor(layout=layout)
    assert parts([PASSED_ON[way]], kind) == ""
    assert parts([PASSED_ON[way], "%d = simt.dim %m[0] : T -> i32"], kind) == "dim 0"
    for access in ACCESSES.values():
        assert parts([PASSED_ON[way], access.replace("%t[", "%m[")], kind) == NEEDS[layout]


@pytest.mark.parametrize(
    ("dimension", "layout", "dim", "stride"),
    [
        (0, "contiguous", "dim 0", "dim 1 dim 2"),
        (2, "contiguous", "dim 2", ""),
        (1, "inner", "dim 1", "stride 1"),
        (2, "inner", "dim 2", ""),
        (2, "strided", "dim 2", "stride 2"),
    ],
)
def test_a_shape_needs_its_dim_and_a_stride_what_it_is_made_of(dimension, layout, dim, stride):
    kind = tensor(layout=layout)
    assert parts([f"%d = simt.dim %t[{dimension}] : T -> i32"], kind) == dim
    assert parts([f"%s = simt.stride %t[{dimension}] : T -> i64"], kind) == stride


def test_dims_that_the_type_knows_are_not_passed():
    kind = tensor("?, 4, ?")
    assert parts([ACCESSES["load"]], kind) == "pointer dim 2"
    assert parts(["%d = simt.dim %t[1] : T -> i32", ACCESSES["load"]], kind) == "pointer dim 2"


def test_without_the_note_all_that_the_type_leaves_open_is_passed():
    for layout, expected in (
        ("contiguous", [("pointer", 0), ("dim", 0), ("dim", 2)]),
        ("inner", [("pointer", 0), ("dim", 0), ("dim", 2), ("stride", 0), ("stride", 1)]),
    ):
        text = f"simt.kernel @k(%t: {tensor('?, 4, ?', layout)}) {{\nsimt.return\n}}"
        (kernel,) = Parser(make_context(), text).parse_module().body.block.ops
        assert kernel.parts(kernel.body.block.args[0]) == expected


def test_unused_arguments_go_from_the_kernel_and_from_every_launch():
    kernel, (first, second) = after(
        f"""simt.kernel @k(%u: {tensor()}, %t: {tensor()}, %y: f32, %x: f32) {{
  %d = simt.dim %t[0] : {tensor()} -> i32
  simt.printf "%d %f"(%d, %x : i32, f32)
  simt.return
}}""",
        f"args(%a, %b, %x, %x : {tensor()}, {tensor()}, f32, f32)",
        f"shared %n args(%b, %a, %x, %x : {tensor()}, {tensor()}, f32, f32)",
    )
    assert [argument.name_hint for argument in kernel.body.block.args] == ["t", "x"]
    found = [[value.name_hint for value in launch.args] for launch in (first, second)]
    assert sorted(found) == [["a", "x"], ["b", "x"]]
    assert all(launch.is_programmatic for launch in (first, second))
    assert {launch.shared_memory_bytes is None for launch in (first, second)} == {True, False}


def test_a_kernel_that_uses_nothing_takes_nothing():
    text = "simt.kernel @k(%x: f32) {\nsimt.return\n}"
    kernel, (launch,) = after(text, "args(%x : f32)")
    assert not kernel.body.block.args
    assert not launch.args


@pytest.mark.parametrize(("used", "left"), [("%s0", (0,)), ("%s1", (0,)), ("%p", ())])
def test_allocated_arguments_keep_their_order(used, left):
    kernel, (launch,) = after(
        f"""simt.kernel @k(%t: {tensor()}, %s0: {tensor()}, %s1: {tensor()}, %p: {tensor("?", element="i64")})
attributes {{scratch_arguments = array<i32: 1, 2>, profile_argument = 3 : i32}} {{
  %d = simt.dim {used}[0] : {tensor("?", element="i64") if used == "%p" else tensor()} -> i32
  simt.printf "%d"(%d : i32)
  simt.return
}}""",
        f"args(%a : {tensor()})",
    )
    assert len(kernel.body.block.args) == 1
    assert tuple(argument.index for argument in kernel.scratch_arguments) == left
    assert (kernel.profile_argument is not None) == (used == "%p")
    assert not launch.args


@weft.kernel
def double_kernel(a: weft.Tensor, b: weft.Tensor):
    b[0] = a.shape[0]


@weft.jit
def double(a: weft.Tensor[weft.i32, ("n",)], b: weft.Tensor[weft.i32, ("n",)]):
    double_kernel(a, b).launch(grid=1, block=1)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("argument", "missing"), [(0, "the pointer"), (1, "dimension 0")], ids=["pointer", "dim"]
)
def test_a_hook_that_uses_a_removed_parameter_gets_an_error(argument, missing, target):
    def use(module):
        block = next(iter(module.body.block.ops)).body.block
        tensor = block.args[argument]
        zero = next(op for op in block.ops if isinstance(op, DimOp)).result
        op = DimOp(tensor, 0) if argument else LoadOp(tensor, [zero])
        block.insert_op_before(op, block.last_op)

    with pytest.raises(weft.CompileError, match=f"hook use left .*: {missing} of a tensor was not"):
        weft.compile(double, post_compile_hooks=[use], options=f"--target {target}")
    a, b = np.ones(5, np.int32), np.zeros(5, np.int32)
    double(a, b)
    assert b[0] == 5
