# SPDX-License-Identifier: Apache-2.0
"""What kernels may write is found through launches, views and hidden arguments, and never missed."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from weft.dialects.context import make_context
from weft.passes.arguments import find_written_arguments, written_arguments

VECTOR = "!simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>"
LOCAL = "!simt.tensor<f32, [4], contiguous, local, dims 32, offsets 32, align 4>"
SHARED = LOCAL.replace("local", "shared")
PART = "!simt.tensor<f32, [?], strided, global, dims 32, offsets 64, align 4>"
STORE = f"simt.store %x, %s[%i : i32] : f32, {VECTOR}"
JOINED = {
    "select": f"%c = arith.constant true\n%s = arith.select %c, %a, %b : {VECTOR}\n{STORE}",
    "branch": f"""%c = arith.constant true
%s = scf.if %c -> ({VECTOR}) {{ scf.yield %a : {VECTOR} }} else {{ scf.yield %b : {VECTOR} }}
{STORE}""",
    "for": f"""%r:2 = scf.for %k = %i to %i step %i iter_args(%s = %a, %t = %b) -> ({VECTOR}, {VECTOR}) : i32 {{
{STORE}
scf.yield %t, %s : {VECTOR}, {VECTOR}
}}""",
    "after a for": f"""%s, %u = scf.for %k = %i to %i step %i iter_args(%v = %a, %t = %b)
  -> ({VECTOR}, {VECTOR}) : i32 {{
scf.yield %t, %v : {VECTOR}, {VECTOR}
}}
{STORE}""",
    "while": f"""%c = arith.constant true
%u, %v = scf.while (%s = %a, %t = %b) : ({VECTOR}, {VECTOR}) -> ({VECTOR}, {VECTOR}) {{
{STORE}
scf.condition(%c) %t, %s : {VECTOR}, {VECTOR}
}} do {{
^bb0(%y: {VECTOR}, %z: {VECTOR}):
scf.yield %y, %z : {VECTOR}, {VECTOR}
}}""",
    "view of a select": f"""%c = arith.constant true
%w = arith.select %c, %a, %b : {VECTOR}
%s = simt.view %w[%i : i32] keeps [0] steps [1] sizes(%i : i32) : {VECTOR} -> {VECTOR}
{STORE}""",
    "or nothing": f"""%c = arith.constant true
%p = ub.poison : {VECTOR}
%w = arith.select %c, %a, %p : {VECTOR}
%s = arith.select %c, %w, %b : {VECTOR}
{STORE}""",
}
VIEW = f"%v = simt.view %b[%i : i32] keeps [0] steps [-2] sizes(%i : i32) : {VECTOR} -> {PART}"


def found(body, arguments="%a, %b", kernel_arguments="%a: T, %b: T, %i: i32, %x: f32"):
    """The module after the pass; a host function launches one kernel with this body."""
    count = arguments.count("%")
    types = ", ".join(["T", "T", "i32", "f32"][:count])
    text = f"""simt.kernel @k({kernel_arguments}) {{
{body}
simt.return
}}
func.func @host(%a: T, %b: T, %i: i32, %x: f32, %n: i64) {{
simt.launch_ex @k grid(%n, %n, %n) block(%n, %n, %n) args({arguments} : {types})
func.return
}}""".replace("T", VECTOR)
    module = Parser(make_context(), text).parse_module()
    find_written_arguments(module)
    module.verify()
    return module


def noted(module):
    """Parse the text."""
    return str(module).partition("weft.written_arguments = array<i32")[2].partition(">")[0]


ALL = "%a, %b, %i, %x"


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        (f"simt.store %x, %b[%i : i32] : f32, {VECTOR}", ALL, ": 1"),
        (f"{VIEW}\nsimt.store %x, %v[%i : i32] : f32, {PART}", ALL, ": 1"),
        (f"simt.store %x, %b[%i : i32] : f32, {VECTOR}", "%b, %a, %i, %x", ": 0"),
        (f"simt.store %x, %b[%i : i32] : f32, {VECTOR}", "%a, %a, %i, %x", ": 0"),
        *((body, ALL, ": 0, 1") for body in JOINED.values()),
        (f"%l = simt.load %b[%i : i32] : {VECTOR} -> f32", ALL, ""),
        (
            f'%o = simt.atomic_rmw "add" "relaxed" "device" %x, %a[%i : i32] : f32, {VECTOR} -> f32',
            ALL,
            ": 0",
        ),
        (f"%l = simt.alloca : {LOCAL}\nsimt.store %x, %l[%i : i32] : f32, {LOCAL}", ALL, ""),
        (f"%l = simt.shared : {SHARED}\nsimt.store %x, %l[%i : i32] : f32, {SHARED}", ALL, ""),
    ],
    ids=[
        *("store", "view", "swapped", "same twice"),
        *JOINED,
        *("load", "atomic", "local", "shared"),
    ],
)
def test_what_a_kernel_writes_is_noted_on_the_host_function(body, arguments, expected):
    assert noted(found(body, arguments)) == expected


def test_an_allocated_hidden_argument_is_not_listed():
    module = found(
        f"simt.store %x, %scratch[%i : i32] : f32, {VECTOR}",
        ALL,
        "%a: T, %b: T, %i: i32, %x: f32, %scratch: T",
    )
    assert noted(module) == ""
    assert written_arguments(module) == frozenset()


def test_a_tensor_whose_origin_is_unknown_counts_as_every_one():
    body = f"""%c = arith.constant true
%t = scf.if %c -> ({VECTOR}) {{
scf.yield %a : {VECTOR}
}} else {{
scf.yield %b : {VECTOR}
}}
simt.store %x, %t[%i : i32] : f32, {VECTOR}"""
    assert noted(found(body, ALL)) == ": 0, 1"


def test_without_the_note_every_argument_may_be_written():
    module = found("", ALL)
    assert written_arguments(module) == frozenset()
    list(module.body.block.ops)[-1].attributes.clear()
    assert written_arguments(module) == frozenset(range(5))


def test_a_launch_writes_both_tensors_that_its_argument_may_be():
    body = f"simt.store %x, %a[%i : i32] : f32, {VECTOR}"
    text = str(found(body)).replace("args(%a", "args(%s").replace(
        "simt.launch_ex", f"%c = arith.constant true\n%s = arith.select %c, %b, %a : {VECTOR}\nsimt.launch_ex"
    )  # fmt: skip
    module = Parser(make_context(), text).parse_module()
    find_written_arguments(module)
    assert written_arguments(module) == {0, 1}
