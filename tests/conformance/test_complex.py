# SPDX-License-Identifier: Apache-2.0
"""Complex numbers: arithmetic, memory, exchanges and refusals, on the CPU; and as PTX run by the fuzzer's emulator."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest

import weft
import weft.ffi
from tests.conformance.harness import define
from tests.conformance.test_packed import aligned, emulated
from tests.conformance.test_results import WAYS
from tests.sampling import sampled
from weft.types.dtype import COMPLEX_DTYPES

KINDS = {weft.c64: (np.complex64, np.float32), weft.c128: (np.complex128, np.float64)}
BOTH = pytest.mark.parametrize("dtype", COMPLEX_DTYPES, ids=str)
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def values(dtype: weft.DType, count: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=count) + 1j * rng.normal(size=count)).astype(KINDS[dtype][0])


def close(got: np.ndarray, wanted: np.ndarray) -> None:
    epsilon = np.finfo(got.dtype).eps
    np.testing.assert_allclose(got, wanted, rtol=8 * epsilon, atol=8 * epsilon)


@weft.kernel
def arithmetic_kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    out[0, i] = a[i] + b[i]
    out[1, i] = a[i] - b[i]
    out[2, i] = a[i] * b[i]
    out[3, i] = a[i] / b[i]
    out[4, i] = -a[i]
    out[5, i] = a[i].conj()
    out[6, i] = a[i].conjugate() * a[i]
    out[7, i] = weft.complex(a[i].imag, b[i].real)
    out[8, i] = abs(a[i])
    out[9, i] = weft.math.abs(b[i])
    out[10, i] = (a[i] == a[i]) + 2 * (a[i] == b[i]) + 4 * (a[i] != b[i])
    total = 0.0
    for k in range(i + 1):
        total += a[k]
    out[11, i] = total
    out[12, i] = a[i] if i % 2 else b[i]
    out[13, i] = weft.where(abs(a[i]) < 1, a[i], 0)
    power = 1
    for _ in range(3):
        power = power * a[i]
    out[14, i] = power
    out[15, i] = 1 if a[i] else 0


@weft.jit
def arithmetic(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
    arithmetic_kernel(a, b, out).launch(grid=1, block=8)


def wanted_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    i = np.arange(len(a))
    rows = [
        a + b, a - b, a * b, a / b, -a, a.conj(), a.conj() * a, a.imag + 1j * b.real, abs(a), abs(b),
        1 + 2 * (a == b) + 4 * (a != b), np.cumsum(a), np.where(i % 2, a, b), np.where(abs(a) < 1, a, 0), a**3, a != 0,
    ]  # fmt: skip
    return np.array(rows).astype(a.dtype)


def examples(dtype: weft.DType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = values(dtype, 8, 1), values(dtype, 8, 2)
    b[3] = a[3]
    a[5] = 0
    return a, b, np.zeros((16, 8), a.dtype)


@BOTH
def test_arithmetic_is_numpys(dtype):
    a, b, out = examples(dtype)
    arithmetic(a, b, out)
    close(out, wanted_of(a, b))


@BOTH
def test_ptx_computes_the_same(dtype):
    a, b, out = examples(dtype)
    specs = [weft.fake_tensor(dtype, array.shape) for array in (a, b, out)]
    emulated(arithmetic, [a, b, out], specs, "sm_90a", 8)
    close(out, wanted_of(a, b))


@BOTH
@pytest.mark.parametrize("sign", sampled(OPERATORS, 3))
@pytest.mark.parametrize(
    "real", sampled((np.int32, np.int8, np.bool_, np.float16, np.float32, np.float64), 2)
)
@pytest.mark.parametrize("order", ("left", "right"))
def test_real_operands_of_every_kind(dtype, sign, real, order):
    source = "a[i] {} b[i]" if order == "left" else "b[i] {} a[i]"
    text = source.format(sign)
    a = values(dtype, 4)
    b = np.array([1, 2, 3, 5]).astype(real)
    wide = dtype is weft.c128 or real is np.float64
    out = np.zeros(4, np.complex128 if wide else np.complex64)
    _kernels[text][1, 4](a, b, out)
    left, right = (a, b) if order == "left" else (b, a)
    number = b.astype(np.int32) if real is np.bool_ else b
    left, right = (a, number) if order == "left" else (number, a)
    close(out, OPERATORS[sign](left, right).astype(out.dtype))


def _kernel_of(text: str):
    import linecache

    source = (
        "@weft.kernel\ndef kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):\n"
        f"    i = weft.thread_idx.x\n    out[i] = {text}\n"
    )
    file = f"<complex {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"weft": weft, "__name__": "complex_kernels"}
    exec(compile(source, file, "exec"), names)
    return names["kernel"]


_kernels = {
    text.format(sign): _kernel_of(text.format(sign))
    for text, sign in itertools.product(("a[i] {} b[i]", "b[i] {} a[i]"), OPERATORS)
}


@BOTH
def test_extreme_parts(dtype):
    """Neither a quotient nor a magnitude overflows where its result is finite; infinities and NaNs stay."""
    real = KINDS[dtype][1]
    large = float(np.finfo(real).max) / 4
    tiny = float(np.finfo(real).tiny)
    a = np.array(
        [complex(large, large), complex(tiny, tiny), complex(np.inf, 0), complex(0, np.nan)]
    )
    a = a.astype(KINDS[dtype][0])
    out = np.zeros((2, 4), a.dtype)

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        i = weft.thread_idx.x
        out[0, i] = a[i] / a[i]
        out[1, i] = abs(a[i])

    kernel[1, 4](a, out)
    close(out[0, :2], np.ones(2, a.dtype))
    close(out[1, :3].real, abs(a[:3]))
    assert np.isnan(out[0, 3]) and np.isnan(out[1, 3])


@weft.kernel
def memory_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    shared = weft.shared((2, 32), a.dtype)
    shared[1, i] = a[i]
    weft.sync_threads()
    out[0, i] = shared[1, weft.block_dim.x - 1 - i]
    local = weft.local(4, a.dtype)
    local[i % 4] = a[i]
    out[1, i] = local[i % 4]
    out[2, i] = i
    out[3, i] = a[i].real
    pair = (a[i], 1j)
    out[4, i] = pair[0] * pair[1]


@weft.jit
def memory(a: weft.Tensor, out: weft.Tensor):
    memory_kernel(a, out).launch(grid=1, block=32)


@BOTH
@pytest.mark.parametrize("target", ("cpu", "emulated", "sanitized"))
def test_memory_and_exchanges(dtype, target):
    a = values(dtype, 32)
    out = np.zeros((5, 32), a.dtype)
    if target == "emulated":
        specs = [weft.fake_tensor(dtype, array.shape) for array in (a, out)]
        emulated(memory, [a, out], specs, "sm_90a", 32)
    elif target == "sanitized":
        weft.compile(memory, a, out, options="--sanitize=all")(a, out)
    else:
        memory(a, out)
    i = np.arange(32)
    np.testing.assert_array_equal(out, np.array([a[::-1], a, i, a.real, a * 1j]))


@weft.kernel
def exchange_kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    out[0, i] = weft.shfl_xor(a[i], 1)
    out[1, i] = weft.shfl_idx(a[i], 5)
    out[2, i] = weft.warp.sum(a[i])
    out[3, i] = weft.block.sum(a[i])


@weft.jit
def exchange(a: weft.Tensor, out: weft.Tensor):
    exchange_kernel(a, out).launch(grid=1, block=64)


@BOTH
def test_threads_exchange_parts(dtype):
    a = values(dtype, 64)
    out = np.zeros((4, 64), a.dtype)
    exchange(a, out)
    i = np.arange(64)
    sums = np.repeat([a[:32].sum(), a[32:].sum()], 32)
    rows = [a[i ^ 1], a[i // 32 * 32 + 5], sums, np.full(64, a.sum())]
    for got, wanted in zip(out[:3], rows[:3], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out[3, 0], a.sum(), rtol=1e-5, atol=1e-5)
    specs = [weft.fake_tensor(dtype, array.shape) for array in (a, out)]
    ptx = weft.compile(exchange, *specs, options="--target cuda --gpu-arch sm_90a").ptx
    words = 2 if dtype is weft.c64 else 4
    assert ptx.count("shfl.sync.idx") == words


def test_cache_hints():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        out[0] = weft.load_element(a, 0, cache="streaming")

    out = np.zeros(1, np.complex64)
    kernel[1, 1](np.array([1 + 2j], np.complex64), out)
    assert out[0] == 1 + 2j
    with pytest.raises(weft.CompileError, match="at most 8 bytes"):
        kernel[1, 1](np.zeros(1, np.complex128), np.zeros(1, np.complex128))


def test_vectors_of_complex_numbers_are_one_access():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        i = weft.thread_idx.x
        x, y = weft.load_vector(a, 2 * i, 2)
        weft.store_vector(out, 2 * i, (y, x.conj()))

    @weft.jit
    def host(a: weft.Tensor, out: weft.Tensor):
        kernel(a, out).launch(grid=1, block=4)

    spec = weft.fake_tensor(weft.c64, ("n",), alignment_bytes=16)
    ptx = weft.compile(host, spec, spec, options="--target cuda --gpu-arch sm_90a").ptx
    assert ptx.count("ld.global") == ptx.count("st.global") == 1
    a, out = aligned((8,), np.complex64), aligned((8,), np.complex64)
    a[:] = values(weft.c64, 8)
    host(a, out)
    np.testing.assert_array_equal(out.reshape(4, 2), np.stack([a[1::2], a[::2].conj()], 1))


def test_a_literal_is_as_wide_as_what_it_meets():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        out[0] = a[0] * 0.1j + (0.1 + 0.1j)
        constant = 0.1j
        out[1] = constant
        out[2] = weft.complex(0.1, 0.1)

    for kind in (np.complex64, np.complex128):
        out = np.zeros(3, kind)
        kernel[1, 1](np.ones(1, kind), out)
        assert out.tolist() == np.array([0.1 + 0.2j, 0.1j, 0.1 + 0.1j], kind).tolist()


def test_torchs_arrays_and_its_own():
    tensor = weft.zeros(3, weft.c64)
    tensor[1] = 1 + 2j
    tensor[2] = 1
    assert tensor.tolist() == [0, 1 + 2j, 1]
    assert weft.full(2, 1j, weft.c128).tolist() == [1j, 1j]

    @weft.kernel
    def kernel(a: weft.Tensor):
        a[weft.thread_idx.x] *= 2j

    kernel[1, 3](tensor)
    assert tensor.tolist() == [0, -4 + 2j, 2j]
    torch = pytest.importorskip("torch", reason="needs another package: torch")
    given = torch.tensor([1, 1j], dtype=torch.complex64)
    kernel[1, 2](given)
    assert given.tolist() == [2j, -2]
    with pytest.raises(weft.SignatureError, match="resolve_conj"):
        kernel[1, 2](given.conj())


class CupyArray:
    """As CuPy's arrays of a GPU say what they are."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        memory = {"data": (0x1000, False), "stream": 1}
        return {"version": 3, "shape": (2,), "typestr": self.kind, **memory}


