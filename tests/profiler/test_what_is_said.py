# SPDX-License-Identifier: Apache-2.0
"""Errors of a profiler's misuse: sizes, order of calls, buffers and names of another kind."""

from __future__ import annotations

import gzip
import json
import sys
from enum import Enum
from typing import Any

import numpy as np
import pytest

from tests.conformance.harness import define
from tests.profiler.writing import Entry, tirx_buffer, track_buffer
from weft.errors import ArgumentValueError, CompileError, ValueRangeError
from weft.profiler import Trace, buffer, decode_tirx, decode_track, export_to_perfetto_trace
from weft.types import record_format as wire

START, END, FINALIZE = wire.START, wire.END, wire.FINALIZE
HOST = """
import weft
from weft.profiler import CudaProfiler, Profiler

@weft.kernel
def kernel(rec: weft.Tensor, n: weft.{dtype}, on: weft.bool_):
    tid = weft.thread_idx.x
    p = {make}
{body}

@weft.jit
def host(rec: weft.Tensor, n: weft.{dtype}, on: weft.bool_):
    kernel(rec, n, on).launch(grid=2, block=32)
"""
TIRX = "CudaProfiler(rec, {stride}, {groups}, tid == 0)"
TRACK = 'Profiler(("a", "b"), buffer=rec)'
STEP = "p.init({group})\np.start(0)\np.end(0)\np.finalize()"


def made(body: str, make: str, dtype: str = "i32"):
    indented = "\n".join(f"    {line}" for line in body.split("\n"))
    return define(HOST.format(body=indented, make=make, dtype=dtype))["host"]


def recorded(
    stride: str = "2", groups: str = "1", group: str = "0", *, n: int, dtype: str = "i32"
) -> tuple[Any, Any]:
    words = np.zeros(64, np.uint64)
    guarded = np.full(128, 7, np.uint64)
    guarded[:64] = words
    made(STEP.format(group=group), TIRX.format(stride=stride, groups=groups), dtype)(
        guarded[:64], n, True
    )
    assert (guarded[64:] == 7).all(), "a record was written outside the buffer"
    return decode_tirx(guarded[:64]), guarded[:64]


@pytest.mark.parametrize(
    ("dtype", "stride"),
    [
        ("i32", -1),
        ("i32", -(2**31)),
        ("u32", 2**32 - 1),
        ("u32", 2**31),
        ("i64", -1),
        ("i64", 2**32 + 2),
        ("i64", 2**32 - 1),
        ("u64", 2**64 - 1),
    ],
)
def test_a_stride_that_no_track_can_take_is_reported(dtype: str, stride: int):
    recording, words = recorded("n", n=stride, dtype=dtype)
    assert len(recording.records) == 0
    assert any("write_stride is not in 1 .. 2^31 - 1" in text for text in recording.problems)
    assert not words[1:].any()


def test_the_largest_stride_records_what_fits():
    recording, _ = recorded("n", n=2**31 - 1)
    assert recording.records["kind"].tolist() == [START, START]
    assert recording.problems


@pytest.mark.parametrize("stride", [2**32 - 1, 2**31, -1, 0])
def test_a_constant_stride_that_no_track_can_take_is_refused(stride: int):
    with pytest.raises(
        ValueRangeError, match=rf"write_stride is {stride}; expected 1 to 2147483647"
    ):
        recorded(str(stride), n=0)


@pytest.mark.parametrize(
    ("dtype", "groups"), [("i32", -1), ("i64", 2**32 + 1), ("i64", 2**63 - 1), ("u64", 2**63)]
)
def test_a_number_of_groups_that_wraps_is_reported(dtype: str, groups: int):
    recording, words = recorded("8", "n", n=groups, dtype=dtype)
    assert any("tracks" in text for text in recording.problems)
    assert not words[1:].any()


@pytest.mark.parametrize(("dtype", "group"), [("i32", -1), ("i64", 2**32), ("u64", 2**32)])
def test_a_group_that_wraps_is_reported(dtype: str, group: int):
    recording, words = recorded(group="n", n=group, dtype=dtype)
    assert any("group_id outside" in text for text in recording.problems)
    assert not words[1:].any()


EARLY = {
    "start": "p.start(0)\np.init(0)\np.end(0)",
    "range": "with p.range(0):\n    p.init(0)",
    "mark": "p.mark(0)\np.init(0)",
    "in a branch": "if on:\n    p.start(0)\np.init(0)\np.end(0)",
    "in a loop before": "for i in range(n):\n    p.mark(0)\np.init(0)",
    "before a branch": "p.mark(0)\nif on:\n    p.init(0)",
}
IN_ORDER = {
    "plain": "p.init(0)\np.start(0)\np.end(0)",
    "in a loop": "for i in range(n):\n    if i == 0:\n        p.init(0)\n    p.mark(0)",
    "second round": "for i in range(n):\n    if i:\n        p.mark(0)\n    else:\n        p.init(0)",
    "in branches": "if on:\n    p.init(0)\nelse:\n    p.init(0)\np.mark(0)",
}


@pytest.mark.parametrize("make", [TIRX.format(stride=2, groups=1), TRACK])
@pytest.mark.parametrize("body", EARLY.values(), ids=EARLY)
def test_a_record_before_init_is_refused_where_it_stands(body: str, make: str):
    with pytest.raises(CompileError, match=r"before init\(\).*\n?.*") as raised:
        made(body, make)(buffer(512), 1, True)
    assert raised.value.code == "PROFILER_INIT"


