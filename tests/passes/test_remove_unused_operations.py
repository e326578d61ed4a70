# SPDX-License-Identifier: Apache-2.0
"""Nothing without effect stays unless something uses it; whatever has an effect stays."""

from __future__ import annotations

from xdsl.parser import Parser

from weft.dialects.context import make_context
from weft.passes.remove_unused import remove_unused_operations

VECTOR = "!simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>"
LOCAL = "!simt.tensor<f32, [4], contiguous, local, dims 32, offsets 32, align 4>"
SHARED = LOCAL.replace("local", "shared")


def after(*lines):
    """The lines of a kernel's body that are left."""
    body = "\n".join(f"    {line}" for line in (*lines, "simt.return"))
    text = f"builtin.module {{\n  simt.kernel @k(%a: {VECTOR}, %i: i32) {{\n{body}\n  }}\n}}"
    module = Parser(make_context(), text).parse_module()
    remove_unused_operations(module)
    module.verify()
    return [line.strip() for line in str(module).splitlines()[2:-3]]


def test_unused_constants_dims_and_arrays_go():
    assert not after(
        "%c = arith.constant 1 : i32",
        f"%n = simt.dim %a[0] : {VECTOR} -> i32",
        f"%l = simt.alloca : {LOCAL}",
        f"%s = simt.shared : {SHARED}",
    )


def test_what_only_an_unused_operation_used_goes_with_it():
    assert not after(
        "%c = arith.constant 1 : i32",
        "%d = arith.addi %c, %i : i32",
        "%e = arith.muli %d, %c : i32",
    )


def test_what_is_used_stays_and_so_does_what_it_uses():
    lines = [
        "%c = arith.constant 1.000000e+00 : f32",
        f"%n = simt.dim %a[0] : {VECTOR} -> i32",
        f"simt.store %c, %a[%n : i32] : f32, {VECTOR}",
    ]
    assert after(*lines, "%d = arith.constant 2 : i32") == lines


def test_what_has_an_effect_stays_although_nothing_uses_its_result():
    lines = [
        "%x = arith.constant 1.000000e+00 : f32",
        f'%o = simt.atomic_rmw "add" "relaxed" "device" %x, %a[%i : i32] : f32, {VECTOR} -> f32',
    ]
    assert after(*lines) == lines


def test_what_an_inner_block_uses_stays():
    lines = [
        "%x = arith.constant 1.000000e+00 : f32",
        "%b = arith.constant true",
        "scf.if %b {",
        f"simt.store %x, %a[%i : i32] : f32, {VECTOR}",
        "}",
    ]
    assert after(*lines) == lines


def test_the_host_function_is_tidied_too():
    text = "func.func @host(%i: i32) {\n%c = arith.constant 1 : i32\nfunc.return\n}"
    module = Parser(make_context(), text).parse_module()
    remove_unused_operations(module)
    assert "arith.constant" not in str(module)
