# SPDX-License-Identifier: Apache-2.0
"""Numbers annotated `weft.sym`: each call checks them, and the compiler uses what they promise.

In: host functions and kernels with such parameters. Out: results, messages, and code without what the promise saves.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.conformance.harness import define

ALIGNED = weft.fake_tensor(weft.f32, ("m",), alignment_bytes=16)


def aligned(size: int) -> np.ndarray:
    memory = np.zeros(size + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    return memory[start : start + size]


def functions(annotation):
    """A host function that adds row sums of a matrix with `n` columns, four elements at a time, and n % 8."""

    @weft.kernel
    def sum_kernel(a: weft.Tensor, n: annotation, out: weft.Tensor):
        row = weft.thread_idx.x
        for k in weft.unroll(range(n // 4), 1):
            x, y, z, w = weft.load_vector(a, row * n + 4 * k, 4)
            out[row] += x + y + z + w
        out[2 + row] = weft.f32(n % 8)

    @weft.jit
    def host(a: ALIGNED, n: annotation, out: weft.Tensor[weft.f32, (4,)]):
        sum_kernel(a, n, out).launch(grid=1, block=2)

    return host


PROMISED = weft.sym("n", divisibility=8)


def test_promised_number_needs_no_check_of_alignment():
    a, out = aligned(32), np.zeros(4, np.float32)
    a[:] = np.arange(32)
    host = functions(PROMISED)
    host(a, 16, out)
    assert out.tolist() == [sum(range(16)), sum(range(16, 32)), 0, 0]
    made = weft.compile(host, a, 16, out)
    assert "simt.assert" not in str(made.ir_module)
    assert "simt.assert" in str(weft.compile(functions(weft.i32), a, 16, out).ir_module)


def test_remainder_of_a_promised_number_is_zero_on_a_gpu():
    # n % 8 is an `and` with 7; addresses need none, nor does a loop that is not unrolled by 8.
    fakes = (
        weft.fake_tensor(weft.f32, ("m",), alignment_bytes=16),
        weft.fake_tensor(weft.f32, (4,)),
    )
    try:
        ptx = [
            weft.compile(functions(said), fakes[0], 16, fakes[1], options="--gpu-arch sm_90a").ptx
            for said in (PROMISED, weft.i32)
        ]
    except (weft.ToolchainError, weft.UnavailableError) as error:
        pytest.skip(f"needs the extra cuda: {error.message}")
    assert [", 7;" in text for text in ptx] == [False, True]


@pytest.mark.parametrize("how", ["direct", "compiled"])
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (12, "is 12, expected a multiple of 8"),
        (-8, "is -8, expected"),
        (8.0, "float 8.0"),
        ("8", "str '8'"),
        (None, "None"),
    ],
)
def test_number_that_breaks_its_promise_is_refused(how, number, words):
    a, out = aligned(16), np.zeros(4, np.float32)
    host = functions(PROMISED)
    function = host if how == "direct" else weft.compile(host, a, 8, out)
    with pytest.raises((ValueError, TypeError)) as caught:
        function(a, number, out)
    assert "'n'" in str(caught.value) and words in str(caught.value)


def test_number_beyond_32_bits_needs_a_wide_symbol():
    @weft.jit
    def host(n: weft.sym("n")):
        return n

    with pytest.raises(ValueError, match=r"1099511627776, expected 0 to 2147483647 \(32 bits"):
        weft.compile(host)(1 << 40)
    assert host(1 << 40) == 1 << 40  # a direct call compiles for the width that it needs


def test_number_shares_the_symbol_of_a_dimension_in_either_order():
    @weft.jit
    def after(a: weft.Tensor[weft.f32, ("n",)], n: weft.sym("n")):
        return n

    @weft.jit
    def before(n: weft.sym("n"), a: weft.Tensor[weft.f32, ("n",)], *, m: weft.sym("n") = 4):
        return n + m

    a = np.zeros(4, np.float32)
    for made in (after, weft.compile(after), weft.compile(after, a, 4)):
        assert made(a, 4) == made(a, n=np.int64(4)) == 4
        with pytest.raises(ValueError, match=r"'n': value is 5, expected 4 to match a\.shape\[0\]"):
            made(a, 5)
    for made in (before, weft.compile(before)):
        assert made(4, a) == made(4, a, m=4) == 8
        with pytest.raises(ValueError, match=r"'a': shape\[0\] is 4, expected 5 to match n"):
            made(5, a)
        with pytest.raises(ValueError, match="'m': value is 3, expected 4 to match n"):
            made(4, a, m=3)


def test_wide_number_and_items_of_tuples():
    @weft.jit
    def host(n: weft.sym("n", width=64), pair: tuple[weft.sym("n", width=64), weft.sym("m", 4)]):
        return pair[0] - n + pair[1]

    for made in (host, weft.compile(host)):
        assert made(1 << 40, (1 << 40, 8)) == 8
        with pytest.raises(
            ValueError, match=r"pair\[1\](': value)? is 6, expected a multiple of 4"
        ):
            made(1, (1, 6))


def test_size_fixed_by_a_fake_tensor_is_a_constant():
    @weft.kernel
    def kernel(a: weft.Tensor, n: weft.Constexpr[int]):
        for k in weft.static_range(n):
            a[k] = weft.f32(n)

    @weft.jit
    def host(a: weft.Tensor[weft.f32, ("n",)], n: weft.sym("n")):
        kernel(a, n).launch(grid=1, block=1)

    made = weft.compile(host, weft.fake_tensor(weft.f32, (3,)))
    a = np.zeros(3, np.float32)
    made(a, 3)
    assert a.tolist() == [3, 3, 3]
    with pytest.raises(ValueError, match="'n': value is 4, expected 3"):
        made(a, 4)


@pytest.mark.parametrize(
    ("launched", "words"),
    [("12", "'n' is 12, expected a multiple of 8"), ("m", "must be known to be a multiple of 8")],
)
def test_kernel_gets_only_what_is_known_to_keep_the_promise(launched, words):
    @weft.kernel
    def kernel(a: weft.Tensor, n: PROMISED):
        a[0] = weft.f32(n % 8)

    @weft.jit
    def host(a: weft.Tensor[weft.f32, (None,)], m: weft.i32, n: weft.sym("n", divisibility=4)):
        kernel(a, 2 * n).launch(grid=1, block=1)
        kernel(a, 16).launch(grid=1, block=1)
        kernel(a, {"12": 12, "m": m}[weft_launched]).launch(grid=1, block=1)

    host.function.__globals__["weft_launched"] = launched
    with pytest.raises(weft.CompileError, match=words):
        host(np.zeros(1, np.float32), 8, 4)


@pytest.mark.parametrize(("promise", "tests"), [("pass", 1), ("weft.assume(n % 8 == 0)", 0)])
def test_a_gpu_leaves_out_what_a_promise_answers(promise, tests):
    source = f"""