@BOTH
def test_arrays_of_cupy_are_complex(dtype):
    @weft.kernel
    def kernel(a: weft.Tensor):
        a[0] *= a[1].conj()

    @weft.jit
    def host(a):
        kernel(a).launch(grid=1, block=1)

    given, real = CupyArray(np.dtype(KINDS[dtype][0]).str), CupyArray("<f4")
    compiled = weft.compile(host, given, options="--gpu-arch sm_90a")
    assert f"a: Tensor[{dtype}" in str(compiled.signature)
    with pytest.raises(ValueError, match=f"dtype is f32, expected {dtype}"):
        compiled(real)


@pytest.mark.jax
def test_arrays_of_jax_are_complex():
    jax = pytest.importorskip("jax", reason="needs jax: make test JAX=1")

    @weft.kernel
    def kernel(a, out):
        for i in weft.each(len(a)):
            out[i] = a[i] * a[i] + 1j

    @weft.jit
    def host(a, out):
        kernel(a, out).launch(over=len(a))

    a, out = jax.numpy.asarray([1, 2j, 1 - 1j], np.complex64), np.zeros(3, np.complex64)
    host(a, out)
    function = jax.jit(weft.jax.function(host, outputs={"out": lambda a: a}))
    assert out.tolist() == function(a).tolist() == [1 + 1j, -4 + 1j, -1j]


