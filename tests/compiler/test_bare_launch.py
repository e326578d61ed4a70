# SPDX-License-Identifier: Apache-2.0
"""`kernel[grid, block](args)`: the same launch, sizes and words as in a host function."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@weft.kernel
def add_kernel(a: weft.Tensor, value, *, times: weft.Constexpr[int] = 1):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        a[i] += value * times


@weft.kernel
def grid_kernel(grid: weft.Tensor, block):
    grid[weft.thread_idx.x] = weft.f32(block)


@weft.kernel
def first_kernel(a: weft.Tensor, /, b: weft.Tensor):
    a[0] = b[0]


@weft.jit
def add(a: weft.Tensor, blocks: int):
    add_kernel(a, 1).launch(grid=blocks, block=32)


@weft.jit
def add_nothing(a: weft.Tensor):
    add_kernel(a, 1).launch(grid=(1, 0), block=32)


def zeros(n=40):
    return np.zeros(n, np.float32)


def test_arguments_are_passed_by_position_by_name_and_by_default():
    a = zeros()
    add_kernel[2, 32](a, 1)
    add_kernel[(2, 1, 1), (32, 1)](value=1, a=a)
    add_kernel[2, 32](a, 1, times=3)
    assert (a == 5).all()


def test_another_grid_compiles_nothing_and_another_block_does(compilations):
    a = zeros()
    for grid in (1, 2, (1, 2, 3)):
        add_kernel[grid, 8](a, 2.0)
    assert compilations == ["add_kernel"]
    add_kernel[1, 16](a, 2.0)
    assert compilations == ["add_kernel"] * 2


def test_parameters_may_be_called_grid_and_block():
    grid = zeros(3)
    grid_kernel[1, 3](grid, block=7)
    assert grid.tolist() == [7, 7, 7]
    a, b = zeros(1), np.ones(1, np.float32)
    first_kernel[1, 1](a, b=b)
    assert a[0] == 1


def test_a_grid_of_no_blocks_launches_nothing_whoever_launches():
    a = zeros()
    add_kernel[0, 32](a, 1)
    add_kernel[(1, 0), 32](a, 1)
    add(a, 0)
    add_nothing(a)
    assert (a == 0).all()


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ((-1, 32), "add_kernel[...]: grid.x is -1, expected 0 to 2147483647"),
        ((1 << 31, 32), "add_kernel[...]: grid.x is 2147483648, expected 0 to 2147483647"),
        (((1, 65536), 32), "add_kernel[...]: grid.y is 65536, expected 0 to 65535"),
        ((1, 0), "add_kernel[...]: block.x is 0, expected 1 to 1024"),
        ((1, (1, 1, 65)), "add_kernel[...]: block.z is 65, expected 1 to 64"),
        ((1, (64, 32)), "add_kernel[...]: block has 2048 threads, expected at most 1024"),
    ],
)
def test_a_size_out_of_range_is_a_value_error_with_both_numbers(configuration, message):
    with pytest.raises(weft.ArgumentValueError) as caught:
        add_kernel[configuration]
    assert caught.value.message == message


def test_messages_name_the_users_kernel():
    a = zeros()
    with pytest.raises(TypeError) as caught:
        add_kernel[1, 32](a, 1, 2)
    assert str(caught.value) == "add_kernel() takes 2 positional arguments but 3 were given"
    with pytest.raises(TypeError) as caught:
        add_kernel[1, 32](a)
    assert str(caught.value) == "add_kernel() missing 1 required positional argument: 'value'"
    with pytest.raises(TypeError) as caught:
        add_kernel[1, 32](a, 1, grid=2)
    assert str(caught.value) == "add_kernel() got an unexpected keyword argument 'grid'"


@weft.kernel
def dynamic_kernel(a: weft.Tensor):
    weft.dynamic_shared(64, weft.f32)[0] = a[0]


@weft.kernel(max_threads=16)
def bounded_kernel(a: weft.Tensor):
    a[0] = 1


def test_a_launch_error_is_at_the_users_line():
    with pytest.raises(weft.CompileError) as caught:
        bounded_kernel[1, 32](zeros())
    assert caught.value.code == "LAUNCH_BLOCK_TOO_LARGE"
    assert caught.value.location.file == __file__
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("in test_a_launch_error_is_at_the_users_line")
    assert lines[1:3] == ["    bounded_kernel[1, 32](zeros())", "    " + "^" * 30]
    with pytest.raises(weft.CompileError) as caught:
        dynamic_kernel[1, 32](zeros())
    assert "    dynamic_kernel[1, 32](zeros())" in str(caught.value)
    assert (
        "dynamic_kernel(...).launch(grid=..., block=..., shared_memory_bytes=...)"
        in caught.value.hint
    )


def test_an_error_of_the_kernel_stands_in_the_kernel():
    @weft.kernel
    def wrong_kernel(a: weft.Tensor):
        a[0] = "x"

    with pytest.raises(weft.CompileError) as caught:
        wrong_kernel[1, 32](zeros())
    assert 'a[0] = "x"' in str(caught.value)
    assert "wrong_kernel[" not in str(caught.value)


def test_the_kernel_has_the_users_name():
    def hook(module):
        names.append(str(module))

    names: list[str] = []
    add_kernel[1, 64](zeros(), 1)
    host = add_kernel._bare_host_grid.call
    compiled = weft.compile(
        host, zeros(), 1, grid=(1, 1, 1), block=(64, 1, 1), post_compile_hooks=[hook]
    )
    assert list(compiled.kernels) == ["add_kernel"]
    assert compiled.name == "add_kernel"
    assert "func.func @add_kernel_host" in names[0]


def test_variadic_kernels_are_refused_at_their_parameter():
    @weft.kernel
    def starred(*everything):
        everything[0][0] = 1.0

    with pytest.raises(weft.UnsupportedSyntaxError, match="STARRED_PARAMETER") as caught:
        starred[1, 1](np.zeros(1, np.float32))
    assert "def starred(*everything):" in str(caught.value)


@weft.kernel
def index_kernel(a: weft.Tensor):
    i = weft.grid(1)
    a[i] = i


@weft.jit
def index(a: weft.Tensor, blocks: weft.Constexpr = 2):
    index_kernel(a).launch(grid=blocks, block=2)
    return a


@weft.jit
def index_on(a: weft.Tensor, on: weft.Stream):
    index_kernel[1, 2, on](a)
    index_kernel[1, 2](a, stream=on)


@weft.kernel
def own_kernel(a: weft.Tensor, stream: weft.i32):
    a[0] = stream


@pytest.mark.parametrize(
    "launch",
    [
        lambda a: index_kernel[2, 2, 0](a=a),
        lambda a: index_kernel[2, 2, None](a=a),
        lambda a: index_kernel[2, 2](a, stream=weft.Stream(0)),
        lambda a: index_kernel[2, 2](a, stream=None),
        lambda a: index(a, stream=0),
        lambda a: index(blocks=2, a=a, stream=weft.Stream(0)),
        lambda a: index(a, stream=None),
    ],
)
def test_a_launch_and_a_call_take_a_stream(launch):
    a = np.zeros(4, np.int32)
    launch(a)
    assert a.tolist() == [0, 1, 2, 3]


def test_a_call_on_a_stream_has_the_result_and_a_stream_parameter():
    a = np.zeros(4, np.int32)
    assert index(a, 1, stream=0) is a
    assert a.tolist() == [0, 1, 0, 0]
    compiled = vars(index)["_bare_host_stream_on_stream"].call.specializations[-1]
    assert "stream: Stream" in str(compiled.signature)


def test_an_own_parameter_called_stream_stays_one():
    a = np.zeros(1, np.int32)
    own_kernel[1, 1](a, stream=5)
    assert a[0] == 5


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (lambda a: index(a, stream="x"), "argument 'stream'"),
        (lambda a: index_kernel[1, 2, "x"](a=a), "argument 'stream'"),
        (lambda a: index_kernel[1, 2, 0](a, stream=0), "received a stream in its brackets"),
        (lambda a: index_kernel[1, 2, 0, 0](a=a), "takes a grid, a block and possibly a stream"),
        (lambda a: index_on(a, 0, stream=0), "its stream is the argument 'on'"),
    ],
)
def test_a_wrong_stream_is_refused(launch, message):
    with pytest.raises(weft.WeftError, match=message):
        launch(np.zeros(4, np.int32))
