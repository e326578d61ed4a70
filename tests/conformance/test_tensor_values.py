# SPDX-License-Identifier: Apache-2.0
"""Variables that hold one of several tensors: Python and NumPy say what each must be.

In: functions of two tensors and an integer, which swap, choose, narrow and return them. Out: the elements that the same
functions leave in NumPy's arrays; for each element type, address space, layout class, and way of a kernel to run.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import EXPORTED_TYPES, NUMPY_TYPES, Exported, define
from tests.sampling import sampled
from weft.types.dtype import DTYPES

COUNTS = range(5)


def swap_in_for(a, b, n):
    for _ in range(n):
        b[0] = a[1]
        a, b = b, a
    a[2] = b[3]


def swap_in_while(a, b, n):
    k = 0
    source, target = a, b
    while k < n:
        target[k % 3 + 1] = source[k % 3]
        source, target = target, source
        k += 1
    target[0] = source[2]


def rotate_three(a, b, n):
    x, y, z = a, b, a
    for k in range(n):
        x[k % 4] = y[(k + 1) % 4]
        x, y, z = y, z, x
    x[0] = z[1]


def choose_by_expression(a, b, n):
    source = b if n & 1 else a
    target = a if source.shape[0] == 4 and n & 1 else b
    target[0] = source[3]


def choose_by_statement(a, b, n):
    if n > 2:
        source, target = a, b
    elif n > 1:
        source, target = b, a
    else:
        source = target = a
    target[1] = source[2]


def assign_on_one_side(a, b, n):
    target = a
    if n == 3:
        target = b
    target[n % 4] = a[3]


def first_of(a, b, n):
    if n & 1:
        return a
    return b


def return_of_a_helper(a, b, n):
    first_of(a, b, n)[0] = first_of(b, a, n)[1]
    first_of(a[1:], b[2:], n)[0] = a[3]


def found_in_a_loop(a, b, n):
    for k in range(4):
        if k == n:
            return a
        if k > n:
            return b[1:]
    return b


def return_from_a_loop(a, b, n):
    part = found_in_a_loop(a, b, n - 1)
    part[part.shape[0] - 1] = a[0]


def breaks_and_continues(a, b, n):
    for k in range(6):
        a, b = b, a
        if k == n:
            continue
        if k == n + 2:
            break
        b[k % 4] = a[(k + 1) % 4]
    a[0] = b[1]


def assigned_before_a_break(a, b, n):
    for k in range(4):
        part = a[k % 3 :]
        if k == n:
            break
    else:
        part = b
    part[0] = a[3]


def nested_loops(a, b, n):
    for k in range(n):
        for j in range(k):
            a[j % 4] = b[(j + k) % 4]
            a, b = b, a
        b, a = a, b
    a[1] = b[2]


def deeply_nested_loops(a, b, n):
    for k in range(n):
        for j in range(2):
            for i in range(2):
                for h in range(2):
                    a[(h + i) % 4] = b[(j + k) % 4]
                    a, b = b, a
    a[1] = b[2]


def shrinking_view(a, b, n):
    part = a
    while part.shape[0] > 1 and part.shape[0] > n:
        part[0] = b[part.shape[0] - 1]
        part = part[1:]
    part[0] = b[0]


def views_that_swap(a, b, n):
    x, y = a[1:], b[:3]
    for _ in range(n):
        x[0] = y[2]
        x, y = y, x[0:3]
    x[1] = y[0]


def strided_views(a, b, n):
    x, y = a[::2], b[::-1]
    for _ in range(n):
        x[0] = y[1]
        x, y = y, x
    x[1] = y[0]


def pairs(a, b, n):
    pair = (a, b)
    for k in range(n):
        pair[0][k % 4] = pair[1][(k + 2) % 4]
        pair = (pair[1], pair[0])
    pair[0][0] = pair[1][1]


def dicts(a, b, n):
    buffers = {"from": a, "to": b}
    for k in range(n):
        buffers["to"][k % 4] = buffers["from"][(k + 2) % 4]
        buffers = {"from": buffers["to"], "to": buffers["from"]}
    buffers["to"][0] = buffers["from"][1]


def closures(a, b, n):
    source = a if n > 1 else b

    def read(i):
        return source[i]

    for k in range(n):
        b[k % 4] = read((k + 1) % 4)
        source = b


def walrus_in_a_condition(a, b, n):
    k = 0
    while (part := a if k & 1 else b[1:]).shape[0] + n > k + 2:
        part[0] = a[k % 3 + 1]
        k += 1
    part[1] = b[2]


def short_circuit_of_conditions(a, b, n):
    if n > 1 and (part := a[1:] if n > 2 else b).shape[0] == 3:
        part[0] = b[3]


def same_tensor_twice(a, b, n):
    x, y = a, a
    for _ in range(n):
        x[0] = b[1]
        x, y = y, x
    y[1] = x[0]


def matched(a, b, n):
    match n:
        case 0:
            part = a
        case 1 | 2:
            part = b
        case _:
            part = a[1:]
    part[part.shape[0] - 1] = a[1]


def unrolled(a, b, n):
    for k in (0, 1, 2):
        if k < n:
            a, b = b, a
        a[k] = b[k + 1]


def conditional_in_a_loop(a, b, n):
    for k in range(4):
        x = a if k < n else b
        y = b if k < n else a
        x[k] = y[3 - k]


FUNCTIONS = [
    *(swap_in_for, swap_in_while, rotate_three, choose_by_expression, choose_by_statement),
    *(assign_on_one_side, return_of_a_helper, return_from_a_loop, breaks_and_continues),
    *(assigned_before_a_break, nested_loops, deeply_nested_loops, shrinking_view, views_that_swap),
    *(strided_views, pairs, dicts, closures, walrus_in_a_condition, short_circuit_of_conditions),
    *(same_tensor_twice, matched, unrolled, conditional_in_a_loop),
]
FROM_ARGUMENTS = "function(a[:4], b[:4], n)"
SPACES = {
    "global": FROM_ARGUMENTS,
    "static dims": "function(a[0:4], b[0:4], n)",
    "shared": """\
        x, y = weft.shared(4, a.dtype), weft.shared(4, a.dtype)
        for i in range(4):
            x[i] = a[i]
            y[i] = b[i]
        weft.sync_threads()
        function(x, y, n)
        weft.sync_threads()
        for i in range(4):
            a[i] = x[i]
            b[i] = y[i]""",
    "shared without barriers": """\
        xy = weft.shared((2, 4), a.dtype)
        for i in range(4):
            xy[0, i] = a[i]
            xy[1, i] = b[i]
        function(xy[0], xy[1], n)
        for i in range(4):
            a[i] = xy[0, i]
            b[i] = xy[1, i]""",
    "dynamic shared": """\
        x = weft.dynamic_shared(n - n + 4, a.dtype)
        y = weft.dynamic_shared(n - n + 4, a.dtype, 64)
        for i in range(4):
            x[i] = a[i]
            y[i] = b[i]
        function(x, y, n)
        for i in range(4):
            a[i] = x[i]
            b[i] = y[i]""",
    "local": """\
        x, y = weft.local(4, a.dtype), weft.local(4, a.dtype)
        for i in range(4):
            x[i] = a[i]
            y[i] = b[i]
        function(x, y, n)
        for i in range(4):
            a[i] = x[i]
            b[i] = y[i]""",
    "scratch": """\
        x, y = weft.global_scratch(4, a.dtype), weft.global_scratch(4, a.dtype)
        for i in range(4):
            x[i] = a[i]
            y[i] = b[i]
        function(x, y, n)
        for i in range(4):
            a[i] = x[i]
            b[i] = y[i]""",
}
KERNEL = """
@weft.kernel
def kernel(a, b, n: weft.i32):
    if weft.thread_idx.x == 0:
        {body}

