# SPDX-License-Identifier: Apache-2.0
"""weft's functions in programs that JAX compiles: what XLA passes, what it gets back, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

import weft
from tests.sampling import sampled
from weft.errors import SignatureError

jax = pytest.importorskip("jax", reason="needs jax: make test JAX=1")
jnp = jax.numpy
np = pytest.importorskip("numpy")
pytestmark = [pytest.mark.jax]

VECTOR = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def scale_kernel(a: weft.Tensor, out: weft.Tensor, factor):
    for i in weft.each(a.shape[0]):
        out[i] = factor * a[i]


@weft.jit
def scale(a: VECTOR, out: VECTOR, factor: weft.f32 = 2.0):
    scale_kernel(a, out, factor).launch(over=a.shape[0])


@weft.kernel
def add_to_kernel(total: weft.Tensor, a: weft.Tensor):
    for i in weft.each(a.shape[0]):
        total[i] += a[i]


@weft.jit
def add_to(total: VECTOR, a: VECTOR):
    add_to_kernel(total, a).launch(over=a.shape[0])


@weft.kernel
def divide_kernel(rest: weft.Tensor, a: weft.Tensor, quotient: weft.Tensor, by):
    for i, j in weft.each(a.shape):
        quotient[i, j] = a[i, j] // by
        rest[i, j] = a[i, j] % by


@weft.jit
def divide(
    rest, a, quotient, /, *, by: weft.Constexpr[int], flag: bool = True, stream: weft.Stream
):
    if flag:
        divide_kernel(rest, a, quotient, by).launch(over=a.shape, stream=stream)
    return a.shape[0]


@weft.kernel
def copy_kernel(a: weft.Tensor, out: weft.Tensor):
    for i in weft.each(a.shape[0]):
        out[i] = a[i]


@weft.jit
def copy(a, out):
    copy_kernel(a, out).launch(over=a.shape[0])


def like(a, *_, **__):
    return a


scaled = weft.jax.function(scale, outputs={"out": like})
copied = weft.jax.function(copy, outputs={"out": like})


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_one_compilation_serves_all_shapes(count: int):
    program = jax.jit(lambda a: scaled(scaled(a, 3.0)) + 1)
    a = jnp.arange(count, dtype=jnp.float32)
    for _ in range(2):
        np.testing.assert_array_equal(program(a), 6 * np.arange(count) + 1)


@pytest.mark.parametrize(
    "dtype",
    sampled(
        [
            *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "complex64"),
            "float16",
            "bfloat16",
            "float32",
            "float8_e4m3fn",
            "float8_e5m2",
        ],
        3,
    ),
)
def test_element_types(dtype: str):
    a = jnp.array([0, 1, 2, 3], dtype=dtype)
    out = jax.jit(copied)(a)
    assert out.dtype == a.dtype and out.tolist() == a.tolist()


def test_several_results_constants_and_xlas_stream():
    divided = weft.jax.function(
        divide,
        outputs={"quotient": lambda a, by, flag: a, "rest": lambda a, by, flag: a},
    )
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    quotient, rest = jax.jit(lambda a: divided(a, by=5))(a)
    np.testing.assert_array_equal(quotient, a // 5)
    np.testing.assert_array_equal(rest, a % 5)
    assert jax.jit(lambda a: divided(a, by=7)[1])(a).tolist() == (a % 7).tolist()


def test_writes_are_results_and_the_argument_keeps_its_values():
    added = weft.jax.function(add_to, mutates_args="total")
    program = jax.jit(lambda total, a: (added(total, a), total * 1))
    total, a = jnp.ones(3), jnp.arange(3.0)
    new, old = program(total, a)
    assert new.tolist() == [1, 2, 3] and old.tolist() == [1, 1, 1] == total.tolist()


def test_a_donated_argument_is_written_in_place():
    added = weft.jax.function(add_to, mutates_args=["total"])
    program = jax.jit(added, donate_argnums=0)
    total, a = jnp.ones(1000), jnp.ones(1000)
    address = total.unsafe_buffer_pointer()
    new = program(total, a)
    assert total.is_deleted() and new.unsafe_buffer_pointer() == address
    assert set(new.tolist()) == {2.0}


def test_a_compiled_function_is_called_as_it_is():
    vector = weft.fake_tensor(weft.f32, ("n",))
    compiled = weft.compile(scale, vector, vector, 1.0)
    function = weft.jax.function(compiled, outputs={"out": like})
    assert jax.jit(function, static_argnums=1)(jnp.ones(2), 4.0).tolist() == [4, 4]


def test_a_loop_of_jax_calls_it_on_each_turn():
    program = jax.jit(lambda a: jax.lax.fori_loop(0, 10, lambda _, b: scaled(b), a))
    assert program(jnp.ones(2)).tolist() == [1024, 1024]


def test_a_batch_is_refused_or_taken_one_by_one():
    batch = jnp.arange(6.0).reshape(2, 3)
    with pytest.raises(NotImplementedError, match="vmap_method is one of 'sequential'"):
        jax.vmap(scaled)(batch)
    each = weft.jax.function(scale, outputs={"out": like}, vmap_method="sequential")
    assert jax.vmap(each)(batch).tolist() == (2 * batch).tolist()


def test_a_derivative_is_the_users_to_define():
    with pytest.raises(ValueError, match=r"weft.scale` cannot be differentiated"):
        jax.grad(lambda a: scaled(a).sum())(jnp.ones(2))
    with_derivative = jax.custom_vjp(lambda a: scaled(a, 3.0))
    with_derivative.defvjp(
        lambda a: (scaled(a, 3.0), None), lambda _, gradient: (scaled(gradient, 3.0),)
    )
    assert jax.grad(lambda a: with_derivative(a).sum())(jnp.ones(2)).tolist() == [3, 3]


def test_a_failing_check_of_a_function_fails_xlas_program():
    shorter = lambda a, factor: jax.ShapeDtypeStruct((a.shape[0] - 1,), a.dtype)
    program = jax.jit(weft.jax.function(scale, outputs={"out": shorter}))
    message = "INVALID_ARGUMENT: ValueError: scale.*'out': shape.0. is 4, expected 5 to match"
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
            jax.block_until_ready(program(jnp.ones(5)))
    assert scaled(jnp.ones(1)).tolist() == [2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (scaled, r"scale\(\) missing a required argument: 'a'"),
        (lambda: scaled(jnp.ones(2), 1.0, 2.0), r"scale\(\) too many positional arguments"),
        (lambda: scaled(jnp.ones(2, jnp.int32)), "'a': its dtype is i32"),
        (lambda: scaled(jnp.ones((2, 2))), "'a': its shape is"),
        (lambda: scaled((1, 2)), r"argument 'a' is \(1, 2\)"),
        (lambda: copied(jnp.ones(2, jnp.float8_e3m4)), "elements of float8_e3m4"),
        (lambda: jax.jit(scaled)(jnp.ones(2), 3.0), "'factor' is known only when XLA's program"),
    ],
)
def test_wrong_arguments_are_refused_when_jax_traces(call, message: str):
    with pytest.raises((SignatureError, TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "neither outputs nor mutates_args"),
        ({"outputs": {"b": like}}, "outputs has 'b', expected names of its tensors: a, out"),
        ({"mutates_args": "factor"}, "mutates_args has 'factor'"),
        ({"outputs": {"out": 3}}, "expected a function that returns its shape"),
        (
            {"outputs": {"out": like}, "mutates_args": "out"},
            "'out' is in mutates_args and in outputs",
        ),
        ({"mutates_args": "out", "vmap_method": "expand_dims"}, "vmap_method is 'expand_dims'"),
        ({"mutates_args": "out", "platform": "tpu"}, "platform is 'tpu'"),
    ],
)
def test_wrong_options_are_refused(options, message: str):
    with pytest.raises(SignatureError, match=message):
        weft.jax.function(scale, **options)


def test_what_else_a_kernel_writes_has_to_be_named():
    forgotten = weft.jax.function(divide, outputs={"quotient": like})
    with pytest.raises(SignatureError, match="kernels write 'rest', which is neither"):
        forgotten(jnp.ones((2, 2), jnp.int32), jnp.ones((2, 2), jnp.int32), by=2)


def test_only_functions_of_weft_are_taken():
    with pytest.raises(
        TypeError, match=r"takes a @weft.jit function or the result of weft.compile"
    ):
        weft.jax.function(lambda a: a, outputs={"a": like})


def test_a_changed_global_is_noticed(monkeypatch: pytest.MonkeyPatch):
    shifted = weft.jax.function(shift, outputs={"out": like})
    assert shifted(jnp.zeros(1)).tolist() == [1]
    monkeypatch.setitem(globals(), "SHIFT", 5.0)
    assert shifted(jnp.zeros(1)).tolist() == [5]


SHIFT = 1.0


@weft.kernel
def shift_kernel(a: weft.Tensor, out: weft.Tensor):
    out[0] = a[0] + SHIFT


@weft.jit
def shift(a, out):
    shift_kernel(a, out).launch(grid=1, block=1)


def test_a_manual_call_without_attributes_is_an_error():
    scaled(jnp.ones(1))
    by_hand = jax.ffi.ffi_call("weft.scale", jax.ShapeDtypeStruct((1,), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="needs the attributes function"):
        by_hand(jnp.ones(1))
    numbers = np.zeros(0, np.int64)
    with pytest.raises(jax.errors.JaxRuntimeError, match="NOT_FOUND: this process has no function"):
        by_hand(jnp.ones(1), function="weft.jax.none", arguments="", numbers=numbers)


@pytest.mark.slow
def test_a_program_that_jax_kept_on_disk_runs_in_another_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import jax, weft\n"
        f"jax.config.update('jax_compilation_cache_dir', {str(tmp_path / 'kept')!r})\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
        "jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)\n"
        "from tests.test_jax import scaled\n"
        "assert jax.jit(lambda a: scaled(a, 3.0))(jax.numpy.ones(2)).tolist() == [3, 3]\n"
    )
    for _ in range(2):
        result = subprocess.run(
            ["env", "PYTHONPATH=.", sys.executable, str(program)], capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
    assert list((tmp_path / "kept").iterdir())
