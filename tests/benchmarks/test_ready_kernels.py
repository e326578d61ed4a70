# SPDX-License-Identifier: Apache-2.0
"""The rows of ready_kernels compute what their peers do; what differs, fails or is slower is said in the page."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from time import perf_counter

import pytest

import weft
from benchmarks import performance, ready_kernels
from benchmarks.ceilings import COLUMNS, DEPTH, product_operands, products
from benchmarks.ready.case import Case
from benchmarks.ready.tensor_cores import attention_case, product_case
from benchmarks.ready_kernels import KINDS, Measured, difference, figure, mean_ratio, measured
from docs import generate_performance
from tests.sampling import sampled

pytestmark = pytest.mark.torch
SCALE = 256


class Watch:
    """A stopwatch of the CPU's clock."""

    def measurement(self, queue):
        queue()

        def measure():
            start = perf_counter()
            queue()
            return (perf_counter() - start) * 1e6

        return measure


@pytest.mark.parametrize("kind", sampled(KINDS, 3))
def test_each_row_has_arguments_for_its_peers(kind, monkeypatch):
    import torch

    monkeypatch.setattr(torch, "compile", lambda call, **_: call)
    names = [case.name for case in KINDS[kind](torch)]
    assert len({*names}) == len(names)
    cases = list(KINDS[kind](torch, SCALE))
    for case in cases:
        if "float8" not in case.name:  # torch's CPU products of 8-bit floats are slow
            next(iter(case.peers.values()))(*case.make(0))
    if kind == "tensor_cores":  # compiled and compared below
        return
    found = measured(torch, cases[0], Watch(), 1, "cpu")
    assert (found.wrong, found.failed) == ("", {})
    assert found.microseconds.keys() >= {"weft"} and found.ratio is not None and found.moved > 0


def test_every_function_has_rows_and_every_row_a_function(monkeypatch):
    import torch

    monkeypatch.setattr(torch, "compile", lambda call, **_: call)
    rows = [
        row(case.name)
        for kind in set(KINDS) - generate_performance.OF_EXAMPLES
        for case in KINDS[kind](torch, SCALE)
    ]
    recorded = {"kinds": {"rows": {"ceilings": CEILINGS, "rows": [asdict(one) for one in rows]}}}
    assert set(generate_performance.functions(recorded)) == set(weft.kernels.__all__)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_a_product_is_torchs(name):
    import torch

    case = product_case(torch, name, 128, 256, 64)
    given = case.make(0)
    a, b = (one.float() for one in given[:2])
    assert difference(case.ours(*given), a @ b.T) < case.tolerance
    assert difference(torch.zeros_like(given[2]), a @ b.T) > case.tolerance
    assert difference(torch.full_like(given[2], torch.nan), a @ b.T) > case.tolerance