@weft.kernel
def scaled_kernel(a: weft.Tensor, z):
    for i in weft.each(len(a)):
        a[i] *= z


@weft.jit
def scaled(a, z: weft.c64 = 2j):
    scaled_kernel(a, z).launch(over=len(a))
    return z.real, z.imag


@weft.jit
def scaled_as_passed(a, z):
    scaled_kernel(a, z).launch(over=len(a))


NUMBERS = (3j, 1 - 2j, np.complex64(0.5j), np.complex128(1 + 1j))


@pytest.mark.parametrize("way", sampled(WAYS, 2))
@pytest.mark.parametrize("value", NUMBERS, ids=str)
def test_a_number_is_passed_at_run_time(value, way):
    a = np.ones(3, np.complex64)
    assert WAYS[way](scaled, a, value) == (value.real, value.imag)
    assert a.tolist() == [value] * 3


def test_a_number_is_passed_by_name_as_a_default_and_to_a_kernel():
    a = np.ones(2, np.complex64)
    fn = weft.compile(scaled, a)
    assert fn(a) == (0, 2) and fn(a, z=1j) == (0, 1) and a.tolist() == [-2, -2]
    prepared = fn.prepare(a, 1j)
    prepared[1] = 1 + 0j
    assert prepared() == (1, 0)
    scaled_kernel[1, 2](a, 0.5j)
    assert a.tolist() == [-1j, -1j]


