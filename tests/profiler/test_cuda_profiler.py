# SPDX-License-Identifier: Apache-2.0
"""`CudaProfiler` on real runs: the page's kernels, what is checked that the original does not, and no trace of it
where it is off."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import define
from tests.conformance.test_cuda import why_no_cuda
from tests.profiler import seed_kernels as seed
from weft.profiler import decode_tirx
from weft.types import record_format as wire

FOUR_THOUSAND = np.float32(0)
for _ in range(4000):
    FOUR_THOUSAND = np.float32(np.float32(FOUR_THOUSAND * np.float32(1.0001)) + np.float32(1))


def test_the_pages_loop_reads_the_first_kernel():
    out, prof = seed.run(seed.one_group, 512)
    spans = seed.page_spans(prof)
    assert sorted(spans) == [0, 1, 2, 3]
    for found in spans.values():
        assert [name for name, _ in found] == seed.EV_NAMES
        assert found[1][1] > 1000
        assert found[1][1] == max(duration for _, duration in found)
    np.testing.assert_allclose(out, FOUR_THOUSAND, rtol=1e-4)


def test_the_pages_loop_reads_groups_that_are_warp_groups():
    _, prof = seed.run(seed.warp_groups, 512)
    tracks = seed.page_spans(prof)
    assert sorted(tracks) == [0, 1, 2, 3]
    for block in (0, 1):
        light, heavy = (dict(tracks[2 * block + group])["compute"] for group in (0, 1))
        assert heavy > 2 * light


def test_the_pages_loop_reads_groups_that_are_not_warps():
    _, prof = seed.run(seed.uneven_groups, 128)
    tracks = seed.page_spans(prof)
    assert sorted(tracks) == [0, 1, 2]
    assert all([name for name, _ in found] == seed.EV_NAMES for found in tracks.values())


def test_the_words_are_those_of_the_format():
    _, prof = seed.run(seed.one_group, 512)
    assert int(prof[0]) == 1 << 32 | 4
    tags = (prof[1:29] & 0xFFFFFFFF).reshape(7, 4)
    expected = [0 << 2, 0 << 2 | 1, 1 << 2, 1 << 2 | 1, 2 << 2, 2 << 2 | 1, 3]
    for track in range(4):
        assert tags[:, track].tolist() == [track << 12 | bits for bits in expected]
    assert not prof[29:].any()


def test_the_decoder_agrees_with_the_pages_loop():
    _, prof = seed.run(seed.warp_groups, 512)
    recording = decode_tirx(prof, seed.EV_NAMES)
    assert recording.problems == []
    from weft.profiler.records import find_spans

    found: dict[int, list[tuple[str, int]]] = {}
    for span in find_spans(recording):
        track = recording.tracks[span["track"]]
        name = recording.event_name(int(span["event"]))
        key = int(track["block"]) * 2 + int(track["group"])
        found.setdefault(key, []).append((name, int(span["end"] - span["begin"])))
    assert found == seed.page_spans(prof)


def test_fences_change_no_record():
    _, prof = seed.run(seed.one_group, 512, fence=True)
    assert decode_tirx(prof).problems == []
    assert len(np.flatnonzero(prof)) == 29


# ---- off


def fakes(*dtypes):
    return [weft.fake_tensor(dtype, (512,)) for dtype in dtypes]


@pytest.mark.skipif(bool(why_no_cuda()), reason=why_no_cuda() or "cuda")
def test_a_disabled_profiler_leaves_nothing_in_ptx_and_sass():
    options = "--gpu-arch sm_90a"
    off = weft.compile(
        seed.one_group, *fakes(weft.f32, weft.f32, weft.u64), enabled=False, options=options
    )
    bare = weft.compile(seed.unmarked, *fakes(weft.f32, weft.f32), options=options)

    def same(text: str) -> str:
        lines = [line.split("//")[0].rstrip() for line in text.splitlines()]
        body = "\n".join(line for line in lines if line and not line.strip().startswith(".loc"))
        return body.replace("one_group_kernel", "kernel").replace("unmarked_kernel", "kernel")

    assert same(off.ptx) == same(bare.ptx)
    assert same(off.sass) == same(bare.sass)
    assert "globaltimer" not in off.ptx
    on = weft.compile(seed.one_group, *fakes(weft.f32, weft.f32, weft.u64), options=options)
    assert on.ptx.count("%globaltimer") == 7
    assert "membar" not in on.ptx and "fence" not in on.ptx


@pytest.mark.skipif(bool(why_no_cuda()), reason=why_no_cuda() or "cuda")
def test_fences_are_those_of_the_original():
    fenced = weft.compile(
        seed.one_group,
        *fakes(weft.f32, weft.f32, weft.u64),
        fence=True,
        options="--gpu-arch sm_90a",
    )
    assert fenced.sass.count("MEMBAR") == 7


def test_a_disabled_profiler_records_nothing():
    _, prof = seed.run(seed.one_group, 512, enabled=False)
    assert not prof.any()


HOST = """
import weft
from weft.profiler import CudaProfiler