@weft.kernel
def kernel(a: weft.Tensor, n: weft.i32):
    {promise}
    if n % 4 != 0:
        a[0] = 1.0

@weft.jit
def host(a: weft.Tensor, n: weft.i32):
    kernel(a, n).launch(grid=1, block=1)
"""
    vector = weft.fake_tensor(weft.f32, ("n",))
    compiled = weft.compile(define(source)["host"], vector, 8, options="--gpu-arch sm_90a")
    assert (compiled.ptx.count("st.global"), compiled.ptx.count("setp")) == (tests, tests)
    assert "assume" not in compiled.ptx


COUNTING = """
@weft.kernel
def kernel(a: weft.Tensor, out: weft.Tensor):
    for i in range({bounds}):
        x, y, z, w = weft.load_vector(a, i, 4)
        out[weft.thread_idx.x] += x + y + z + w
        {end}

@weft.jit
def host(a: {annotation}, out: weft.Tensor[weft.f32, (2,)]):
    kernel(a, out).launch(grid=1, block=2)
"""


@pytest.mark.parametrize("end", ["pass", "if x > 1000: break"])
@pytest.mark.parametrize(
    ("bounds", "is_checked"),
    [
        ("4 * weft.thread_idx.x, 64, 8", False),
        ("0, len(a), 4 * weft.block_dim.x", False),
        ("weft.block_idx.x, 64, 8", True),
        ("0, 62, weft.block_dim.x + 2", True),
        ("60, -1, -4", True),
    ],
)
def test_counter_of_multiples_needs_no_check_of_alignment(bounds, is_checked, end):
    annotation = 'weft.fake_tensor(weft.f32, ("m",), alignment_bytes=16)'
    host = define(COUNTING.format(bounds=bounds, end=end, annotation=annotation))["host"]
    a, out = aligned(64), np.zeros(2, np.float32)
    a[:] = np.arange(64)
    made = weft.compile(host, a, out)
    assert ("simt.assert" in str(made.ir_module)) == is_checked
    made(a, out)
    sizes = {"thread_idx": 0, "block_idx": 0, "block_dim": 2}
    for thread in range(2):
        sizes["thread_idx"] = thread
        names = SimpleNamespace(**{name: SimpleNamespace(x=x) for name, x in sizes.items()})
        counted = eval(f"range({bounds})", {"weft": names, "a": a})
        assert out[thread] == sum(a[i : i + 4].sum() for i in counted)


HOST_PROMISE = """
@weft.kernel
def kernel(a: weft.Tensor, n: weft.i32, out: weft.Tensor):
    if n % 8 != 0 or a.shape[1] % 8 != 0:
        out[1] = 12345
    out[0] = weft.i32(n % 8) + weft.i32(a.shape[1] % 8)

