# SPDX-License-Identifier: Apache-2.0
"""Marks become the recorder's operations: where a thread leaves, facts for launches, and from a parsed text."""

from __future__ import annotations

import pytest

import weft
from weft.arguments.signature import infer_signature
from weft.compiler.module_text import module_text, parse_module
from weft.dialects.builder import source_location
from weft.dialects.flow import walk
from weft.errors import CompileError
from weft.frontend.source import read_source
from weft.frontend.trace import trace, trace_into
from weft.passes.expand_profiler_events import expand_profiler_events
from weft.profiler import Profiler

VECTOR = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def copy_kernel(a: weft.Tensor, out: weft.Tensor):
    p = Profiler(("all", "load"), groups=2)
    tid = weft.thread_idx.x
    p.init(tid // 16)
    p.start("all")
    if tid >= a.shape[0]:
        p.end("all")
        return
    for _ in range(8):
        with p.range("load", payload=7):
            out[tid] = a[tid]
    p.end("all")


@weft.jit
def copy(a: VECTOR, out: VECTOR, blocks: weft.i32):
    copy_kernel(a, out).launch(grid=blocks, block=32)


def traced():
    vector = weft.fake_tensor(weft.f32, ("n",))
    source = read_source(copy)
    return trace(source, infer_signature("copy", source.parameters, [vector, vector, 1])).module


def expanded(module):
    expand_profiler_events(module, trace_into)
    module.verify()
    return module


def named(module, name):
    return [op for op in walk(module) if op.name == name]


def test_an_early_return_ends_the_track():
    module = expanded(traced())
    # The header's end, here and at the end of the kernel.
    ends = [op for op in named(module, "simt.timer") if op.kind.data == "clock32"]
    (leaving,) = named(module, "simt.exit")
    assert [leaving.parent_op().is_ancestor(end) for end in ends] == [True, False]


def test_what_the_pass_leaves_has_no_profilers_and_no_marks():
    assert len(named(traced(), "simt.mark")) == 6
    module = expanded(traced())
    assert [op for op in walk(module) if op.name in ("simt.mark", "simt.track_profiler")] == []


def test_a_launch_passes_scratch_words_after_its_arguments():
    module = expanded(traced())
    (launch,), (kernel,) = named(module, "simt.launch_ex"), named(module, "simt.kernel")
    assert launch.record_words is not None
    assert kernel.profile_argument is kernel.body.block.args[-1]


def test_operations_have_the_location_of_their_event():
    places = [source_location(op.location) for op in walk(expanded(traced()))]
    assert {place.file for place in places if place is not None} == {__file__}


def test_what_marks_get_wrong_is_found_in_a_text_too():
    text = module_text(traced())
    assert 'simt.mark "start" %5 event 0' in text
    wrong = parse_module(text.replace('mark "start" %5 event 0', 'mark "instant" %5 event 0'))
    with pytest.raises(CompileError, match=r"end\(all\) stands in a kernel that has no start"):
        expanded(wrong)
