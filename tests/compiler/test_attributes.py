# SPDX-License-Identifier: Apache-2.0
"""What `dir` shows of functions: all that users may ask, and nothing of the package's own."""

from __future__ import annotations

import pytest

import weft

ASKED = {
    "architecture", "as_tvm_ffi", "cubin", "device", "engine", "executor", "export", "handle_address", "host_llvm_ir",
    "code_handle", "ir_module", "kernels", "llvm_ir", "name", "objects", "preload", "prepare", "ptx", "release_gil",
    "remarks", "safe_call_address", "sass", "scratch", "signature", "stages", "target", "tensor_type", "to",
    "to_object", "writes",
}  # fmt: skip


@weft.kernel
def fill_kernel(a: weft.Tensor):
    a[weft.thread_idx.x] = 1


@weft.jit
def fill(a: weft.Tensor[weft.f32, ("n",)]):
    fill_kernel(a).launch(grid=1, block=a.shape[0])


@pytest.fixture(scope="module")
def fn():
    return weft.compile(fill)


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_a_compiled_function_shows_all_that_it_can_be_asked(fn):
    assert public(dir(fn)) == ASKED
    assert public(dir(fn.to(0))) == ASKED


def test_all_that_is_shown_is_there(fn):
    for name in set(dir(fn)) - {"cubin", "sass"}:
        getattr(fn, name)


def test_a_foreign_function_shows_what_it_has():
    assert public(dir(weft.ffi.wrap_function(len))) == {
        "handle_address", "objects", "prepare", "release_gil", "safe_call_address", "tensor_type", "to_object",
        "writes",
    }  # fmt: skip


@pytest.mark.parametrize("function", [fill, fill_kernel])
def test_decorated_functions_show_no_internals(function):
    assert all(name.startswith("__") for name in set(dir(function)) - public(dir(function)))


def test_host_functions_show_their_specializations():
    assert public(dir(fill)) == {
        *("compiled_for", "default_options", "function", "specializations")
    }


@pytest.mark.parametrize("arguments", [(), (None,)])
def test_no_device_is_the_current_one(fn, arguments):
    assert fn.to(*arguments).device == 0
    assert fn.preload(*arguments) == {}
    assert fn.code_handle(*arguments) is None


@pytest.mark.parametrize("method", ["to", "preload", "code_handle", "as_tvm_ffi"])
def test_methods_are_named_as_they_are_called(fn, method):
    with pytest.raises(TypeError, match=rf"^{method}\(\) "):
        getattr(fn, method)(1, 2, 3)