@pytest.mark.parametrize(("hdim", "causal"), [(128, False), (64, True)])
def test_attention_is_torchs(monkeypatch, hdim, causal):
    import torch

    monkeypatch.setattr("benchmarks.ready.tensor_cores.HIDDEN", 128)
    case = attention_case(torch, hdim, 256, causal, 512)
    given = case.make(0)
    assert given[0].shape == (2, 256, 128 // hdim, hdim)
    (theirs,) = case.peers.values()
    assert difference(case.ours(*given), theirs(*given)) < case.tolerance


def test_the_products_of_the_ceiling_are_products():
    import torch

    a, b, out = product_operands(torch, torch.bfloat16, 1)
    products(a, b, out, 1)
    expected = DEPTH * (a.float() @ b.float().T)
    assert (len(a), len(b)) == (128, COLUMNS)
    # A thread's first element: row of its warp and lane / 4, column of its lane.
    lane, warp = torch.arange(256) % 32, torch.arange(256) // 32
    assert torch.allclose(
        out, expected[16 * warp + lane // 4, 2 * (lane % 4)], rtol=1e-3, atol=1e-2
    )


def test_wrong_results_and_failures_are_measured_as_such():
    import torch

    def fail(x):
        raise RuntimeError("tired\nof it")

    case = Case(
        "f/float32/4", lambda seed: [torch.ones(4)], lambda x: x, {"torch": lambda x: x}, 32
    )
    found = measured(torch, case._replace(ours=torch.zeros_like), Watch(), 1, "cpu")
    assert found.wrong == "differs by 1.0e+00 of the norm" and found.ratio is None
    found = measured(torch, case._replace(ours=fail), Watch(), 1, "cpu")
    assert found.failed == {"weft": "RuntimeError: tired"}
    found = measured(torch, case._replace(peers={**case.peers, "other": fail}), Watch(), 1, "cpu")
    assert found.failed == {"other": "RuntimeError: tired"} and found.ratio is not None
    assert "other: RuntimeError: tired" in figure(found, {"memory": 1.0}).note


def row(name, unit="GB/s", element="float32", **microseconds):
    """A row of 1000 bytes, or of 2000 operations."""
    work = 1000.0 if unit == "GB/s" else 2000.0
    return Measured(name, unit, work, element, 1000.0, dict(microseconds))


ROWS = [
    row("copy/float32", weft=1.25, torch=2.5),
    row("sort/float32", weft=4.0, torch=2.0, CuPy=8.0),
    row("tie/float32", weft=1.0, torch=0.997),
    Measured(
        "bad/float32", "GB/s", 1.0, "float32", 1.0, {"weft": 1.0, "torch": 9.0}, {}, "differs by 1"
    ),
    Measured("none/float32", "GB/s", 1.0, "float32", 1.0, {}, {"weft": "ValueError: no|never"}),
]
PRODUCTS = [row("gemm/bfloat16/2", "TFLOP/s", "bfloat16", weft=4.0, torch=2.0)]
CEILINGS = {"memory": 1000.0, "bfloat16": 1000.0}


def record():
    return {
        "machine": {"GPU": "a GPU", "driver": "1.2"},
        "kinds": {
            "moves": {
                "when": "2026-01-02 03:04",
                "ceilings": CEILINGS,
                "rows": [asdict(one) for one in ROWS],
            },
            "gemm": {
                "when": "2026-01-02 03:05",
                "ceilings": CEILINGS,
                "rows": [asdict(one) for one in PRODUCTS],
            },
        },
    }


def test_shares_of_the_roofline_and_ratios():
    assert [one.share(CEILINGS) for one in ROWS[:2]] == [0.8, 0.25]
    assert PRODUCTS[0].share(CEILINGS) == 0.5  # its operations take twice as long as its bytes
    assert PRODUCTS[0].share({"memory": 1000.0}) is None
    assert [one.ratio for one in ROWS] == [2.0, 0.5, 0.997, None, None]
    found = mean_ratio(ROWS)
    assert found is not None and math.isclose(found[0], 0.997 ** (1 / 3))
    assert found[1].name == "sort/float32" and mean_ratio([]) is None


def test_the_page_says_where_weft_is_slower():
    lines = generate_performance.page(record()).splitlines()
    earlier = "Measured on 2026-01-02 03:04 UTC, earlier than other kinds; weft may have changed"
    assert any(line.startswith(earlier) for line in lines)
    assert any(line.startswith("Measured on 2026-01-02 03:05 UTC. In this run") for line in lines)
    assert "| copy, float32 | 1.25 | 0.8 GB/s | 0.80 | 2.00 | – |  |" in lines
    assert "| sort, float32 | 4 | 0.25 GB/s | 0.25 | 0.50 | 2.00 | **torch** |" in lines
    assert "| tie, float32 | 1 | 1 GB/s | 1.00 | 1.00 | – |  |" in lines
    assert "**wrong**: differs by 1 |" in "\n".join(lines)
    assert "**failed**: ValueError: no/never |" in "\n".join(lines)
    summary = (
        "[Transposes and gathers](#transposes-and-gathers) | 5 | 1.00 | 3 | 0.50, sort/float32"
    )
    assert any(summary in line for line in lines)
    assert set(generate_performance.KINDS) == set(KINDS)


def test_records_are_written_drawn_and_merged(tmp_path):
    (tmp_path / "performance.json").write_text(generate_performance.text_of(record()))
    assert json.loads((tmp_path / "performance.json").read_text()) == record()
    stale = tmp_path / "images" / "performance" / "stale.svg"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    generate_performance.write(tmp_path)
    drawn = {
        name: (stale.parent / name).read_text() for name in generate_performance.drawn_in(tmp_path)
    }
    assert drawn == generate_performance.pictures(record())
    kinds, functions = (
        {"moves", "gemm", "gemm-roofline"},
        set("copy sort tie bad none".split()),
    )
    functions |= {"gemm", "gemm-roofline"}
    assert set(drawn) == {f"{name}.svg" for name in kinds} | {
        f"functions/{name}.svg" for name in functions
    }
    for name in kinds:
        assert f"images/performance/{name}.svg" in (tmp_path / "performance.md").read_text()
    text = generate_performance.section(record(), "gemm", "images")
    assert "images/functions/gemm-roofline.svg" in text and "| gemm, bfloat16, 2 | 4 |" in text
    assert generate_performance.section(record(), "transpose", "images") == ""
    new = {**record(), "kinds": {"rows": {"ceilings": CEILINGS, "rows": []}}}
    assert set(performance.merged(record(), new)["kinds"]) == {"moves", "gemm", "rows"}
    other = {**new, "machine": {"GPU": "another"}}
    assert set(performance.merged(record(), other)["kinds"]) == {"rows"}
    assert performance.merged({}, new) == new


def test_pictures_are_xml_with_a_dot_for_each_candidate():
    from xml.etree import ElementTree

    drawn = generate_performance.pictures(record())
    dots = {
        name: len(ElementTree.fromstring(text).findall(".//{*}circle")) - 3
        for name, text in drawn.items()
    }
    # `none` has not been measured, and `bad` is drawn where its time is.
    assert dots == {
        **{"moves.svg": 8, "gemm.svg": 2, "gemm-roofline.svg": 2},
        **{f"functions/{name}.svg": 2 for name in ("copy", "sort", "tie", "bad", "gemm")},
        **{"functions/gemm-roofline.svg": 2, "functions/none.svg": 0},
    }


def test_without_a_gpu_it_says_why(monkeypatch, capsys):
    monkeypatch.setattr(performance, "missing", lambda: "needs a GPU: none")
    monkeypatch.setattr("sys.argv", ["performance"])
    with pytest.raises(SystemExit, match="performance needs a GPU: none"):
        performance.main()
    monkeypatch.setattr(ready_kernels, "missing", lambda: "needs torch")
    ready_kernels.main()
    assert "needs torch" in capsys.readouterr().out