@weft.kernel
def kernel(prof: weft.Tensor, n: weft.i32, on: weft.bool_):
    tid = weft.thread_idx.x
{body}

@weft.jit
def host(prof: weft.Tensor, n: weft.i32 = 0, on: weft.bool_ = True):
    kernel(prof, n, on).launch(grid={grid}, block={block})
"""


def recorded(
    body: str, words: int = 64, *, grid=1, block=32, n=0, on=True, before=None
) -> np.ndarray:
    import textwrap

    source = HOST.format(
        body=textwrap.indent(textwrap.dedent(body), "    "), grid=grid, block=block
    )
    guarded = np.zeros(words + 64, np.uint64)
    guarded[words:] = 0xDEAD
    if before is not None:
        guarded[:words] = before
    define(source)["host"](guarded[:words], n, on)
    assert (guarded[words:] == 0xDEAD).all(), "a record was written outside the buffer"
    return guarded[:words]


def test_a_staged_switch_is_a_branch_at_run_time():
    body = """
    p = CudaProfiler(prof, 1, 1, default_leader=tid == 0, profiler_enabled=on)
    p.init(0)
    p.start(3)
    p.end(3)
    """
    assert len(np.flatnonzero(recorded(body))) == 3
    assert not recorded(body, on=False).any()


LOOP = """
p = CudaProfiler(prof, weft.grid_dim.x, 1, default_leader=tid == 0)
p.init(0)
for i in range(n):
    p.start(1)
    p.end(1)
p.finalize()
"""


@pytest.mark.parametrize("words", [1, 2, 3, 7, 19, 20, 61])
def test_records_that_do_not_fit_are_dropped_and_reported(words):
    prof = recorded(LOOP, words, grid=2, n=10)
    recording = decode_tirx(prof)
    complete = 1 + 2 * 21
    if words >= complete:
        assert recording.problems == []
        assert len(recording.records) == 42
    else:
        assert recording.problems
        assert len(recording.records) == (words - 1 if words > 2 else 0)


def test_a_cursor_never_wraps_back_into_the_buffer():
    body = LOOP.replace("weft.grid_dim.x, 1", "(1 << 31) - 1, 1")
    prof = recorded(body, 8, n=10)
    assert np.flatnonzero(prof).tolist() == [0, 1]


def test_a_stride_below_the_track_count_is_refused():
    prof = recorded(LOOP.replace("weft.grid_dim.x, 1", "2, 1"), grid="n + 1", n=2)
    recording = decode_tirx(prof)
    assert len(recording.records) == 0
    assert any("write_stride is smaller" in problem for problem in recording.problems)


def test_a_group_beyond_num_groups_is_refused_at_run_time():
    body = """
    p = CudaProfiler(prof, 2, 2, default_leader=tid == 0)
    p.init(n)
    p.start(1)
    p.end(1)
    p.finalize()
    """
    assert decode_tirx(recorded(body, n=1)).tracks["group"].tolist() == [1]
    refused = decode_tirx(recorded(body, n=2))
    assert len(refused.records) == 0
    assert any("group_id outside" in problem for problem in refused.problems)


def test_more_tracks_than_the_format_has_are_refused_at_run_time():
    body = """
    p = CudaProfiler(prof, 1 << 21, 1 << 20, default_leader=tid == 0)
    p.init(0)
    p.start(1)
    """
    prof = recorded(body, grid="n", block=1, n=2)
    assert np.flatnonzero(prof).tolist() == [0]
    assert int(prof[0]) >> wire.TIRX_REFUSAL_SHIFT == wire.REFUSED_TRACKS


def test_a_second_leader_of_a_track_is_reported():
    # Both leaders write the same words, which a decoder cannot tell from one who does.
    prof = recorded(LOOP.replace("default_leader=tid == 0", "default_leader=tid < 2"), grid=2, n=3)
    assert any("two leaders" in problem for problem in decode_tirx(prof).problems)
    assert len(decode_tirx(prof).records) == 2 * 7


PER_CALL = """
p = CudaProfiler(prof, weft.grid_dim.x, 1)
p.init(0)
for i in range(n):
    p.start(1, leader={leader})
    {wait}
    p.end(1, leader={leader})
