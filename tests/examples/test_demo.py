# SPDX-License-Identifier: Apache-2.0
"""The demo prints one row per example, the stages, and says so when something is wrong or missing.

In: small sizes. Out: the printed text.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

import weft
from examples import common, demo
from examples.catalog import EXAMPLES

pytestmark = pytest.mark.slow

PICTURES = ("mandelbrot", "box_blur")
# The other tests of this folder run each example.
SOME = tuple(e for i, e in enumerate(EXAMPLES) if i % 5 == 0 or e.name in PICTURES)


def test_every_example_has_a_row_and_is_right(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "EXAMPLES", SOME)
    monkeypatch.setattr(common, "best_ms", partial(common.best_ms, seconds=0.0))
    assert demo.main(["--quick", "--pictures", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    for example in SOME:
        assert any(row and row[0] == example.name and row[-1] == "ok" for row in rows)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.png" for name in PICTURES}
    for stage in ("-- Python", "the kernel", "the wrapper", "-- fn.llvm_ir"):
        assert stage in printed


def test_machine_code_of_any_length_is_counted():
    lines = [
        f"        /*{16 * number:04x}*/                   FFMA R1, R2, R3, R4 ;"
        for number in range(5000)
    ]
    padding = ["        /*13880*/                   NOP ;", '\t//## File "demo.py", line 3']
    counted = demo.instructions("\tadd.f32 %f1, %f2, %f3;\n", "\n".join(lines + padding))
    assert counted == (1, 5000)


def test_wrong_result_fails_the_demo(capsys, monkeypatch, tmp_path):
    broken = dataclasses.replace(EXAMPLES[0], reference=lambda a, b: {"b": a + np.float32(2)})
    monkeypatch.setattr(demo, "EXAMPLES", (broken,))
    assert demo.main(["--quick", "--pictures", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "WRONG" in printed.out
    assert "wrong: add_one" in printed.err


def test_missing_assembler_is_said_clearly(capsys, monkeypatch, tmp_path):
    def no_assembler(example):
        raise weft.ToolchainError("ASSEMBLER_MISSING", "neither nvJitLink nor ptxas was found")

    monkeypatch.setattr(demo, "compile_for_gpu", no_assembler)
    assert demo.main(["--quick", "--pictures", str(tmp_path), "add_one"]) == 0
    printed = capsys.readouterr().out
    assert "not possible here: neither nvJitLink nor ptxas was found" in printed
    assert "pip install 'weft-lang[cuda]'" in printed
    assert "Resources" not in printed


def test_unknown_name_lists_the_examples():
    with pytest.raises(SystemExit, match="no example addone; there are add_one, saxpy"):
        demo.main(["addone"])


def test_table_aligns_words_left_and_figures_right(capsys):
    table = demo.Table(("name", "figure"), (6, 8), words=1)
    table.row(("a", "1.5"))
    assert capsys.readouterr().out == "name      figure\n------  --------\na            1.5\n"
