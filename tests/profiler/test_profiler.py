# SPDX-License-Identifier: Apache-2.0
"""`Profiler` on real runs: what is recorded, how much fits, who leads, and what is left when it is off."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import weft
from tests.conformance.harness import define
from tests.conformance.test_cuda import why_no_cuda
from tests.sampling import sampled
from weft.profiler import buffer, decode_track, prepare
from weft.profiler.records import find_spans
from weft.types import record_format as wire

needs_cuda = pytest.mark.skipif(bool(why_no_cuda()), reason=why_no_cuda() or "cuda")
HOST = """
from enum import Enum
import weft
from weft.profiler import Profiler

class Step(Enum):
    LOAD = 0
    COMPUTE = 1

@weft.kernel
def kernel(rec: weft.Tensor, n: weft.i32, on: weft.bool_, out: weft.Tensor):
    tid = weft.thread_idx.x
{body}

@weft.jit
def host(rec: weft.Tensor, n: weft.i32, on: weft.bool_, out: weft.Tensor):
    kernel(rec, n, on, out).launch(grid={grid}, block={block})
"""


def made(body: str, grid=1, block=32):
    indented = textwrap.indent(textwrap.dedent(body), "    ")
    return define(HOST.format(body=indented, grid=grid, block=block))["host"]


def run(body: str, words: int = 4096, *, grid=1, block=32, n=0, on=True, out=None):
    """Records of a launch; checks that nothing is written after the buffer."""
    guarded = np.full(words + 64, 0xDEAD, np.uint64)
    prepare(guarded[:words])
    made(body, grid, block)(
        guarded[:words], n, on, np.zeros(64, np.float32) if out is None else out
    )
    assert (guarded[words:] == 0xDEAD).all(), "a record was written outside the buffer"
    return decode_track(guarded[:words])


def kinds(recording) -> list[int]:
    return recording.records["kind"].tolist()


def test_everything_that_can_be_recorded_comes_back():
    body = """
    p = Profiler(events=("a", "b", "c", "d", "e"), groups=("one",), buffer=rec)
    p.init("one")
    p.start("a", payload=7)
    p.mark("b", payload=weft.u32(0xDEADBEEF))
    p.count("c", n)
    with p.range("d"):
        p.begin_async("e", key=3)
    p.end_async("e", key=3)
    p.end("a")
    """
    found = run(body, n=70000)
    assert found.problems == []
    assert found.kernel == "kernel"
    assert found.events == ["a", "b", "c", "d", "e"]
    assert found.groups == ["one"]
    rows = [(r["kind"], r["event"], r["has_payload"], r["payload"]) for r in found.records]
    assert rows == [
        (wire.START, 0, True, 7),
        (wire.INSTANT, 1, True, 0xDEADBEEF),
        (wire.COUNTER, 2, True, 70000),
        (wire.START, 3, False, 0),
        (wire.ASYNC_BEGIN, 4, True, 3),
        (wire.END, 3, False, 0),
        (wire.ASYNC_END, 4, True, 3),
        (wire.END, 0, False, 0),
    ]
    assert (np.diff(found.records["time"]) >= 0).all()
    spans = find_spans(found)
    assert [(int(s["event"]), int(s["depth"])) for s in spans if not s["is_async"]] == [
        (0, 0),
        (3, 1),
    ]


@pytest.mark.parametrize("form", ["track", "wide"])
@pytest.mark.parametrize("trips", ["5", "n"])
def test_both_forms_record_loops_of_known_and_unknown_length(form, trips):
    body = f"""
    p = Profiler(("step",), groups=2, buffer=rec, format={form!r})
    p.init(tid // 16)
    for i in range({trips}):
        with p.range("step", payload=i):
            weft.sync_warp()
    """
    found = run(body, n=5, grid=3)
    assert found.problems == []
    assert len(found.tracks) == 6
    assert found.tracks["block"].tolist() == [0, 0, 1, 1, 2, 2]
    spans = find_spans(found)
    assert spans["payload"].tolist() == [0, 1, 2, 3, 4] * 6
    assert not spans["is_open"].any()


@pytest.mark.parametrize("payload", ["n", "weft.u8(n)", "weft.i16(n)", "1 << 20", "-1", "n > 3"])
def test_payloads_of_any_integer_type_come_back(payload):
    found = run(f"p = Profiler(buffer=rec)\np.init(0)\np.mark('x', payload={payload})", n=200)
    expected = {"1 << 20": 1 << 20, "-1": 0xFFFFFFFF, "n > 3": 1}.get(payload, 200)
    assert found.records["payload"].tolist() == [expected]


def test_records_that_do_not_fit_are_dropped_and_counted():
    body = """
    p = Profiler(("step",), buffer=rec, records=10)
    p.init(0)
    for i in range(n):
        p.mark("step", payload=i)
    """
    found = run(body, n=25)
    payload_words = 2
    assert found.records["payload"].tolist() == [0, 1, 2, 3, 4]
    assert found.tracks["lost"].tolist() == [25 * payload_words - 10]
    assert any("track b0/g0 lost 40 of 50" in problem for problem in found.problems)
    assert any("records=50, holds all" in problem for problem in found.problems)


@pytest.mark.parametrize("form", ["track", "wide"])
@pytest.mark.parametrize("count", sampled([0, 1, 7, 8, 9, 30], 2))
def test_a_ring_keeps_the_last_records(form, count):
    body = f"""
    p = Profiler(("step",), buffer=rec, records=8, overflow="ring", format={form!r})
    p.init(0)
    for i in range(n):
        p.mark("step", payload=weft.u16(i))
    """
    found = run(body, n=count)
    assert found.records["payload"].tolist() == list(range(max(count - 8, 0), count))
    assert (np.diff(found.records["time"]) >= 0).all()
    assert bool(found.problems) == (count > 8)


@pytest.mark.parametrize("capacity", [3, 4, 5, 16])
def test_a_ring_wraps_between_a_record_and_its_extension(capacity):
    """Records of two words and of one alternate, so that either word of the long ones comes last in the ring."""
    body = f"""
    p = Profiler(("long", "short"), buffer=rec, records={capacity}, overflow="ring")
    p.init(0)
    for i in range(n):
        p.mark("long", payload=i + 100_000)
        p.mark("short", payload=weft.u16(i))
    """
    host, out = made(body), np.zeros(64, np.float32)
    for count in (0, 1, 2, 3, 4, 5, 6, 17):
        prepare(records := np.zeros(4096, np.uint64))
        host(records, count, True, out)
        found = decode_track(records)
        words = [word for i in range(count) for word in (i + 100_000, None, i)]
        kept = words[-capacity:]
        # The oldest word may be an extension, whose record was overwritten.
        assert found.records["payload"].tolist() == [word for word in kept if word is not None]
        assert found.tracks["lost"].tolist() == [max(len(words) - capacity, 0)]
        assert (np.diff(found.records["time"]) >= 0).all()


def test_a_ring_record_needs_no_comparison():
    """One instruction moves a ring's cursor on sm_90: an addition and the maximum that wraps it."""
    from benchmarks.profiler_cost import LOOP, MODES, Compiled, clock_reads

    marks = {"start": "p.start(0)", "end": "p.end(0)"}
    bodies = Compiled(LOOP.format(setup=MODES["track, ring"], trips="n", **marks)).loops()
    body = max(bodies, key=clock_reads)
    names = [text.split()[0].split(".")[0] for text in body]
    assert clock_reads(body) == 2
    assert names.count("VIADDMNMX") == 2
    assert names.count("SEL") == 0
    assert names.count("ISETP") == 1, "the loop's own"


@pytest.mark.parametrize("words", [0, 1, 15])
def test_a_buffer_that_was_not_prepared_is_left_alone(words):
    body = "p = Profiler(buffer=rec)\np.init(0)\np.mark('x')"
    plain = np.full(words + 8, 7, np.uint64)
    made(body)(plain[:words], 0, True, np.zeros(64, np.float32))
    assert (plain == 7).all()


@pytest.mark.parametrize("words", sampled(range(16, 48), 6))
def test_a_buffer_of_any_size_is_never_overrun(words):
    body = """
    p = Profiler(("step",), groups=2, buffer=rec)
    p.init(tid // 16)
    for i in range(n):
        p.mark("step")
    """
    found = run(body, words, n=9)
    assert bool(found.problems) == (len(found.records) < 18)


@pytest.mark.parametrize("trips", ["6", "n"])
def test_a_launch_that_needs_more_room_says_how_much(trips):
    body = f"""
    p = Profiler(("step",), groups=4, buffer=rec)
    p.init(tid // 8)
    for i in range({trips}):
        p.mark("step")
    """
    found = run(body, 40, n=6)
    assert len(found.records) == 0
    (problem,) = found.problems
    needed = int(problem.split("needs ")[1].split(":")[0])
    assert len(run(body, needed, n=6).records) >= 4


def test_the_first_thread_of_a_group_leads_unless_one_is_named():
    body = """
    p = Profiler(groups=2, buffer=rec)
    p.init(tid // 48)
    p.mark("x", payload=weft.u16(tid))
    """
    assert run(body, block=96).records["payload"].tolist() == [0, 48]
    named = body.replace("buffer=rec", "buffer=rec, leader=tid % 48 == 5")
    assert run(named, block=96).records["payload"].tolist() == [5, 53]


def test_two_leaders_of_one_track_are_reported_and_one_records():
    body = """
    p = Profiler(buffer=rec, leader=tid < 2)
    p.init(0)
    p.mark("x")
    """
    found = run(body)
    assert len(found.records) == 1
    assert any("more than one leader" in problem for problem in found.problems)


def test_a_track_without_a_leader_is_reported():
    found = run("p = Profiler(groups=3, buffer=rec)\np.init(1)\np.mark('x')")
    assert found.tracks["group"].tolist() == [1]
    assert any("2 of 3 tracks have no leader" in problem for problem in found.problems)


def test_a_reused_profile_buffer_is_reported():
    host = made("p = Profiler(buffer=rec)\np.init(0)\np.mark('x')")
    records, out = buffer(256), np.zeros(64, np.float32)
    host(records, 0, True, out)
    first = decode_track(records)
    host(records, 0, True, out)
    (problem,) = decode_track(records).problems
    assert problem.startswith("2 launches used this buffer, and only the first recorded")
    prepare(records)
    assert decode_track(records).problems == ["no kernel has recorded into this buffer"]
    host(records, 0, True, out)
    second = decode_track(records)
    assert second.problems == []
    assert second.origin_ns > first.origin_ns


@pytest.mark.parametrize("blocks", ["3", "range(1, 7, 2)", "range(0, 1000, 4)", "100"])
def test_only_chosen_blocks_record(blocks):
    body = f"p = Profiler(groups=2, buffer=rec, blocks={blocks})\np.init(tid // 16)\np.mark('x')"
    found = run(body, grid=(3, 3))
    chosen = eval(blocks) if "range" in blocks else range(int(blocks))
    expected = [block for block in range(9) if block in chosen]
    assert sorted(set(found.tracks["block"].tolist())) == expected
    assert len(found.records) == 2 * len(expected)
    assert found.problems == []


def test_a_grid_below_the_chosen_blocks_records_nothing():
    found = run("p = Profiler(buffer=rec, blocks=range(5, 9))\np.init(0)\np.mark('x')", grid=2)
    assert len(found.records) == 0
    assert found.problems


def test_a_track_ends_with_the_kernel_whichever_way_threads_leave():
    body = """
    p = Profiler(groups=2, buffer=rec)
    p.init(tid // 16)
    with p.range("all"):
        if tid < 16:
            return
        p.mark("x")
    """
    found = run(body)
    assert found.problems == []
    assert kinds(found) == [wire.START, wire.END, wire.START, wire.INSTANT, wire.END]


@pytest.mark.parametrize("leaving", ["break", "continue", "return"])
def test_a_region_ends_where_control_leaves_it(leaving: str):
    body = f"""
    p = Profiler(("loop", "part"), buffer=rec)
    p.init(0)
    for i in range(3):
        with p.range("loop"):
            with p.range("part"):
                if i == 1:
                    {leaving}
                p.mark("part", payload=i)
    """
    found = run(body)
    assert found.problems == []
    iterations = {"break": [True, False], "continue": [True, False, True], "return": [True, False]}
    one = [wire.START, wire.START, wire.INSTANT, wire.END, wire.END]
    expected = [
        kind for marked in iterations[leaving] for kind in one if marked or kind != wire.INSTANT
    ]
    assert kinds(found) == expected


def test_finalize_ends_a_track_early():
    found = run("p = Profiler(buffer=rec)\np.init(0)\np.mark('x')\np.finalize()\np.mark('y')")
    assert found.problems == []
    assert kinds(found) == [wire.INSTANT]


def test_names_of_other_tools_are_known():
    body = """
    p = Profiler(buffer=rec)
    p.init(0)
    p.range_push("outer")
    token = p.range_start("free")
    p.range_push("inner")
    p.range_pop()
    p.range_end(token)
    p.range_pop()
    """
    found = run(body)
    assert kinds(found) == [0, 0, 0, 1, 1, 1]
    assert found.records["event"].tolist() == [0, 1, 2, 2, 1, 0]


def test_a_group_that_there_is_none_of_is_reported():
    body = "p = Profiler(groups=2, buffer=rec)\np.init({group})\np.mark('x')"
    said = "threads called init() with a group outside 0 .. 1 and recorded nothing"
    assert run(body.format(group="tid"), block=4).problems == [said]
    assert run(body.format(group="tid"), block=2).problems == []
    # What the switch or the blocks leave out says nothing.
    off = body.replace("groups=2", "groups=2, blocks=range(1, 2)").format(
        group="tid % 2 + 2 - 2 * weft.block_idx.x"
    )
    assert run(off, block=4, grid=2).problems == []


def test_enumerations_name_events_and_groups():
    body = """
    p = Profiler(Step, groups=Step, buffer=rec)
    p.init(Step.COMPUTE)
    with p.range(Step.COMPUTE):
        pass
    """
    found = run(body)
    assert found.events == found.groups == ["LOAD", "COMPUTE"]
    assert found.records["event"].tolist() == [1, 1]
    undeclared = body.replace("Step, groups=Step, ", "groups=2, ")
    assert run(undeclared).events == ["event 0", "COMPUTE"]


def test_a_staged_switch_is_a_branch_at_run_time():
    body = "p = Profiler(buffer=rec, enabled=on)\np.init(0)\np.mark('x')"
    assert len(run(body).records) == 1
    assert run(body, on=False).problems == ["no kernel has recorded into this buffer"]


def test_an_anchor_is_the_value_that_it_was():
    body = """
    p = Profiler(buffer=rec)
    p.init(0)
    x = weft.f32(tid) + 0.5
    count = tid * 3
    x = p.start("x", anchor=x)
    count = p.start("y", anchor=count)
    x = x * 2.0
    x = p.end("x", anchor=x)
    count = p.end("y", anchor=count)
    out[tid] = x + weft.f32(count)
    """
    out = np.zeros(64, np.float32)
    assert len(run(body, out=out).records) == 4
    np.testing.assert_array_equal(out[:32], np.arange(32) * 5 + 1)


ANCHORED = """
p = Profiler(("a", "b", "c"), buffer=rec, leader=tid == 0)
p.init(0)
x = out[tid]
for event in weft.static_range(3):
    {start}
    x = x * 1.0001 + 0.5
    x = weft.math.rsqrt(x)
    {end}
out[tid] = x
"""


def between_clocks(body: str) -> list[int]:
    """How many multiplications stand in front of, between and after the six clock reads in SASS."""
    fakes = weft.fake_tensor(weft.u64, (None,)), 0, True, weft.fake_tensor(weft.f32, (None,))
    sass = weft.compile(made(body), *fakes, options="--gpu-arch sm_90a").sass
    counts = [0]
    started = False
    for line in sass.splitlines():
        # The track's own header also reads the clock, as 64 bits; records read 32.
        if "CS2R.32" in line and "SR_CLOCKLO" in line:
            counts.append(0)
            started = True
        if started and ("MUFU.RSQ" in line):
            counts[-1] += 1
    return counts


@needs_cuda
def test_anchors_keep_arithmetic_inside_its_region_in_sass():
    anchored = ANCHORED.format(
        start="x = p.start(event, anchor=x)", end="x = p.end(event, anchor=x)"
    )
    counts = between_clocks(anchored)
    assert counts == [0, 1, 0, 1, 0, 1, 0]


@needs_cuda
def test_a_disabled_profiler_leaves_nothing():
    body = """
    p = Profiler(("a",), buffer=rec, enabled=False)
    p.init(0)
    with p.range("a"):
        out[tid] = weft.f32(n)
    """
    bare = "out[tid] = weft.f32(n)"
    fakes = weft.fake_tensor(weft.u64, (None,)), 0, True, weft.fake_tensor(weft.f32, (None,))

    def compiled(text: str):
        found = weft.compile(made(text), *fakes, options="--gpu-arch sm_90a")
        lines = [line.split("//")[0].strip() for line in found.ptx.splitlines()]
        ptx = [line for line in lines if line and not line.startswith((".loc", ".file"))]
        sass = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/.*", found.sass, re.MULTILINE)
        return ptx, sass, found.kernels["kernel"].parameter_sizes

    assert compiled(body) == compiled(bare)


@pytest.mark.joined
@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("p.start(4096)", "PROFILER_RANGE", "the event is 4096; expected a number from 0 to 4095"),
        ("p.start('z')", "PROFILER_EVENT", "the event 'z' is not one of 'a', 'b'"),
        ("p.start(1.5)", "PROFILER_EVENT", "the event is the constant 1.5"),
        ("p.end('a')", "PROFILER_PAIR", "end(a) stands in a kernel that has no start of it"),
        ("p.init('x')", "PROFILER_GROUPS", "the group 'x' is not one of 'g'"),
        ("p.init(1)", "PROFILER_RANGE", "the group is 1; expected 0 to 0"),
        ("p.mark('a', payload=0.5)", "PROFILER_TYPE", "the payload is the constant 0.5"),
        ("p.mark('a', payload=weft.i64(n))", "PROFILER_TYPE", "the payload is i64"),
        ("p.mark('a', payload=1 << 40)", "PROFILER_RANGE", "expected an integer of 32 bits"),
        ("p.start('a', anchor=1)", "PROFILER_TYPE", "the anchor is the constant 1"),
        ("p.range_pop()", "PROFILER_PAIR", "range_pop() without a range_push()"),
        ("p.record(1)", "UNKNOWN_ATTRIBUTE", "Profiler has no method 'record'"),
        ("q = Profiler(); q.mark(0)", "PROFILER_INIT", "never calls its init()"),
        ("q = Profiler(3)", "PROFILER_EVENT", "events is the constant 3"),
        ("q = Profiler(groups=0)", "PROFILER_GROUPS", "0 groups; expected 1 to 1024"),
        ("q = Profiler(groups=1.5)", "PROFILER_GROUPS", "groups is the constant 1.5"),
        ("q = Profiler(records=0)", "PROFILER_RANGE", "records is 0"),
        ("q = Profiler(records=n)", "PROFILER_TYPE", "records is i32"),
        ("q = Profiler(format='big')", "PROFILER_OPTION", "format is the str 'big'"),
        ("q = Profiler(overflow=1)", "PROFILER_OPTION", "overflow is the constant 1"),
        ("q = Profiler(blocks='all')", "PROFILER_TYPE", "blocks is the str 'all'"),
        ("q = Profiler(blocks=range(3, 3))", "PROFILER_RANGE", "holds no block"),
        ("q = Profiler(buffer=out)", "PROFILER_BUFFER", "the buffer is Tensor[f32"),
        ("if n > 0: q = Profiler()", "PROFILER_PLACE", "in a branch or a loop"),
        ("q = Profiler(('a', 'a'))", "PROFILER_EVENT", "the event 'a' stands in events twice"),
        ("q = Profiler(('a',) * 0); q.mark('a')", "PROFILER_EVENT", "events, which is empty"),
        ("q = Profiler(groups=('a', 'a'))", "PROFILER_GROUPS", "a name stands twice"),
        ("q = Profiler(buffer=rec)", "PROFILER_BUFFER_SHARED", "records into the same buffer"),
        ("q = Profiler(); q = Profiler()", "PROFILER_BUFFER_SHARED", "weft.profiler.capture"),
    ],
)
def test_what_can_be_known_at_compile_time_is_an_error_there(line, code, text):
    body = f"""
    p = Profiler(("a", "b"), ("g",), buffer=rec)
    p.init("g")
    {line}
    """
    with pytest.raises(weft.WeftError) as caught:
        run(body)
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.location is not None