def test_a_new_number_compiles_nothing():
    a = np.ones(1, np.complex64)
    scaled_as_passed(a, 1j)
    compiled = len(scaled_as_passed.specializations)
    scaled_as_passed(a, 2j)
    assert a[0] == -2 and len(scaled_as_passed.specializations) == compiled


def test_beside_f64_a_python_number_is_c128():
    a = np.ones(1, np.complex128)
    scaled_as_passed(a, 1e-300j)
    scaled_as_passed(a, np.complex128(1e300))
    assert a[0] == 1j


def test_parts_beyond_the_type_and_other_values_are_refused():
    a = np.ones(1, np.complex64)
    fn = weft.compile(scaled, a, 1j)
    with pytest.raises(ValueError, match=r"'z\.imag': value is 1e\+300"):
        fn(a, 1e300j)
    with pytest.raises(TypeError, match=r"expected a tuple of 2 \(c64: a complex number\)"):
        fn(a, 1.0)
    with pytest.raises(weft.SignatureError, match="annotated c64, received a Python float"):
        scaled(a, 1.0)


def test_a_constant_is_passed_at_compile_time():
    @weft.kernel
    def kernel(a: weft.Tensor, z: weft.Constexpr):
        a[0] = z

    a = np.zeros(1, np.complex64)
    kernel[1, 1](a, 1 + 2j)
    assert a[0] == 1 + 2j