"""


@pytest.mark.parametrize("wait", ["pass", "weft.sync_threads()"])
@pytest.mark.parametrize("leader", ["True", "tid < 2"])
def test_a_second_leader_that_only_calls_name_is_reported(leader, wait):
    body = PER_CALL.format(leader=leader, wait=wait)
    prof = recorded(f"{body}p.finalize(leader={leader})", grid=2, n=3)
    recording = decode_tirx(prof)
    assert any("two leaders" in problem for problem in recording.problems)
    assert len(recording.records) == 2 * 7


def test_one_leader_that_calls_name_leaves_no_problem():
    body = PER_CALL.format(leader="tid == 5", wait="weft.sync_threads()")
    recording = decode_tirx(recorded(f"{body}p.finalize(leader=tid == 5)", grid=2, n=3))
    assert recording.problems == []
    assert recording.records["kind"].tolist() == [0, 1, 0, 1, 0, 1, 3] * 2


def test_leftover_records_are_reported():
    body = PER_CALL.format(leader="tid == 0", wait="pass")
    first = recorded(body, n=5)
    problems = decode_tirx(recorded(body, n=2, before=first)).problems
    assert any("was not zeroed" in problem for problem in problems)


def test_a_second_init_of_a_leader_is_reported():
    prof = recorded(LOOP.replace("p.init(0)", "p.init(0)\np.init(0)"), n=3)
    assert any("called init() twice" in problem for problem in decode_tirx(prof).problems)


def test_a_buffer_that_was_not_zeroed_is_reported():
    first = recorded(LOOP, n=3)
    assert decode_tirx(first).problems == []
    again = decode_tirx(recorded(LOOP, n=3, before=first))
    assert any("was not zeroed" in problem for problem in again.problems)
    assert len(again.records) == 7


def test_no_header_hides_that_a_later_block_was_refused():
    body = """
    p = CudaProfiler(prof, 8, 2, default_leader=tid == 0)
    p.init(weft.block_idx.x * 2)
    p.finalize()
    """
    for _ in range(5):
        problems = decode_tirx(recorded(body, grid=4)).problems
        assert any("group_id outside" in problem for problem in problems)


def test_a_track_without_records_holds_a_finalize():
    prof = recorded("p = CudaProfiler(prof, 1, 1, default_leader=tid == 0)\np.init(0)")
    assert prof[:3].tolist() == [1 << 32 | 1, wire.FINALIZE, 0]
    assert decode_tirx(prof).problems == []


def test_instants_decode():
    body = """
    p = CudaProfiler(prof, 1, 1, default_leader=tid == 0)
    p.init(0)
    p.mark(1023)
    p.finalize()
    """
    records = decode_tirx(recorded(body)).records
    assert records["kind"].tolist() == [wire.INSTANT, wire.FINALIZE]
    assert records["event"].tolist() == [1023, 0]


def test_a_leader_can_be_given_per_call():
    body = """
    p = CudaProfiler(prof, 1, 1)
    p.init(0)
    p.start(1, leader=tid == 5)
    p.end(1, leader=tid == 5)
    """
    assert len(np.flatnonzero(recorded(body))) == 3


def test_a_range_ends_whichever_way_it_is_left():
    body = """
    p = CudaProfiler(prof, 1, 1, default_leader=tid == 0)
    p.init(0)
    with p.range(1):
        if n > 3:
            return
        p.mark(2)
    p.finalize()
    """
    assert decode_tirx(recorded(body, n=1)).records["kind"].tolist() == [0, 2, 1, 3]
    assert decode_tirx(recorded(body, n=5)).records["kind"].tolist() == [0, 1]


def test_a_helper_takes_a_profiler():
    body = """
    def region(profiler, event):
        profiler.start(event)
        profiler.end(event)

    p = CudaProfiler(prof, 1, 1, default_leader=tid == 0)
    p.init(0)
    region(p, 4)
    """
    assert decode_tirx(recorded(body)).records["event"].tolist() == [4, 4]


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("p.start(1024)", "PROFILER_RANGE", "the event is 1024; expected a number from 0 to 1023"),
        ("p.start(-1)", "PROFILER_RANGE", "the event is -1"),
        ("p.start('load')", "PROFILER_EVENT", "the event is the str 'load'"),
        ("p.start(n)", "PROFILER_EVENT", "the event is i32"),
        ("p.end(1)", "PROFILER_PAIR", "end(event 1) stands in a kernel that has no start of it"),
        ("p.init(2)", "PROFILER_RANGE", "init: group_id is 2; expected 0 to 1, as num_groups is 2"),
        ("p.init(0.5)", "PROFILER_TYPE", "group_id is the constant 0.5"),
        ("p.begin(1)", "UNKNOWN_ATTRIBUTE", "CudaProfiler has no method 'begin'"),
        ("q = CudaProfiler(prof, 1, 2)", "PROFILER_STRIDE", "write_stride is 1, and each block"),
        ("q = CudaProfiler(prof, 0, 1)", "PROFILER_RANGE", "write_stride is 0"),
        ("q = CudaProfiler(prof, 1.5, 1)", "PROFILER_TYPE", "write_stride is the constant 1.5"),
        ("q = CudaProfiler(prof, 1 << 21, 1 << 21)", "PROFILER_RANGE", "num_groups is 2097152"),
        ("q = CudaProfiler(n, 1, 1)", "PROFILER_BUFFER", "the buffer is i32"),
        ("q = CudaProfiler(prof, 1, 1); q.start(1)", "PROFILER_LEADER", "no thread is named"),
        (
            "q = CudaProfiler(prof, 1, 1, tid == 0); q.start(1)",
            "PROFILER_INIT",
            "never calls its init()",
        ),
        ("if n > 0: q = CudaProfiler(prof, 1, 1)", "PROFILER_PLACE", "in a branch or a loop"),
    ],
)
def test_what_can_be_known_at_compile_time_is_an_error_there(line, code, text):
    body = f"""
    p = CudaProfiler(prof, 8, 2, default_leader=tid == 0)
    p.init(0)
    {line}
    """
    with pytest.raises(weft.WeftError) as caught:
        recorded(body)
    assert caught.value.code == code
    assert text in caught.value.message
    assert caught.value.location is not None


def test_a_buffer_of_a_fixed_size_that_holds_no_track_is_an_error():
    source = HOST.format(body="    p = CudaProfiler(prof, 8, 8, tid == 0)", grid=1, block=32)
    host = define(source)["host"]
    with pytest.raises(weft.ValueRangeError, match="'prof' has 8 words; 8 groups need 9"):
        weft.compile(host, weft.fake_tensor(weft.u64, (8,)))


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (
            "CudaProfiler(prof, 2, 1)",
            "PROFILER_STRIDE",
            "write_stride is 2, and this launch has 4 x 1 = 4",
        ),
        ("CudaProfiler(prof, n, 1 << 20)", "PROFILER_RANGE", "4 x 1048576 = 4194304 tracks"),
        (
            "CudaProfiler(prof, 16, 2)",
            "PROFILER_BUFFER",
            "'prof' has 8 words, and this launch has 4 x 2 = 8",
        ),
    ],
)
def test_a_constant_grid_too_large_is_an_error_at_the_launch(body, code, text):
    source = HOST.format(body=f"    p = {body}\n    p.init(0)", grid=4, block=32)
    with pytest.raises(weft.ValueRangeError) as caught:
        weft.compile(
            define(source)["host"], weft.fake_tensor(weft.u64, (8 if "BUFFER" in code else "n",))
        )
    assert caught.value.code == code
    assert text in caught.value.message
    assert "launch" in source.splitlines()[caught.value.location.line - 1]


def test_a_buffer_too_small_for_its_records_is_named():
    problems = decode_tirx(recorded(LOOP, 3, grid=2, n=10)).problems
    assert problems == [
        "track b0/g0, b1/g0 has no finalize, or the buffer (3 words) is too small",
        "2 starts have no end, the first of event 1 in track b0/g0",
    ]


def test_outside_a_kernel_the_name_says_so():
    with pytest.raises(
        weft.UnavailableError, match=r"weft\.profiler\.CudaProfiler\(\.\.\.\) works only"
    ):
        weft.profiler.CudaProfiler(None, 1, 1)
