# SPDX-License-Identifier: Apache-2.0
"""Each sum of 64 bits gets its own product, wherever that is sure to be the same number, and nowhere else."""

from __future__ import annotations

import pytest

from weft.backends.cuda.peephole import place_wide_products

SUM = "\tadd.s64 \t%rd9, %rd1, %rd2;\n"


def rewritten(*lines: str) -> list[str]:
    """The lines of a function after the pass; those that the pass has added are marked with `+`."""
    body = "".join(line if line.endswith("\n") else f"\t{line};\n" for line in lines)
    before = f".visible .entry one()\n{{\n{body}}}\n"
    after = place_wide_products(before)
    first, last = ".visible .entry one()\n{\n", "}\n"
    assert after.startswith(first)
    assert after.endswith(last)
    return after[len(first) : -len(last)].splitlines()


def is_kept(*lines: str) -> bool:
    """Whether the pass leaves a function as it is."""
    return not any("%wide" in line for line in rewritten(*lines))


@pytest.mark.parametrize(
    ("made", "product"),
    [
        (["mul.wide.s32 \t%rd2, %r1, 4"], "mul.wide.s32 \t%wide0, %r1, 4"),
        (["cvt.u64.u32 \t%rd2, %r1"], "mul.wide.u32 \t%wide0, %r1, 1"),
        (
            ["cvt.s64.s32 \t%rd3, %r1", "shl.b64 \t%rd2, %rd3, 5"],
            "mul.wide.s32 \t%wide0, %r1, 32",
        ),
        (
            ["mul.wide.u32 \t%rd3, %r1, 12", "shl.b64 \t%rd2, %rd3, 2"],
            "mul.wide.u32 \t%wide0, %r1, 48",
        ),
    ],
)
@pytest.mark.parametrize("operands", ["%rd1, %rd2", "%rd2, %rd1"])
def test_a_sum_gets_its_product(made: list[str], product: str, operands: str):
    found = rewritten("mov.u32 \t%r1, %tid.x", *made, f"add.s64 \t%rd9, {operands}")
    assert found[0] == "\t.reg .b64 \t%wide<1>;"
    assert found[-2:] == [f"\t{product};", "\tadd.s64 \t%rd9, %rd1, %wide0;"]


def test_a_brace_of_inline_assembly_does_not_end_a_function():
    scoped = "\t// begin inline asm\n\t{\n.reg .u32 t;\nmov.u32 %r1, t;\n}\n\t// end inline asm\n"
    assert is_kept("ld.param.b32 \t%r1, [a]", "mul.wide.u32 \t%rd2, %r1, 4", SUM, scoped)
    found = rewritten(
        "ld.param.b32 \t%r1, [a]", scoped.replace("%r1", "%r2"), "mul.wide.u32 \t%rd2, %r1, 4", SUM
    )
    assert "\tmul.wide.u32 \t%wide0, %r1, 4;" in found


def test_every_sum_of_every_function_gets_its_own():
    one = (
        "{\n\tld.param.b32 \t%r1, [a];\n\tmul.wide.u32 \t%rd2, %r1, 4;\n"
        + SUM
        + SUM
        + "\tret;\n}\n"
    )
    found = place_wide_products(f".func a()\n{one}.func b()\n{one}")
    assert found.count("%wide<2>;") == 2
    assert found.count("mul.wide.u32 \t%wide1, %r1, 4;") == 2


@pytest.mark.parametrize(
    "lines",
    [
        # the factor is written twice
        ["mov.u32 \t%r1, 1", "mul.wide.u32 \t%rd2, %r1, 4", "mov.u32 \t%r1, 2", SUM],
        # by one instruction among other results
        ["ld.v2.b32 \t{%r0, %r1}, [%rd5]", "mul.wide.u32 \t%rd2, %r1, 4", "mov.u32 \t%r1, 2", SUM],
        # or maybe in assembly of the program's own
        [
            "mov.u32 \t%r1, 1",
            "mul.wide.u32 \t%rd2, %r1, 4",
            "\t// begin inline asm\n\tmov.u32 %r1, %laneid;\n\t// end inline asm\n",
            SUM,
        ],
        # the sum's part is another number on another way
        ["mov.u32 \t%r1, 1", "mul.wide.u32 \t%rd2, %r1, 4", "mov.u64 \t%rd2, %rd7", SUM],
        ["mov.u32 \t%r1, 1", "mul.wide.u32 \t%rd2, %r1, 4", "mul.wide.u32 \t%rd2, %r1, 8", SUM],
        # grows round by round
        ["cvt.u64.u32 \t%rd2, %r1", "shl.b64 \t%rd2, %rd2, 2", SUM],
        # not a constant, or none of 32 bits
        ["mov.u32 \t%r1, 1", "mul.wide.u32 \t%rd2, %r1, %r3", SUM],
        ["mov.u32 \t%r1, 1", "cvt.u64.u32 \t%rd3, %r1", "shl.b64 \t%rd2, %rd3, 31", SUM],
        ["mov.b64 \t%rd3, 1", "cvt.s64.s32 \t%rd2, %rd3", SUM],
        # computed jumps
        ["mov.u32 \t%r1, 1", "mul.wide.u32 \t%rd2, %r1, 4", "brx.idx \t%r4, $L_brx_0", SUM],
        # no sum of it
        ["mov.u32 \t%r1, 1", "mul.wide.u32 \t%rd2, %r1, 4", "sub.s64 \t%rd9, %rd1, %rd2"],
    ],
)
def test_what_may_be_another_number_stays(lines: list[str]):
    assert is_kept(*lines)


MADE = "\tmul.wide.u32 \t%rd2, %r1, 4;\n"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        # before the loop
        (["mov.u32 \t%r1, 1", MADE, "$L__BB0_1:\n", SUM, "@%p1 bra \t$L__BB0_1", "ret"], False),
        # on both ways, to the same register
        (
            [
                *("mov.u32 \t%r1, 1", "@%p1 bra \t$L__BB0_1", MADE, "bra.uni \t$L__BB0_2"),
                *("$L__BB0_1:\n", MADE, "$L__BB0_2:\n", SUM, "ret"),
            ],
            False,
        ),
        # on one way of two
        (["mov.u32 \t%r1, 1", "@%p1 bra \t$L__BB0_1", MADE, "$L__BB0_1:\n", SUM, "ret"], True),
        # the number of the round before, whose factor the loop has written again
        (
            ["$L__BB0_1:\n", "add.s32 \t%r1, %r3, 1", SUM, MADE, "@%p1 bra \t$L__BB0_1", "ret"],
            True,
        ),
        # after it in the text, before it in every run
        (
            [
                *("mov.u32 \t%r1, 1", "bra.uni \t$L__BB0_2", "$L__BB0_1:\n", SUM, "ret"),
                *("$L__BB0_2:\n", MADE, "bra.uni \t$L__BB0_1"),
            ],
            False,
        ),
    ],
)
def test_a_product_that_is_not_set_on_every_way_stays(lines: list[str], kept: bool):
    assert is_kept(*lines) == kept
