# SPDX-License-Identifier: Apache-2.0
"""Host functions: launches, the kernels that they make, what they return, what is written."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import weft
from tests.frontend.tracing import kernel_of, ops, shortened, trace_host, vector, written_names
from weft.dialects.ffi.function import argument_result, none_result, scalar_result, tuple_result
from weft.dialects.simt.kernel import KernelOp, LaunchExOp
from weft.errors import SignatureError

F32 = vector(weft.f32)


@weft.kernel
def copy(a, b):
    i = weft.thread_idx.x
    b[i] = a[i]


@weft.kernel
def fill(a, value):
    a[weft.thread_idx.x] = value


def kernels(traced):
    return {op.sym_name.data: op for op in traced.module.body.block.ops if isinstance(op, KernelOp)}


def launches(traced):
    return [op for op in traced.module.walk() if isinstance(op, LaunchExOp)]


def two_kernels(a, b):
    copy(a, b).launch(grid=1, block=32)
    fill(a, 1.0).launch(grid=1, block=32)
    copy(b, a).launch(grid=2, block=64)


def test_several_kernels_and_one_kernel_twice():
    traced = trace_host(two_kernels, F32, F32)
    assert traced.kernels == ("copy", "fill")
    assert [op.kernel.string_value() for op in launches(traced)] == ["copy", "fill", "copy"]


def growing(a):
    run = 1
    while run < a.shape[0]:
        fill(a, run * 1.0).launch(grid=1, block=32)
        run *= 2


def test_a_kernel_of_a_discarded_round_is_not_in_the_module():
    traced = trace_host(growing, F32)
    assert traced.kernels == ("fill",)
    assert [op.kernel.string_value() for op in launches(traced)] == ["fill"]
    assert written_names(traced) == {"a"}


def specialized(a, b, n: weft.f64):
    fill(a, 1.0).launch(grid=1, block=32)
    fill(a, 2.0).launch(grid=1, block=32)
    fill(a, 1.0).launch(grid=1, block=32)
    fill(b, n).launch(grid=1, block=32)
    fill(b, n + 1).launch(grid=1, block=32)
    fill(b, weft.static(1.0)).launch(grid=1, block=32)


def test_each_type_and_each_static_value_has_its_own_kernel():
    traced = trace_host(specialized, F32, vector(weft.f64), 1.0)
    assert traced.kernels == ("fill", "fill_1", "fill_2")
    arguments = [len(op.body.block.args) for op in kernels(traced).values()]
    assert arguments == [2, 2, 1]


def test_kernel_arguments_keep_their_names():
    traced = trace_host(specialized, F32, vector(weft.f64), 1.0)
    names = [a.data["weft.name"].data for a in kernels(traced)["fill_1"].arg_attrs]
    assert names == ["a", "value"]


def blocks(a, b):
    copy(a, b).launch(grid=1, block=(16, 2))
    copy(a, b).launch(grid=(1, 2), block=(16, 2, 1))
    fill(a, 1.0).launch(grid=1, block=32)
    fill(a, 1.0).launch(grid=1, block=64)


def test_a_block_size_that_all_launches_have_is_the_kernels():
    found = kernels(trace_host(blocks, F32, F32))
    assert found["copy"].block_size == (16, 2, 1)
    assert found["fill"].block_size is None


def staged_block(a, n: weft.i32):
    fill(a, 0.0).launch(grid=n, block=32)
    fill(a, 0.0).launch(grid=1, block=n)


def test_a_block_known_at_run_time_is_not_an_attribute():
    (kernel,) = kernels(trace_host(staged_block, F32, 1)).values()
    assert kernel.block_size is None


@weft.kernel(max_threads=256, min_blocks=2, max_registers=64, cluster=(2, 1))
def declared(a):
    a[0] = 1.0


def with_everything(a, stream: weft.Stream, extra: weft.u32):
    declared(a).launch(
        8, 128, shared_memory_bytes=extra, stream=stream, cooperative=True, programmatic=True
    )
    copy(a, a).launch(grid=4, block=32, cluster=4, shared_memory_bytes=256)


def test_everything_that_a_launch_can_say():
    traced = trace_host(with_everything, F32, weft.Stream(0), 1)
    first, second = launches(traced)
    assert (first.is_cooperative, first.is_programmatic, first.cluster) == (True, True, (2, 1, 1))
    assert first.stream is not None
    assert first.shared_memory_bytes is not None
    assert (second.is_cooperative, second.is_programmatic, second.cluster) == (
        False,
        False,
        (4, 1, 1),
    )
    kernel = kernels(traced)["declared"]
    assert (kernel.max_threads, kernel.min_blocks, kernel.max_registers) == (256, 2, 64)
    assert kernel.cluster == (2, 1, 1)


def brackets(a, b):
    copy[a.shape[0], 128](a, b)


def test_brackets_launch_too():
    (launch,) = launches(trace_host(brackets, F32, F32))
    assert shortened(launch).endswith("args(%a, %b : T, T)")


def host_control_flow(a, b, n: weft.i32):
    if n > 4:
        copy(a, b).launch(grid=n, block=32)
    else:
        fill(a, 0.0).launch(grid=1, block=32)
    for step in range(n):
        fill(b, 1.0).launch(grid=step + 1, block=32)
        if step * step > n:
            break
    for value in (1.0, 2.0):
        fill(a, value).launch(grid=1, block=32)


def test_loops_and_branches_around_launches():
    traced = trace_host(host_control_flow, F32, F32, 3)
    text = str(traced.module)
    assert ops(text, "scf.if", "scf.while") == {"scf.if": 1, "scf.while": 1}
    assert len(launches(traced)) == 5
    assert traced.kernels == ("copy", "fill")


def helper_launches(a, b):
    launch_copy(a, b)


@weft.jit
def launch_copy(a, b):
    copy(a, b).launch(grid=1, block=32)


def test_a_host_function_can_call_another():
    assert len(launches(trace_host(helper_launches, F32, F32))) == 1


def test_written_arguments_are_those_that_kernels_store_to():
    assert written_names(trace_host(two_kernels, F32, F32)) == {"a", "b"}
    assert written_names(trace_host(brackets, F32, F32)) == {"b"}
    assert written_names(trace_host(specialized, F32, vector(weft.f64), 1.0)) == {"a", "b"}


@weft.kernel
def counts(a, b, c):
    scratch = weft.local(4, weft.i32)
    scratch[0] = a[0]
    weft.atomic_add(b, scratch[0], 1)


def counting(a, b, c):
    counts(a, b, c).launch(grid=1, block=32)


def test_atomics_write_and_local_arrays_do_not_count():
    traced = trace_host(counting, vector(), vector(), vector())
    assert written_names(traced) == {"b"}


class Pair(NamedTuple):
    first: object
    second: object


@weft.kernel
def with_pair(pair, sizes, name, f=abs, *, scale: weft.f32 = 2):
    pair.first[sizes[0]] = f(pair.second) * scale + sizes[1][0] + len(name)


def structured(a, x: weft.f32, n: weft.i32):
    with_pair(Pair(a, x), (n, (3,)), "four").launch(grid=1, block=1)
    with_pair(Pair(a, x), (n, (3,)), "five", scale=x).launch(grid=1, block=1)


def test_tuples_names_functions_and_defaults_as_kernel_arguments():
    traced = trace_host(structured, F32, 1.0, 1)
    first, second = kernels(traced).values()
    names = [a.data["weft.name"].data for a in first.arg_attrs]
    assert names == ["pair.0", "pair.1", "sizes.0", "sizes.1", "scale"]
    assert "arith.constant 2.000000e+00 : f32" in str(traced.module)
    assert [a.data["weft.name"].data for a in second.arg_attrs][-1] == "scale"
    assert written_names(traced) == {"a"}


def static_dims(a: weft.Tensor[weft.f32, (16, None), "strided"]):
    fill_corner(a, a.shape[0]).launch(grid=1, block=1)


@weft.kernel
def fill_corner(a, rows: weft.Constexpr[int]):
    a[rows - 1, a.shape[0] - 1] = 1.0


def test_static_dims_are_constants_in_host_and_kernel():
    text = str(
        kernel_of(trace_host(static_dims, weft.fake_tensor(weft.f32, (16, None), "strided")))
    )
    assert "[16, ?], strided" in text
    assert "simt.dim" not in text


def returns_nothing(a):
    fill(a, 0.0).launch(grid=1, block=1)


def returns_a_tree(a, b, n: weft.u16):
    return n + 1, (b, 2.5, None), [True, a], a.shape[0]


def returns_early(n: weft.i32):
    if n > 3:
        return 1.0
    return 2.0 * n


def test_what_a_host_function_returns():
    nothing = trace_host(returns_nothing, F32)
    assert nothing.result == none_result()
    assert not nothing.returns_objects
    tree = trace_host(returns_a_tree, F32, F32, 1)
    assert tree.result == tuple_result(
        [
            scalar_result(0, weft.u16),
            tuple_result([argument_result("b"), scalar_result(1, weft.f64), none_result()]),
            tuple_result([scalar_result(2, weft.bool_), argument_result("a")]),
            scalar_result(3, weft.i32),
        ]
    )
    assert tree.returns_objects
    assert trace_host(returns_early, 1).result == scalar_result(0, weft.f32)


def copy_itself(a, b):
    copy(a, b).launch(grid=1, block=1)


copy_itself.__name__ = "copy"


def test_a_kernel_never_has_the_host_functions_symbol():
    def copy_host(a, b):
        copy(a, b).launch(grid=1, block=1)

    code = copy_host.__code__.replace(co_name="copy")
    del code
    traced = trace_host(copy_host, F32, F32)
    assert traced.kernels == ("copy",)


def none_and_constants(a, b, size: weft.Constexpr[int], scale=None):
    fill(a, 1.0 if scale is None else scale).launch(grid=size, block=1)


def test_none_and_constexpr_parameters_are_not_arguments():
    traced = trace_host(none_and_constants, F32, F32, 7, None)
    host = [op for op in traced.module.body.block.ops][-1]
    assert len(host.function_type.inputs) == 2
    traced = trace_host(none_and_constants, F32, F32, 7, 1.0)
    assert traced.kernels == ("fill",)


def environment_stream(a, stream):
    fill(a, 1.0).launch(grid=1, block=1, stream=stream)


def test_the_stream_is_an_argument_of_the_host_function():
    traced = trace_host(environment_stream, F32, weft.environment_stream())
    assert "!simt.stream" in str(traced.module)


def test_a_missing_argument_is_the_signatures_error():
    with pytest.raises(SignatureError):
        trace_host(returns_nothing)
