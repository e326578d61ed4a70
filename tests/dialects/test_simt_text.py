# SPDX-License-Identifier: Apache-2.0
"""The `simt` dialect as text: every operation prints, parses again in both forms, and refuses what is wrong."""

from __future__ import annotations

import io

import pytest
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from weft.dialects.context import make_context

VECTOR = "!simt.tensor<f32, [?], contiguous, global, dims 32, offsets 64, align 4>"
MATRIX = "!simt.tensor<i32, [?, 4], strided, global, dims 64, offsets 64, align 16>"
LOCAL = "!simt.tensor<i1, [3], contiguous, local, dims 32, offsets 32, align 1>"
SCRATCH = "!simt.tensor<f32, [?, 4, ?], contiguous, global, dims 64, offsets 64, align 256>"
OWN = LOCAL.replace("local", "global")
TYPES = {"a": VECTOR, "m": MATRIX, "i": "i32", "x": "f32", "c": "i1"}
PARAMETERS = ", ".join(f'%{n}: {t} {{weft.name = "{n}"}}' for n, t in TYPES.items())
ARGUMENTS = f"{', '.join(f'%{n}' for n in TYPES)} : {', '.join(TYPES.values())}"
PROPERTIES = (
    "max_threads = 256 : i32, min_blocks = 2 : i32, max_registers = 64 : i32, "
    "cluster = array<i32: 2, 1, 1>, block_size = array<i32: 64, 2, 1>, shared_memory_bytes = 128 : i64, "
    "scratch_arguments = array<i32: 0, 1>, profile_argument = 1 : i32"
)
LAUNCH = (
    "cluster = array<i32: 4, 1, 1>, cooperative, programmatic, "
    'launch_attributes = [#simt.launch_attribute<9, "ff00">]'
)
TEXT = f"""builtin.module {{
  simt.kernel @k({PARAMETERS}) attributes {{{PROPERTIES}}} {{
    %t = simt.thread_idx "x" : i32
    %b = simt.block_idx "y" : i32
    %d = simt.block_dim "z" : i32
    %g = simt.grid_dim "x" : i32
    %r = simt.multiprocessors : i32
    %clusters = simt.max_clusters [@k, @l] : i32
    %n = simt.dim %m[0] : {MATRIX} -> i64
    %s = simt.stride %m[1] : {MATRIX} -> i64
    %e = simt.address %m[%n, %t : i64, i32] : {MATRIX} -> i64
    simt.each %n, %t : i64, i32 {{
    ^bb0(%j: i64, %k: i32):
      simt.store %x, %a[%j : i64] : f32, {VECTOR}
    }}
    %l = simt.alloca : {LOCAL}
    %p = simt.global_scratch : {OWN}
    %0 = simt.load %a[%t : i32] : {VECTOR} -> f32
    %1 = simt.load %m[%n, %t : i64, i32] : {MATRIX} -> i32
    simt.store %x, %a[%t : i32] : f32, {VECTOR}
    simt.store %c, %l[%t : i32] : i1, {LOCAL}
    %v = simt.load volatile %a[%t : i32] : {VECTOR} -> f32
    simt.store volatile %x, %a[%t : i32] : f32, {VECTOR}
    %o = simt.atomic_load "acquire" "block" %m[%t, %t : i32, i32] : {MATRIX} -> i32
    simt.atomic_store "release" "system" %x, %a[%t : i32] : f32, {VECTOR}
    %2 = simt.atomic_rmw "add" "relaxed" "device" %x, %a[%t : i32] : f32, {VECTOR} -> f32
    %3 = simt.atomic_cas "acq_rel" "system" %i, %1, %m[%t, %t : i32, i32] : i32, i32, {MATRIX} -> i32
    %4 = simt.floor_div %i, %1 : i32
    %5 = simt.floor_mod %x, %0 : f32
    simt.printf "%d\\0A"(%i : i32)
    simt.printf "done"
    simt.assert %c, "c holds"
    simt.assume %c
    simt.assume checked %c
    simt.assume %c, "c holds"
    simt.check %c, "out_of_bounds" "" "read" 1 values(%n, %s)
    simt.exit
    simt.return
  }}
  func.func @host(%a: {VECTOR}, %m: {MATRIX}, %i: i32, %x: f32, %c: i1, %n: i64, %q: !simt.stream) {{
    %b = ub.poison : {VECTOR}
    %d = arith.select %c, %a, %b : {VECTOR}
    %e = simt.argument_number %d : {VECTOR} -> i32
    %z = simt.scratch "weft.scratch(3, weft.bool_)" : {OWN}
    %kept = simt.scratch "weft.empty(3, weft.bool_)" {{kept = "bool"}} : {OWN}
    %y = simt.scratch "weft.scratch((n, 4, m), weft.f32)" sizes(%n, %n : i64, i64) stream %q : {SCRATCH}
    simt.check_distinct %a, %m "k" "a" "out" : {VECTOR}, {MATRIX}
    simt.launch_ex @k grid(%n, %n, %n) block(%n, %n, %n) shared %n records %n stream %q args({ARGUMENTS}) {{{LAUNCH}}}
    simt.launch_ex @k over %n grid() block() args({ARGUMENTS})
    simt.launch_ex @k over %n grid() block(%n, %n, %n) args({ARGUMENTS})
    func.return
  }}
}}"""