def test_nan_of_either_part_is_the_magnitudes():
    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        i = weft.thread_idx.x
        out[i] = abs(a[i])

    nan, inf = np.nan, np.inf
    a = np.array([nan, nan * 1j, 0, -0.0, nan + 1j, 1 + nan * 1j, inf], np.complex64)
    a[1] = complex(0, nan)
    out = np.empty(len(a), np.float32)
    kernel[1, len(a)](a, out)
    np.testing.assert_array_equal(out, np.abs(a))


NUMBERS = {
    "f32": np.float32(0.1),
    "f64": np.float64(0.1),
    "c64": np.complex64(0.1j),
    "c128": np.complex128(0.1j),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_numpy_number_beside_complex_or_real_keeps_its_type(name):
    number = NUMBERS[name]
    wide = np.complex128 if name in ("f64", "c128") else np.complex64
    imaginary = name in ("c64", "c128")

    @weft.kernel
    def kernel(z: weft.Tensor, x: weft.Tensor, out: weft.Tensor, same: weft.Tensor):
        out[0] = z[0] * number
        out[1] = number + z[0]
        out[2] = weft.complex(0, 1).conj() * number
        same[0] = z[0] * number == number * z[0]
        if imaginary:
            out[3] = x[0] * number
            same[1] = number == number + 0

    z, x = np.array([1 + 2j], np.complex64), np.array([3], np.float32)
    out, same = np.zeros(4, wide), np.zeros(2, bool)
    kernel[1, 1](z, x, out, same)
    wanted = [z[0].astype(wide) * wide(number), number + z[0].astype(wide), wide(-1j) * number]
    if imaginary:
        wanted.append(wide(3) * wide(number))
        assert same[1]
    close(out[: len(wanted)], np.array(wanted))
    assert same[0]


FUNCTIONS = ("exp", "log", "sqrt", "sin", "cos", "sinh", "cosh", "tan", "tanh")


@weft.kernel
def functions_kernel(z: weft.Tensor, out: weft.Tensor, angles: weft.Tensor):
    i = weft.thread_idx.x
    out[0, i] = weft.math.exp(z[i])
    out[1, i] = weft.math.log(z[i])
    out[2, i] = weft.math.sqrt(z[i])
    out[3, i] = weft.math.sin(z[i])
    out[4, i] = weft.math.cos(z[i])
    out[5, i] = weft.math.sinh(z[i])
    out[6, i] = weft.math.cosh(z[i])
    out[7, i] = weft.math.tan(z[i])
    out[8, i] = weft.math.tanh(z[i])
    angles[i] = weft.math.angle(z[i])


@weft.jit
def functions(z: weft.Tensor, out: weft.Tensor, angles: weft.Tensor):
    functions_kernel(z, out, angles).launch(grid=1, block=z.shape[0])


def around_one(kind: type, count: int) -> np.ndarray:
    return np.exp(1j * np.random.default_rng(3).uniform(-3, 3, count)).astype(kind)


@BOTH
def test_functions_are_within_three_units(dtype):
    kind, part = KINDS[dtype]
    scales = 10.0 ** np.random.default_rng(2).integers(-3, 2, 500)
    z = np.concatenate([(values(dtype, 500) * scales).astype(kind), around_one(kind, 500)])
    out, angles = np.zeros((len(FUNCTIONS), len(z)), kind), np.zeros(len(z), part)
    functions(z, out, angles)
    for name, got in zip(FUNCTIONS, out, strict=True):
        wanted = getattr(np, name)(z.astype(np.clongdouble))
        error = abs(got - wanted) / abs(wanted) / np.finfo(kind).eps
        assert error.max() < 3, name
    assert np.allclose(angles, np.angle(z), rtol=4 * np.finfo(part).eps)


@BOTH
def test_functions_have_cmaths_cuts_and_do_not_overflow_early(dtype):
    kind, part = KINDS[dtype]
    top = np.finfo(part).max / 2
    late = np.log(top) + 0.5  # beyond the range without the cosine
    z = np.array([0, -4, complex(-4, -0.0), 4j, complex(top, top), complex(late, 1.5), 1], kind)
    out, angles = np.zeros((len(FUNCTIONS), len(z)), kind), np.zeros(len(z), part)
    functions(z, out, angles)
    assert out[2, :4].tolist()[:3] == [0, 2j, -2j] and abs(out[2, 3] - (1 + 1j) * 2**0.5) < 1e-6
    assert np.isfinite(out[2, 4]) and np.isclose(out[2, 4] ** 2, complex(top, top))
    wanted = np.exp(z[5].astype(np.clongdouble))
    assert np.isclose(out[0, 5], wanted.astype(kind), rtol=1e-4)
    assert out[1, 6] == 0 and out[1, 0].real == -np.inf
    assert np.allclose(angles[:4], [0, np.pi, -np.pi, np.pi / 2])


SPECIAL = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 30.0, -30.0)