@weft.jit
def host(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
    kernel(a, b, n).launch(grid=1, block=32, shared_memory_bytes=128)
"""


def numbers(dtype, start):
    """Four elements, distinct as far as the type allows."""
    return (np.arange(start, start + 4) % (2 if dtype is weft.bool_ else 9)).astype(
        NUMPY_TYPES[dtype]
    )


def check(host, function, dtype=weft.i32, layout=np.copy):
    """Compares two tensors after the function in a kernel with those after it in Python."""
    for n in COUNTS:
        expected = [layout(numbers(dtype, start)) for start in (1, 5)]
        found = [layout(numbers(dtype, start)) for start in (1, 5)]
        function(*expected, n)
        host(*(Exported(x) if x.dtype in EXPORTED_TYPES else x for x in found), n)
        assert [x.tobytes() for x in found] == [x.tobytes() for x in expected], n


def host_of(function, body=FROM_ARGUMENTS):
    return define(KERNEL.format(body=body.strip()), function=function)["host"]


OFTEN = (swap_in_for, choose_by_statement, return_from_a_loop, deeply_nested_loops, strided_views)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_variable_is_the_tensor_that_it_is_in_python(function):
    check(host_of(function), function)


@pytest.mark.parametrize("function", sampled(OFTEN, 6), ids=lambda f: f.__name__)
@pytest.mark.parametrize("space", SPACES)
def test_tensors_of_each_address_space_are_values(function, space):
    check(host_of(function, SPACES[space]), function)


@pytest.mark.parametrize("dtype", sampled(DTYPES, 3), ids=str)
@pytest.mark.parametrize(
    "function", [swap_in_while, choose_by_expression], ids=lambda f: f.__name__
)
def test_tensors_of_each_element_type_are_values(function, dtype):
    check(host_of(function), function, dtype)


def every_other(array):
    """The same elements, two apart."""
    wide = np.zeros(8, array.dtype)
    wide[::2] = array
    return wide[::2]


@pytest.mark.parametrize("function", sampled(FUNCTIONS, 3), ids=lambda f: f.__name__)
def test_strided_tensors_are_values(function):
    if function is not strided_views:
        check(host_of(function, "function(a, b, n)"), function, layout=every_other)


@pytest.mark.parametrize("function", OFTEN, ids=lambda f: f.__name__)
def test_they_are_in_a_kernel_whose_threads_wait_for_each_other(function):
    body = f"{FROM_ARGUMENTS}\n    weft.sync_threads()"
    check(host_of(function, body), function)


@pytest.mark.parametrize("function", sampled(FUNCTIONS, 3), ids=lambda f: f.__name__)
def test_tensors_that_overlap_are_values(function):
    host = host_of(function)
    for n in COUNTS:
        expected, found = (np.arange(6, dtype=np.int32) for _ in range(2))
        function(expected[:4], expected[2:], n)
        host(found[:4], found[2:], n)
        assert found.tolist() == expected.tolist()


@weft.kernel
def many_threads_kernel(a, b, n: weft.i32):
    i = weft.block_idx.x * 32 + weft.thread_idx.x
    target = a if n & 1 else b
    if i < target.shape[0]:
        target[i] = i


@weft.jit
def many_threads(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
    many_threads_kernel(a, b, n).launch(grid=4, block=32)


@pytest.mark.parametrize("n", [0, 1])
def test_the_size_of_a_chosen_tensor_guards_the_threads(n):
    a, b = np.zeros(100, np.int32), np.zeros(70, np.int32)
    many_threads(a, b, n)
    chosen, other = (a, b) if n else (b, a)
    assert chosen.tolist() == list(range(len(chosen)))
    assert not other.any()


@weft.kernel
def stride_guard_kernel(a, b, n: weft.i32):
    i = weft.thread_idx.x
    if i < a[:, 1].strides[0]:
        b[i] = 1


@weft.jit
def stride_guard(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
    stride_guard_kernel(a, b, n).launch(grid=1, block=32)


def test_the_stride_of_a_view_guards_the_threads():
    b = np.zeros(32, np.int32)
    stride_guard(np.zeros((3, 5), np.int32), b, 0)
    assert b.tolist() == [1] * 5 + [0] * 27


@weft.kernel
def step_kernel(source, target):
    i = weft.block_idx.x * 32 + weft.thread_idx.x
    if i < target.shape[0] and i < source.shape[0]:
        target[i] = source[i] * 2 + 1


@weft.jit
def step_and_swap(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
    for _ in range(n):
        step_kernel(a, b).launch(grid=weft.ceil_div(b.shape[0], 32), block=32)
        a, b = b, a


@weft.jit
def step_between_chosen(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
    source, target = (a, b) if n & 1 else (b, a)
    if n > 2:
        source = source[2:]
        target = target[1:]
    step_kernel(source, target).launch(grid=2, block=32)


@weft.jit
def step_while(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
    left, k = a[1:], 0
    while left.shape[0] > n:
        step_kernel(left, b).launch(grid=2, block=32)
        left = left[2:]
        k += 1
        if k == 3:
            break


@weft.jit
def step_through_scratch(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
    source, target = a[:40], weft.scratch(40, weft.i64)
    for k in range(n):
        step_kernel(source, target).launch(grid=2, block=32)
        source, target = target, source if k else weft.scratch(40, weft.i64)
    step_kernel(source, b).launch(grid=2, block=32)


def step(source, target):
    for i in range(min(len(source), len(target))):
        target[i] = source[i] * 2 + 1


def python_step_and_swap(a, b, n):
    for _ in range(n):
        step(a, b)
        a, b = b, a


def python_step_between_chosen(a, b, n):
    source, target = (a, b) if n & 1 else (b, a)
    if n > 2:
        source, target = source[2:], target[1:]
    step(source, target)


def python_step_while(a, b, n):
    left, k = a[1:], 0
    while len(left) > n:
        step(left, b)
        left, k = left[2:], k + 1
        if k == 3:
            break


WAYS = {
    "direct": lambda f, *a: f(*a),
    "compiled": lambda f, *a: weft.compile(f, *a)(*a),
    "context": lambda f, *a: weft.compile(f, *a, options="--executor context")(*a),
    "tvm-ffi": lambda f, *a: weft.compile(f, *a, options="--enable-tvm-ffi")(*a),
}


def python_step_through_scratch(a, b, n):
    source, target = a, np.zeros(40, np.int64)
    for k in range(n):
        step(source, target)
        source, target = target, source if k else np.zeros(40, np.int64)
    step(source, b)


PYTHON = {
    step_through_scratch: python_step_through_scratch,
    step_and_swap: python_step_and_swap,
    step_between_chosen: python_step_between_chosen,
    step_while: python_step_while,
}


# Scratch memory is contiguous.
HOSTS = [(host, apart) for host in PYTHON for apart in (1, 2)]
HOSTS.remove((step_through_scratch, 2))


@pytest.mark.parametrize(
    ("host", "apart", "way"),
    sampled([(*host, way) for host in HOSTS for way in WAYS], 6, several=True),
)
def test_a_host_function_launches_with_a_variables_tensor(host, apart, way):
    for n in range(5):
        expected, found = ([np.arange(40 * apart)[::apart] for _ in range(2)] for _ in range(2))
        PYTHON[host](*expected, n)
        WAYS[way](host, *found, n)
        assert [x.tolist() for x in found] == [x.tolist() for x in expected]


@weft.jit
def static_and_dynamic(
    a: weft.Tensor[weft.f32, (8,)],
    b: weft.Tensor[weft.f32, (weft.sym("n", width=64),)],
    n: weft.i32,
):
    for _ in range(n):
        step_kernel(a, b).launch(grid=1, block=32)
        a, b = b, a
    if n & 1:
        a, b = b, a
    chosen_by_kernel(a, b, n).launch(grid=1, block=32)


@weft.kernel
def chosen_by_kernel(a, b, n: weft.i32):
    part = a
    for k in range(n):
        part = b if k & 1 else a[: 8 - k]
    part[part.shape[0] - 1] = 100.0


def test_dims_known_at_compile_time_meet_others_of_either_width():
    for n in range(4):
        a, b = np.arange(8, dtype=np.float32), np.arange(8, 16, dtype=np.float32)
        expected = [a.copy(), b.copy()]
        python_step_and_swap(*expected, n)
        last = [expected[0], expected[0], expected[1], expected[0][:6]][n]
        last[-1] = 100
        static_and_dynamic(a, b, n)
        assert [a.tolist(), b.tolist()] == [x.tolist() for x in expected]


@weft.kernel
def long_loop_kernel(a, b, n: weft.i32):
    for _ in range(n):
        b[0] = a[0] + 1
        a, b = b, a


@weft.jit
def long_loop(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
    long_loop_kernel(a, b, n).launch(grid=1, block=1)


def test_a_loop_that_is_cut_into_strips_carries_tensors():
    a, b = np.zeros(1, np.int32), np.zeros(1, np.int32)
    long_loop(a, b, 1_000_001)
    assert (a[0], b[0]) == (1_000_000, 1_000_001)


@weft.kernel
def pointers_kernel(p: weft.Pointer[weft.i32], q: weft.Pointer[weft.i32], n: weft.i32):
    for k in range(n):
        p[0] = q[k & 1]
        p, q = q, p
    r = p if n > 2 else q[1:]
    while r[0] != 7:
        r = r[1:]
    r[0] = 70


@weft.jit
def pointers(p: weft.Pointer[weft.i32], q: weft.Pointer[weft.i32], n: weft.i32):
    if n == 3:
        p, q = q, p
    for _ in range(1):
        pointers_kernel(p, q, n).launch(grid=1, block=1)


def python_pointers(p, q, n):
    if n == 3:
        p, q = q, p
    for k in range(n):
        p[0] = q[k & 1]
        p, q = q, p
    r = p if n > 2 else q[1:]
    while r[0] != 7:
        r = r[1:]
    r[0] = 70


def test_pointers_are_values():
    for n in range(5):
        expected, found = (
            [np.array([1, 2, 7], np.int32), np.array([4, 5, 6, 7], np.int32)] for _ in range(2)
        )
        python_pointers(*expected, n)
        pointers(*(x.ctypes.data for x in found), n)
        assert [x.tolist() for x in found] == [x.tolist() for x in expected]


@weft.kernel
def vectors_kernel(a, b, n: weft.i32):
    for _ in range(n):
        weft.store_vector(b, 0, weft.load_vector(a, 4, 4))
        a, b = b, a


ALIGNED = weft.fake_tensor(weft.f32, (8,), alignment_bytes=16)


def test_alignment_that_both_tensors_have_allows_vectors():
    @weft.jit
    def host(a: weft.Tensor, b: weft.Tensor, n: weft.i32):
        vectors_kernel(a, b, n).launch(grid=1, block=1)

    function = weft.compile(host, ALIGNED, ALIGNED, 1)
    a, b = weft.zeros(8, weft.f32), weft.zeros(8, weft.f32)
    weft.copy(a, np.arange(8, dtype=np.float32))
    function(a, b, 2)
    assert np.asarray(b).tolist() == [4, 5, 6, 7, 0, 0, 0, 0]
    with pytest.raises(weft.WeftError, match="known to be aligned to 4"):
        weft.compile(host, ALIGNED, weft.fake_tensor(weft.f32, (8,)), 1)


@pytest.mark.parametrize("host", [step_and_swap, step_between_chosen, step_while, many_threads])
def test_both_tensors_count_as_written(host):
    array = np.zeros(40, np.int32)
    array.flags.writeable = False
    for arguments in ((array, np.zeros(40, np.int32)), (np.zeros(40, np.int32), array)):
        if host is step_while and arguments[0] is array:
            host(*arguments, 1)  # only read
        else:
            with pytest.raises(ValueError, match="read-only"):
                host(*arguments, 1)