@weft.jit
def host(a: weft.Tensor, n: weft.i32, out: weft.Tensor):
    {promise}
    kernel({passed}, out).launch(grid=1, block=1)
"""


@pytest.mark.parametrize(
    ("promise", "passed"),
    [
        ("weft.assume(n % 8 == 0 and a.shape[1] % 8 == 0)", "a, n"),
        ("weft.assume(n % 4 == 0 and a.shape[1] % 8 == 0)", "a[1:], 2 * n"),
        ("weft.assume(a.shape[1] % 16 == 0)", "a[:, : a.shape[1] // 2], 8 * n + a.shape[1]"),
        (
            "weft.assume(a.shape[1] % 8 == 0)\n    if n > 2:\n        n = 16\n    else:\n        n = 8 * n",
            "a, n",
        ),
        (
            "weft.assume(a.shape[1] % 8 == 0)\n    k = 0\n    for _ in range(n):\n        k += 8",
            "a, k",
        ),
        ("weft.assume(a.strides[0] == 8 * n and a.shape[1] % 8 == 0)", "a, weft.i32(a.strides[0])"),
    ],
)
def test_kernels_know_what_a_host_function_promises_and_computes(promise, passed):
    host = define(HOST_PROMISE.format(promise=promise, passed=passed))["host"]
    a, out = np.zeros((3, 16), np.int32), np.full(2, 5, np.int32)
    host(a, 2 if "strides" in promise else 8, out)
    assert out.tolist() == [0, 5]
    kinds = (
        weft.fake_tensor(weft.i32, ("m", "n"), layout="inner"),
        8,
        weft.fake_tensor(weft.i32, (2,)),
    )
    assert "12345" not in weft.compile(host, *kinds, options="--gpu-arch sm_90a").ptx
    unknown = define(HOST_PROMISE.format(promise="k = n", passed=passed))["host"]
    assert "12345" in weft.compile(unknown, *kinds, options="--gpu-arch sm_90a").ptx


def test_a_hosts_wrong_promise_fails_the_call_on_every_path():
    source = HOST_PROMISE.format(
        promise="weft.assume(n % 8 == 0)\n    weft.assume(n < a.shape[0])",
        passed="a, n",
    )
    host = define(source)["host"]
    a, out = np.zeros((30, 8), np.int32), np.full(1, 5, np.int32)
    compiled = weft.compile(host, a, 8, out)
    for call in (host, compiled, lambda *given: compiled.prepare(*given)()):
        call(a, 16, out)
        assert out[0] == 0
        for wrong, line in ((12, 10), (32, 11)):
            with pytest.raises(
                AssertionError, match=rf"{line}\): weft.assume, which promises this"
            ):
                call(a, wrong, out)


@pytest.mark.parametrize(
    ("options", "is_checked"),
    [
        ("", False),
        ("--enable-assertions", True),
        ("--sanitize=bounds", True),
    ],
)
def test_a_gpu_checks_promises_where_it_checks_the_program(options, is_checked):
    source = """
@weft.kernel
def kernel(a: weft.Tensor, n: weft.i32):
    weft.assume(n % 8 == 0)
    a[0] = 1.0

@weft.jit
def host(a: weft.Tensor, n: weft.i32):
    kernel(a, n).launch(grid=1, block=1)
"""
    vector = weft.fake_tensor(weft.f32, ("n",))
    compiled = weft.compile(
        define(source)["host"], vector, 8, options=f"--gpu-arch sm_90a {options}"
    )
    assert ("which promises this" in compiled.llvm_ir) == is_checked


def test_a_reshaped_array_keeps_alignment_and_divisors():
    source = """
@weft.kernel
def kernel(b: weft.Tensor, out: weft.Tensor):
    if b.shape[0] % 8 != 0 or b.strides[0] % 8 != 0:
        out[1] = 12345.0
    weft.store_vector(out, 0, weft.load_vector(b[weft.block_idx.x], 0, 4))

@weft.jit
def host(a: weft.Tensor, n: weft.i32, out: weft.Tensor):
    weft.assume(n % 8 == 0)
    kernel(a.reshape(8 * n, n), out).launch(grid=1, block=1)
"""
    host = define(source)["host"]
    kinds = ALIGNED, 8, ALIGNED
    assert "12345" not in weft.compile(host, *kinds, options="--gpu-arch sm_90a").ptx
    a, out = aligned(512), aligned(4)
    a[:] = np.arange(512)
    host(a, 8, out)
    assert out.tolist() == [0, 1, 2, 3]
