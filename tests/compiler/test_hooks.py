# SPDX-License-Identifier: Apache-2.0
"""Post-compile hooks: what they break is theirs, and what they leave alone is not."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.compiler import pipeline
from weft.errors import InternalCompilerError


@weft.kernel
def double_kernel(a: weft.Tensor):
    a[weft.thread_idx.x] *= 2


@weft.jit
def double(a: weft.Tensor[weft.f32, ("n",)]):
    double_kernel(a).launch(grid=1, block=a.shape[0])


def symbols(module):
    return list(module.body.block.ops)


REMOVED = range(3)  # the kernel, the host function, the wrapper


@pytest.mark.parametrize("target", ["--target cpu", "--gpu-arch sm_90a"])
@pytest.mark.parametrize("index", REMOVED)
def test_a_hook_that_removes_an_operation_is_named_as_its_cause(index, target):
    def removes(module):
        symbols(module)[index].detach()

    with pytest.raises(weft.CompileError) as error:
        weft.compile(double, options=target, post_compile_hooks=[removes])
    assert error.value.code == "HOOK_BROKE_MODULE"
    assert "the post-compile hook removes left a module that cannot be compiled" in str(error.value)


def test_only_hooks_that_changed_the_module_are_named():
    def looks(module):
        assert symbols(module)

    def removes(module):
        symbols(module)[0].detach()

    with pytest.raises(weft.CompileError) as error:
        weft.compile(double, post_compile_hooks=[looks, removes])
    assert "hook looks" not in str(error.value)


def test_a_defect_of_weft_stays_one_where_hooks_only_look(monkeypatch):
    namespace = {"__name__": "weft.broken"}
    exec("def broken(*_, **__):\n    raise KeyError('layout')\n", namespace)
    monkeypatch.setattr(pipeline, "link", namespace["broken"])
    with pytest.raises(InternalCompilerError, match="this is a defect of weft"):
        weft.compile(double, post_compile_hooks=[lambda module: None])


def test_a_hook_may_change_what_still_compiles():
    def renames(module):
        for operation in module.walk():
            if operation.name == "simt.kernel":
                operation.attributes["mine"] = operation.attributes.get("mine") or weft_unit()

    fn = weft.compile(double, post_compile_hooks=[renames])
    fn(a := np.ones(2, np.float32))
    assert a.tolist() == [2, 2]
    assert "mine" in fn.ir_module


def weft_unit():
    from xdsl.dialects.builtin import UnitAttr

    return UnitAttr()


def test_what_a_hook_raises_is_what_the_caller_gets():
    def fails(module):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        weft.compile(double, post_compile_hooks=[fails])
