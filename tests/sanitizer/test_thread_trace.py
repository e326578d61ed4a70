# SPDX-License-Identifier: Apache-2.0
"""`weft.testing.trace_thread`: what one thread does, the same in every engine, as a person reads it."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.testing import in_order, trace_thread
from weft.testing.thread_trace import number_text


def mean(x, y):
    total = x + y
    return total / 2.0


@weft.kernel
def smooth_kernel(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    tile = weft.shared(64, weft.f32)
    tile[weft.thread_idx.x] = 0.5
    weft.sync_threads()
    if i + 1 < a.shape[0]:
        b[i] = mean(a[i], a[i + 1])
    total = weft.f32(0.0)
    for k in range(n):
        if k % 2 == 0:
            continue
        total += a[k]
    while total > 3.0:
        total -= tile[1]
    for _ in range(n - 20):
        total = 0.0
    weft.atomic_add(b, 0, total)


SMOOTH = """\
smooth_kernel: block (1, 0, 0) of (2, 1, 1), thread (2, 0, 0) of (64, 1, 1)
    0  smooth_kernel(a=Tensor[f32, (?,)], b=Tensor[f32, (?,)], n=5)   # test_thread_trace.py
    1      i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x  # i = 66
    2      tile = weft.shared(64, weft.f32)                           # tile = Tensor[f32, (64,)]
    3      tile[weft.thread_idx.x] = 0.5                              # tile[2] = 0.5
    4      weft.sync_threads()                                        # waited
    5      if i + 1 < a.shape[0]:                                     # true
    6          b[i] = mean(a[i], a[i + 1])                            # a[66] is 66.0, a[67] is 67.0
   -6      mean(x=66.0, y=67.0)                                       # test_thread_trace.py
   -5          total = x + y                                          # total = 133.0
   -4          return total / 2.0                                     # returns 66.5
    6          b[i] = mean(a[i], a[i + 1])                            # b[66] = 66.5
    7      total = weft.f32(0.0)                                      # total = 0.0
    8      for k in range(n):                                         # iteration 1: k = 0
    9          if k % 2 == 0:                                         # true
   10              continue
           ... 3 more iterations ...
    8      for k in range(n):                                         # iteration 5: k = 4
    9          if k % 2 == 0:                                         # true
   10              continue
   12      while total > 3.0:                                         # iteration 1
   13          total -= tile[1]                                       # tile[1] is 0.5, total = 3.5
   12      while total > 3.0:                                         # iteration 2
   13          total -= tile[1]                                       # tile[1] is 0.5, total = 3.0
   14      for _ in range(n - 20):                                    # no iteration
   16      weft.atomic_add(b, 0, total)                               # b[0] was 198.5"""


@pytest.fixture(scope="module")
def smooth():
    a, b = np.arange(100, dtype=np.float32), np.full(100, 8.0, np.float32)
    with in_order():
        by_coroutines = trace_thread(smooth_kernel[2, 64], (a, b, 5), block=1, thread=2, show=False)
    by_loops = trace_thread(smooth_kernel[2, 64], (a, b, 5), block=1, thread=2, show=False)
    assert (b == 8.0).all()  # it ran on copies
    return by_loops, by_coroutines


def relative(text):
    """The text with line numbers that begin at the kernel's."""
    title, *lines = text.splitlines()
    start = int(lines[0].split()[0])
    for number, line in enumerate(lines):
        word = line.split()[0]
        if word.isdigit():
            lines[number] = f"{int(word) - start:>5}" + line[5:]
    return "\n".join([title, *lines])


def test_it_prints_the_lines_with_what_happened_there(smooth):
    assert relative(smooth[0].text(iterations=1)) == SMOOTH


def test_loops_and_coroutines_tell_the_same(smooth):
    by_loops, by_coroutines = smooth
    assert str(by_loops) == str(by_coroutines)
    assert [event[2:] for event in by_loops] == [event[2:] for event in by_coroutines]


def test_events_have_kinds_names_indices_and_values(smooth):
    trace = smooth[0]
    (read, *_) = [event for event in trace if event.kind == "read"]
    assert (read.name, read.indices, read.values, read.shown) == ("a", (66,), (66.0,), "66.0")
    assert read.location.function == "smooth_kernel"
    (called,) = [event for event in trace if event.kind == "returned"]
    assert called.location.function == "mean"
    assert called.location.caller.function == "smooth_kernel"
    assert len(trace[:3]) == 3
    assert len(trace) == len(trace.launches[0].events)


@weft.kernel
def numbers_kernel(a: weft.Tensor, b: weft.Tensor):
    for i in weft.each(a.shape[0]):
        x = a[i]
        b[i] = x