@pytest.mark.parametrize("make", [TIRX.format(stride=2, groups=1), TRACK])
@pytest.mark.parametrize("body", IN_ORDER.values(), ids=IN_ORDER)
def test_a_record_that_may_come_after_init_is_compiled(body: str, make: str):
    made(body, make)(buffer(512), 1, True)


def entries(*rows: tuple[int, int, int]) -> list[Entry]:
    return [Entry(*row) for row in rows]


UNMATCHED = {
    "open start": (entries((0, START, 2), (9, FINALIZE, 0)), "1 starts have no end, the first of"),
    "orphan end": (entries((0, END, 2), (9, FINALIZE, 0)), "1 ends have no start, the first of"),
}


@pytest.mark.parametrize("case", UNMATCHED)
def test_decoders_tell_starts_and_ends_that_match_nothing_once(case: str):
    track, text = UNMATCHED[case]
    recording = decode_tirx(tirx_buffer([track], 1), ["a", "b", "c"])
    assert recording.problems == [f"{text} c in track b0/g0"]
    assert Trace([recording]).problems == [f"launch 0: {recording.problems[0]}"]
    body = "p.init(0)\nif on:\n    p.start(0)\nelse:\n    p.end(0)"
    words = buffer(512)
    made(body, TRACK)(words, 0, case == "open start")
    found = decode_track(words)
    assert found.problems == [f"{text} a in track {found.track_name(0)}".replace("1 ", "2 ", 1)]
    assert len(Trace([found]).problems) == 1


def test_each_decoder_names_the_other_for_the_others_buffer():
    track = track_buffer([[Entry(0, START, 0)]], 1, names=["a"], capacity=4)
    for words in (track, buffer(64)):
        for decode in (decode_tirx, lambda w: export_to_perfetto_trace(w, "/dev/null", [])):
            with pytest.raises(
                ArgumentValueError, match=r"of weft.profiler.Profiler.*\n?.*decode_track"
            ):
                decode(words)
    for words in (tirx_buffer([[Entry(0, FINALIZE, 0)]], 1), np.zeros(64, np.uint64)):
        with pytest.raises(
            ArgumentValueError, match=r"not a buffer of weft.profiler.Profiler"
        ) as raised:
            decode_track(words)
        assert "decode_tirx" in str(raised.value)


class Step(Enum):
    LOAD = 2
    STORE = 0


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({0: "store", 2: "load"}, ["store", "event 1", "load"]),
        ({}, ["event 0", "event 1", "event 2"]),
        (Step, ["STORE", "event 1", "LOAD"]),
        ({Step.LOAD: "load"}, ["event 0", "event 1", "load"]),
        (("a", "b"), ["a", "b", "event 2"]),
        (iter(["a"]), ["a", "event 1", "event 2"]),
    ],
)
def test_names_are_a_list_a_mapping_or_an_enum(names: Any, expected: list[str], tmp_path):
    words = tirx_buffer([entries((0, FINALIZE, 0))], 1)
    recording = decode_tirx(words, names)
    assert [recording.event_name(number) for number in range(3)] == expected


@pytest.mark.parametrize(
    "names", ["load", b"load", 5, [1, 2], {"load": 0}, {-1: "a"}, {0: 1}, {5000: "a"}]
)
def test_invalid_names_are_a_clear_error(names: Any):
    words = tirx_buffer([entries((0, FINALIZE, 0))], 1)
    for use in (
        lambda: decode_tirx(words, names),
        lambda: export_to_perfetto_trace(words, "/dev/null", names),
    ):
        with pytest.raises((TypeError, ArgumentValueError), match="event names"):
            use()


def test_every_exporter_compresses_for_gz(tmp_path):
    words = tirx_buffer([entries((0, START, 0), (5, END, 0), (9, FINALIZE, 0))], 1)
    trace = Trace([decode_tirx(words, ["load"])])
    writers = {
        "perfetto": trace.to_perfetto,
        "chrome": trace.to_chrome,
        "tirx": lambda path: export_to_perfetto_trace(words, path, ["load"]),
    }
    for name, write in writers.items():
        plain, packed = tmp_path / name, tmp_path / f"{name}.gz"
        write(plain)
        write(packed)
        again = packed.read_bytes()
        assert gzip.decompress(again) == plain.read_bytes()
        write(str(packed))
        assert packed.read_bytes() == again  # no time of writing inside
    assert json.loads((tmp_path / "chrome").read_text(encoding="utf-8"))["traceEvents"]


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    trace = Trace([decode_tirx(tirx_buffer([entries((0, FINALIZE, 0))], 1))])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"needs matplotlib.*pip install weft-lang\[plot\]"):
        trace.plot()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas.*pip install pandas"):
        trace.to_dataframe()


def test_reading_without_numpy_names_the_extra(tmp_path):
    import subprocess

    text = "import sys; sys.modules['numpy'] = None; import weft.profiler; weft.profiler.capture"
    found = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False
    )
    assert "ImportError: weft.profiler needs NumPy: pip install weft-lang[profiler]" in found.stderr