def parsed(text):
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def generic(module):
    text = io.StringIO()
    Printer(text, print_generic_format=True).print_op(module)
    return text.getvalue()


def test_the_text_parses_and_prints_as_it_stands():
    assert str(parsed(TEXT)) == TEXT


def test_the_generic_form_parses_to_the_same():
    module = parsed(TEXT)
    assert str(parsed(generic(module))) == TEXT


WRONG = [
    ('simt.thread_idx "x"', 'simt.thread_idx "w"', "not one of"),
    (
        "%a[%t : i32] : !simt.tensor<f32",
        "%a[%t, %t : i32, i32] : !simt.tensor<f32",
        "2 indices for",
    ),
    ("simt.load %a[%t : i32]", "simt.load %a[%x : f32]", "an index is i32 or i64, not f32"),
    (f"{VECTOR} -> f32", f"{VECTOR} -> f64", None),
    ("store %x, %a[%t : i32] : f32", "store %i, %a[%t : i32] : i32", "type differs from the elem"),
    ("%m[0]", "%m[2]", "dimension 2 of a tensor of rank 2"),
    (f"simt.alloca : {LOCAL}", f"simt.alloca : {LOCAL.replace('local', 'global')}", None),
    (
        f"simt.global_scratch : {OWN}",
        f"simt.global_scratch : {OWN.replace('[3]', '[?]')}",
        "static",
    ),
    (f"simt.global_scratch : {OWN}", f"simt.global_scratch : {LOCAL}", "a global tensor"),
    ("sizes(%n, %n : i64, i64)", "sizes(%n : i64)", "1 sizes for"),
    ("sizes(%n, %n : i64, i64)", "sizes(%n, %i : i64, i32)", "the sizes of"),
    (f'weft.bool_)" : {OWN}', f'weft.bool_)" : {LOCAL}', "a contiguous global tensor"),
    ('"add"', '"nand"', "atomic 'nand' is not one of"),
    ('"relaxed"', '"strong"', "memory order 'strong' is not one of"),
    ('"acquire" "block"', '"release" "block"', "memory order 'release' is not one of"),
    ('"release" "system"', '"acquire" "system"', "memory order 'acquire' is not one of"),
    ('"release" "system"', '"release" "warp"', "memory scope 'warp' is not one of"),
    ('"system"', '"world"', "memory scope 'world' is not one of"),
    ("grid(%n, %n, %n)", "grid(%n, %n)", "three dimensions each"),
    ("over %n grid()", "grid()", "three dimensions each"),
    ("over %n grid()", "over %n grid(%n, %n, %n)", "three dimensions each"),
    ("%t : i64, i32] : !simt.tensor<i32", "%x : i64, f32] : !simt.tensor<i32", "an index is i32"),
    ("simt.each %n, %t : i64, i32", "simt.each %n, %x : i64, f32", "each extent is i32 or i64"),
    ("(%j: i64, %k: i32)", "(%j: i64)", "an argument of each extent's type"),
    ("strided", "rows", "layout 'rows' is not one of"),
    ("global", "texture", "address space 'texture' is not one of"),
    ("dims 64", "dims 16", "16 is neither 32 nor 64 bits"),
    ("align 16", "align 3", "not a power of two"),
    ("max_threads = 256", "max_threads = 0", "max_threads is 0; expected at least 1"),
    ("256 : i32", "256 : i64", None),
    ("min_blocks = 2", "min_blocks = -2", "min_blocks is -2; expected at least 1"),
    ("i32: 2, 1, 1>", "i32: 2, 1>", r"cluster is \[2, 1\]; expected three sizes"),
    ("i32: 64, 2, 1>", "i32: 64, 0, 1>", r"block_size is \[64, 0, 1\]; expected three sizes"),
    ("[@k, @l]", "[]", "no kernel is named"),
    ("bytes = 128", "bytes = 120", "shared_memory_bytes is 120; expected a multiple of 16"),
    ("array<i32: 0, 1>", "array<i32: 0, 5>", "scratch_arguments names argument 5 of 5"),
    ("profile_argument = 1", "profile_argument = 2", "names argument 2, which is not a tensor"),
    ("i32: 4, 1, 1>", "i32: 4, 1, -1>", r"cluster is \[4, 1, -1\]; expected three sizes"),
    ("programmatic", "programmatic = true", None),
    ("ff00", "fg00", "expected hexadecimal digits, received 'fg00'"),
    ("ff00", "00" * 65, "a launch attribute has at most 64 bytes, received 65"),
    ("[3], contiguous", "[1, 1, 1, 1, 1, 1, 1, 1, 1], contiguous", "rank 9 is above 8"),
]


@pytest.mark.joined
@pytest.mark.parametrize(("right", "wrong", "message"), WRONG, ids=[row[1] for row in WRONG])
def test_a_wrong_operation_is_refused(right, wrong, message):
    assert right in TEXT
    with pytest.raises((VerifyException, ParseError), match=message):
        parsed(TEXT.replace(right, wrong))