def as_c_says(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where parts are equal, but for the signs that C leaves open: of a 0 or an infinity beside a NaN or infinity."""
    parts = np.finfo(got.dtype).dtype
    x, y = (z.view(parts).reshape(-1, 2) for z in (got, wanted))
    is_open = ~np.isfinite(y).all(axis=1, keepdims=True)
    same = np.isclose(x, y, rtol=1e-5, atol=0, equal_nan=True)
    return (same | is_open & (np.abs(x) == np.abs(y))).all(axis=1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@BOTH
def test_functions_of_infinities_and_nan_are_cs(dtype):
    kind, part = KINDS[dtype]
    z = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL], kind)
    out, angles = np.zeros((len(FUNCTIONS), len(z)), kind), np.zeros(len(z), part)
    functions(z, out, angles)
    for name, got in zip(FUNCTIONS, out, strict=True):
        same = as_c_says(got, getattr(np, name)(z))
        assert same.all(), (name, z[~same], got[~same])
    assert np.allclose(angles, np.angle(z), rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@BOTH
def test_hyperbolic_functions_do_not_overflow_early(dtype):
    kind, part = KINDS[dtype]
    late = (
        np.log(np.finfo(part).max) + 1.2
    )  # its half exponential is beyond the range, its product with 0.1 is not
    z = np.array([complex(late, 1.5), complex(-late, 1.5), complex(1.5, late), 1], kind)
    out, angles = np.zeros((len(FUNCTIONS), len(z)), kind), np.zeros(len(z), part)
    functions(z, out, angles)
    for row, parts in ((5, 0), (6, 0)):
        wanted = getattr(np, FUNCTIONS[row])(z[:2].astype(np.clongdouble))
        got = out[row, :2].view(part)[parts::2]
        assert np.isfinite(got).all()
        assert np.allclose(got, wanted.real.astype(part), rtol=1e-4)


EXPONENTS = (0, 1, 2, 3, 7, -1, -2, 0.5, 2.5, 3.0, 1j, 0.5 - 2j, 120)


@BOTH
def test_powers_are_numpys(dtype):
    kind, part = KINDS[dtype]
    texts = [f"z[i] ** ({one})" for one in EXPONENTS]
    texts += [
        "z[i] ** x[i]",
        "x[i] ** z[i]",
        "z[i] ** w[i]",
        "z[i] ** n[i]",
        "2 ** z[i]",
        "1j ** x[i]",
    ]
    lines = "\n".join(f"    out[{k}, i] = {text}" for k, text in enumerate(texts))
    names = define(
        "@weft.kernel\ndef kernel(z, w, x, n, out):\n    i = weft.block_idx.x\n" + lines + "\n"
    )
    rng = np.random.default_rng(4)
    z, w = (np.exp(1j * rng.uniform(-3, 3, 60)).astype(kind) * part(1.1) for _ in range(2))
    x, n = rng.uniform(0.5, 2, 60).astype(part), rng.integers(-3, 4, 60).astype(np.int32)
    out = np.zeros((len(texts), 60), kind)
    names["kernel"][60, 1](z, w, x, n, out)
    wide = np.clongdouble
    given = {"z": z.astype(wide), "w": w.astype(wide), "x": x.astype(wide), "n": n.astype(wide)}
    for text, got in zip(texts, out, strict=True):
        wanted = eval(text.replace("[i]", ""), given)
        error = abs(got - wanted) / abs(wanted) / np.finfo(kind).eps
        assert error.max() < (400 if "120" in text else 16), text


def test_powers_of_zero_and_of_constants():
    @weft.kernel
    def kernel(z: weft.Tensor, x: weft.Tensor, out: weft.Tensor):
        out[0] = z[0] ** x[0]
        out[1] = z[0] ** x[1]
        out[2] = z[0] ** x[2]
        out[3] = z[0] ** 0
        out[4] = z[0] ** 2.5
        out[5] = (1 + 2j) ** 3 + weft.math.pow(2j, 2) * z[1]
        out[6] = weft.math.pow(z[1], 2)

    z, out = np.array([0, 1j], np.complex64), np.ones(7, np.complex64)
    kernel[1, 1](z, np.array([2, 0, -1], np.float32), out)
    assert out[[0, 1, 3, 4]].tolist() == [0, 1, 1, 0] and np.isnan(out[2])
    close(out[5:], np.array([(1 + 2j) ** 3 - 4j, -1]))


@pytest.mark.parametrize("exponent", [math.inf, -math.inf, math.nan, complex(math.inf)])
def test_constant_exponents_that_are_not_finite(exponent):
    @weft.kernel
    def kernel(z: weft.Tensor, out: weft.Tensor):
        out[0] = z[0] ** exponent

    for near in (0.5 + 0.25j, 2 - 1j):
        z, out = np.array([near], np.complex64), np.ones(1, np.complex64)
        kernel[1, 1](z, out)
        if exponent == exponent and (abs(near) < 1) == (np.real(exponent) > 0):
            assert out[0] == 0
        else:
            assert not np.isfinite(out[0])


@pytest.mark.parametrize("name", ["**", "+"])
def test_constants_beyond_the_parts_type_are_refused(name):
    names = define(
        f"""
        @weft.kernel
        def kernel(z: weft.Tensor):
            z[0] = z[0] {name} 10**400
        """
    )
    with pytest.raises(weft.WeftError, match="does not fit f32"):
        names["kernel"][1, 1](np.ones(1, np.complex64))


def test_functions_of_constants_are_pythons():
    @weft.kernel
    def kernel(out: weft.Tensor):
        out[0] = weft.math.exp(1j) * weft.math.sqrt(-4 + 0j)
        out[1] = weft.math.angle(1j) + weft.math.angle(-1.0)

    out = np.zeros(2, np.complex128)
    kernel[1, 1](out)
    assert np.allclose(out, [2j * np.exp(1j), 1.5 * np.pi])


def test_ptx_computes_functions():
    fakes = (weft.fake_tensor(weft.c64, ("n",)), weft.fake_tensor(weft.c64, (9, "n")))
    compiled = weft.compile(
        functions, *fakes, weft.fake_tensor(weft.f32, ("n",)), options="--gpu-arch sm_90a"
    )
    assert "st.global" in compiled.ptx and "call.uni" not in compiled.ptx


@weft.jit
def filled(n: weft.i32):
    return weft.zeros(n, weft.c128), weft.full(n, 2, weft.c128)


def test_numbers_of_16_bytes_are_aligned_among_a_launchs_arguments():
    compiled = weft.compile(filled, 5)
    assert "align 16" in next(
        one for one in compiled.host_llvm_ir.splitlines() if "%parameters" in one
    )
    zeros, twos = compiled(5)
    assert zeros.tolist() == [0] * 5
    assert twos.tolist() == [2] * 5