@weft.jit
def copy_twice(a: weft.Tensor, b: weft.Tensor):
    numbers_kernel(a, b).launch(grid=1, block=2)
    numbers_kernel(b, a).launch(grid=1, block=4)


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        (np.uint8, 200, "200"),
        (np.int8, -3, "-3"),
        (np.uint64, (1 << 64) - 1, "18446744073709551615"),
        (np.int64, -(1 << 60), "-1152921504606846976"),
        (np.bool_, True, "true"),
        (np.float16, 0.1, "0.1"),
        (np.float64, 0.1, "0.1"),
        (np.float32, -np.inf, "-inf"),
    ],
)
def test_numbers_of_every_kind_are_reported_as_they_are(dtype, value, text):
    a = np.full(4, value, dtype)
    trace = trace_thread(copy_twice, (a, np.zeros_like(a)), thread=1, show=False)
    told = [event for event in trace.launches[0].events if event.kind in ("assigned", "written")]
    assert [event.shown for event in told if event.name != "i"] == [text, text] * 2
    assert told[1].values == (a[0].item(),)


def test_each_launch_is_named_and_says_whether_it_has_the_thread(capsys):
    trace = trace_thread(copy_twice, (np.ones(4, np.float32), np.ones(4, np.float32)), thread=2)
    assert [launch.has_thread for launch in trace.launches] == [False, True]
    text = capsys.readouterr().out
    assert text == f"{trace}\n"
    first, second = text.strip().split("\n\n")
    assert first.endswith("thread (2, 0, 0) of (2, 1, 1): there is no such thread")
    assert second.splitlines()[0].startswith(
        "numbers_kernel: block (0, 0, 0) of (1, 1, 1), thread (2,"
    )


@weft.kernel
def meet_kernel(a: weft.Tensor, flag: weft.Tensor):
    i = weft.thread_idx.x
    if i == 31:
        weft.atomic_exchange(flag, 0, 1)
    while flag[0] == 0:
        pass
    total = weft.warp.sum(a[i])
    assert total < 10, "too much"


def test_what_happened_before_a_failure_is_printed(capsys):
    a, flag = np.ones(32, np.int32), np.zeros(1, np.int32)
    with pytest.raises(AssertionError, match="too much"):
        trace_thread(meet_kernel[1, 32], (a, flag))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.lstrip().partition(" ")[2].strip() == 'assert total < 10, "too much"'


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (
            {"thread": 64},
            r"no launch has block \(0, 0, 0\) with thread \(64, 0, 0\): smooth_kernel has \(2, 1, 1\)",
        ),
        ({"block": (0, 1)}, r"no launch has block \(0, 1, 0\)"),
        ({"thread": -1}, "thread is x, or a tuple of x, y and z, from 0 up; received -1"),
        ({"block": (0, 0, 0, 0)}, "block is x, or a tuple"),
        ({"block": "0"}, "block is x, or a tuple"),
        ({"block": ()}, "block is x, or a tuple"),
    ],
)
def test_a_thread_that_does_not_exist_is_refused(places, message):
    a = np.ones(100, np.float32)
    with pytest.raises(weft.OptionError, match=message):
        trace_thread(smooth_kernel[2, 64], (a, a.copy(), 5), **places, show=False)


def test_a_function_that_launches_nothing_is_refused():
    with pytest.raises(weft.OptionError, match="launched no kernel"):
        trace_thread(lambda: None)
    a = np.ones(4, np.float32)
    compiled = weft.compile(copy_twice, a, a)
    with pytest.raises(weft.OptionError, match=r"weft\.compile made its result before"):
        trace_thread(compiled, (a, a.copy()))


def test_a_trace_inside_of_a_trace_is_refused():
    def inner(a):
        trace_thread(smooth_kernel[2, 64], (a, a.copy(), 5), show=False)

    with pytest.raises(weft.OptionError, match="called by the function that it traces"):
        trace_thread(inner, (np.ones(100, np.float32),))
    trace = trace_thread(
        smooth_kernel[2, 64],
        (np.ones(9, np.float32), np.ones(9, np.float32), 5),
        thread=np.int64(3),
        show=False,
    )
    assert trace.thread == (3, 0, 0)


class OnGpu:
    def __dlpack__(self, **_):
        raise AssertionError

    def __dlpack_device__(self):
        return 2, 0


def test_arrays_on_a_gpu_are_refused():
    with pytest.raises(weft.UnavailableError, match="received the OnGpu in a GPU's memory"):
        trace_thread(lambda x: None, (OnGpu(),))


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (1e30, "f32", "1e+30"),
        (3.140625, "bf16", "3.14"),
        (448.0, "f8e4m3", "448.0"),
        (7, "u8", "7"),
    ],
)
def test_numbers_are_written_with_few_digits(number, kind, text):
    assert number_text(number, kind) == text


class Box:
    def __init__(self, value):
        self.value = value


@weft.kernel
def state_kernel(a: weft.Tensor):
    first = a[0]
    box, table = Box(2), {"x": (1, first)}
    box.value += 1
    items = ["{}"]
    items[0] = first
    if first < 0: return  # noqa: E701  # fmt: skip
    a[1] = box.value * table["x"][0]


def test_objects_lists_and_dicts_are_reported_too():
    trace = trace_thread(state_kernel[1, 1], (np.full(2, 0.5, np.float32),), show=False)
    assert [(event.name, event.shown) for event in trace if event.kind == "assigned"] == [
        ("first", "0.5"),
        ("box", "a Box"),
        ("table", "{'x': (1, 0.5)}"),
        ("box.value", "3"),
        ("items", "['{}']"),
        ("items[0]", "0.5"),
    ]
    assert str(trace).count("return") == 1
