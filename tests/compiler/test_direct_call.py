# SPDX-License-Identifier: Apache-2.0
"""Direct calls of a host function: found again by the types of the arguments, compiled once, refused in words."""

import signal
import threading

import numpy as np
import pytest

import weft

factor = 2.0


@weft.kernel
def scale_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] * factor


@weft.jit
def scale(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    scale_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 64), block=64)


def arrays(n=100):
    a = np.arange(n, dtype=np.float32)
    return a, np.zeros_like(a)


def make_scale():
    @weft.kernel
    def kernel(a: weft.Tensor, s):
        a[weft.thread_idx.x] *= s

    @weft.jit
    def host(a: weft.Tensor, s, times: weft.Constexpr = 1):
        for _ in range(times):
            kernel(a, s).launch(grid=1, block=a.shape[0])

    return host


def test_a_call_compiles_once_per_set_of_types(compilations):
    host = make_scale()
    for n in (1, 5, 7):
        for s in (1.0, 2.0, 3.5):
            a = np.ones(n, np.float32)
            host(a, s)
            assert (a == np.float32(s)).all()
    assert len(compilations) == 1
    host(np.ones(3), 2.0)
    host(np.ones(3, np.float32), 2)
    host(np.ones((3, 2), np.float32)[:, 0], 2.0)
    assert len(compilations) == 4


def test_a_constant_is_part_of_the_key_and_no_value_is(compilations):
    host = make_scale()
    a = np.ones(3, np.float32)
    host(a, 2.0, 3)
    host(a, 1.0, times=3)
    assert (a == 8).all() and len(compilations) == 1
    host(a, 0.5)
    assert (a == 4).all() and len(compilations) == 2


def test_an_unhashable_constant_is_refused():
    host = make_scale()
    host(np.ones(1, np.float32), 1.0)
    with pytest.raises(weft.SignatureError, match="unhashable"):
        host(np.ones(1, np.float32), 1.0, [1])


def test_a_changed_global_is_noticed_and_compiled_again(compilations, monkeypatch):
    a, b = arrays()
    scale(a, b)
    before = len(compilations)
    monkeypatch.setitem(globals(), "factor", 3.0)
    scale(a, b)
    np.testing.assert_array_equal(b, a * 3)
    assert len(compilations) == before + 1
    scale(a, b)
    assert len(compilations) == before + 1


def test_a_compiled_function_keeps_the_global_it_was_compiled_with(monkeypatch):
    a, b = arrays()
    function = weft.compile(scale, a, b)
    monkeypatch.setitem(globals(), "factor", 5.0)
    function(a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_a_changed_closure_is_noticed(compilations):
    offset = 1

    @weft.kernel
    def kernel(a: weft.Tensor):
        a[0] = offset

    @weft.jit
    def host(a: weft.Tensor):
        kernel(a).launch(grid=1, block=1)

    a = np.zeros(1, np.int32)
    host(a)
    assert a[0] == 1
    offset = 9
    host(a)
    assert a[0] == 9 and len(compilations) == 2


def test_threads_with_one_new_key_compile_once(compilations):
    host = make_scale()
    host(np.ones(1, np.float32), 1.0)
    results = [np.ones(4) for _ in range(8)]
    start = threading.Barrier(8)

    def call(a):
        start.wait()
        host(a, 2.0)

    threads = [threading.Thread(target=call, args=(a,)) for a in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((a == 2).all() for a in results)
    assert len(compilations) == 2


def test_a_failed_compilation_leaves_nothing_behind(compilations):
    @weft.kernel
    def kernel(a: weft.Tensor):
        a[0] = undefined_name

    @weft.jit
    def host(a: weft.Tensor):
        kernel(a).launch(grid=1, block=1)

    for _ in range(2):
        with pytest.raises(weft.NameResolutionError):
            host(np.zeros(1, np.float32))
    assert len(compilations) == 2


def test_a_refused_direct_call_names_the_function():
    with pytest.raises(
        weft.SignatureError, match=r"(?s)scale: expected a tensor.*weft\.compile"
    ) as error:
        scale(*[weft.fake_tensor(weft.f32, (4,)) for _ in range(2)])
    assert error.value.code == "ARGUMENT_ONLY_EXAMPLE"
    a, b = arrays()
    scale(a, b)
    with pytest.raises(weft.SignatureError, match=r"scale: argument 'a': .* byte order"):
        scale(a.astype(">f4"), b)


def test_a_starred_parameter_is_refused_by_name():
    def starred(*values):
        pass

    with pytest.raises(weft.UnsupportedSyntaxError, match="'values' takes any number") as error:
        weft.jit(starred)(1)
    assert error.value.code == "STARRED_PARAMETER"


def test_wrong_calls_get_pythons_words_with_the_functions_name():
    with pytest.raises(TypeError, match=r"scale\(\) missing 1 required positional argument: 'b'"):
        scale(arrays()[0])
    with pytest.raises(TypeError, match=r"scale\(\) got an unexpected keyword argument 'c'"):
        scale(*arrays(), c=1)


def calling(function, *, when):
    """A hashable constant whose attribute, read at compile time, calls the function first."""

    class Factor:
        reads = 0

        @property
        def value(self):
            Factor.reads += 1
            if Factor.reads in when:
                function()
            return 3.0

    return Factor()


def test_compilation_may_call_the_function_being_compiled():
    a = np.ones(4, np.float32)
    host = make_scale()
    given = calling(lambda: host(np.ones(4, np.float32), 2.0), when=[1])

    @weft.kernel
    def kernel(a: weft.Tensor, factor: weft.Constexpr):
        a[weft.thread_idx.x] *= factor.value

    @weft.jit
    def outer(a: weft.Tensor, factor: weft.Constexpr):
        kernel(a, factor).launch(grid=1, block=4)

    outer(a, given)
    assert a.tolist() == [3.0] * 4
    again = calling(lambda: outer(np.ones(4, np.float32), again), when=[1])
    outer(a, again)
    assert a.tolist() == [9.0] * 4


def test_a_compilation_that_needs_itself_is_an_error():
    @weft.kernel
    def kernel(a: weft.Tensor, factor: weft.Constexpr):
        a[weft.thread_idx.x] *= factor.value

    @weft.jit
    def host(a: weft.Tensor, factor: weft.Constexpr):
        kernel(a, factor).launch(grid=1, block=4)

    def call_endlessly():
        host(np.ones(4, np.float32), endless)

    endless = calling(call_endlessly, when=range(100))
    for _ in range(2):  # the first call of all, and the first with a key
        with pytest.raises(
            Exception, match="host was called by code that its own compilation runs"
        ):
            call_endlessly()
        host(np.ones(4, np.float32), calling(None, when=[]))


def test_a_signals_handler_may_call_what_is_being_compiled():
    host = make_scale()
    made = []

    def handle(*_):
        a = np.ones(4, np.float32)
        host(a, 5.0)
        made.append(a[0])

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        for _ in range(20):
            a = np.ones(4, np.float32)
            make_scale()(a, 2.0)
            host(a, 2.0)
            assert a[0] == 4
            if made:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert made == [5.0]
