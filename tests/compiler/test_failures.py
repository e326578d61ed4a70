# SPDX-License-Identifier: Apache-2.0
"""A compilation that fails, in whatever stage, says so once and leaves nothing behind."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import weft
from weft.compiler import pipeline
from weft.errors import REPORT_HINT, InternalCompilerError

# Where each stage begins: what it calls, and how its defect is named.
STAGES = {
    "signature": ("choose_target", "the signature of 'double'"),
    "trace": ("weft.frontend.trace.host_parameters", "tracing 'double'"),
    "passes": ("lay_out_shared_memory", "the pass broken of 'double'"),
    "wrapper": ("attach_ffi_wrapper", "the pass broken of 'double'"),
    "printing": ("weft.backends.cpu.stages.print_kernels", "the target cpu of 'double'"),
    "object": ("weft.backends.cpu.stages.link_and_emit", "the target cpu of 'double'"),
    "linking": ("link", "linking of 'double'"),
}


def make_double():
    @weft.kernel
    def double_kernel(a: weft.Tensor):
        i = weft.thread_idx.x
        if i < a.shape[0]:
            a[i] = a[i] * 2

    @weft.jit
    def double(a: weft.Tensor):
        double_kernel(a).launch(grid=1, block=32)

    return double


# A function of weft, as far as its module's name says.
_NAMESPACE = {"__name__": "weft.broken"}
exec("def broken(*_arguments, **_keywords):\n    raise KeyError('layout')\n", _NAMESPACE)
broken = _NAMESPACE["broken"]


def patched(monkeypatch, name):
    monkeypatch.setattr(name if "." in name else f"{pipeline.__name__}.{name}", broken)


@pytest.mark.parametrize("stage", STAGES)
def test_a_defect_of_any_stage_is_reported_once(stage, monkeypatch):
    name, words = STAGES[stage]
    patched(monkeypatch, name)
    with pytest.raises(InternalCompilerError) as caught:
        weft.compile(make_double(), np.ones(4, np.float32))
    error = caught.value
    assert error.code == "INTERNAL"
    assert error.message == f"{words} failed with KeyError: 'layout'"
    assert error.hint == REPORT_HINT
    assert error.location.file == __file__
    assert "def double(a: weft.Tensor):" in str(error)
    assert isinstance(error.__cause__, KeyError)


def test_a_defect_while_printing_names_the_line_that_was_printed(monkeypatch):
    from weft.backends.cpu.lowering import tables
    from weft.dialects.simt.memory import StoreOp

    monkeypatch.setitem(tables.KERNEL_ROWS, StoreOp, broken)
    with pytest.raises(InternalCompilerError) as caught:
        weft.compile(make_double(), np.ones(4, np.float32))
    assert caught.value.message == "printing simt.store as LLVM failed with KeyError: 'layout'"
    assert "a[i] = a[i] * 2\n" in str(caught.value)


@pytest.mark.parametrize("stage", STAGES)
def test_after_a_failure_in_any_stage_the_same_function_compiles(stage, monkeypatch):
    double = make_double()
    a = np.ones(4, np.float32)
    with monkeypatch.context() as context:
        patched(context, STAGES[stage][0])
        for _ in range(2):
            with pytest.raises(InternalCompilerError):
                double(a)
            with pytest.raises(InternalCompilerError):
                weft.compile(double, a)
    assert (a == 1).all()
    double(a)
    weft.compile(double, a)(a)
    assert (a == 4).all()


@pytest.mark.parametrize("make", [lambda: nested(400), lambda: looped([])])
def test_endlessly_nested_arguments_are_an_error(make):
    @weft.jit
    def take(a):
        return None

    for call in (take, lambda value: weft.compile(take, value)):
        with pytest.raises(weft.CompileError, match="TOO_DEEP"):
            call(make())


def nested(depth: int):
    value: tuple = ()
    for _ in range(depth):
        value = (value,)
    return value


def looped(items: list):
    items.append(items)
    return items


def test_a_users_error_leaves_nothing_behind():
    double = make_double()
    with pytest.raises(weft.CompileError):
        double(np.ones((2, 2), np.float32))
    with pytest.raises(weft.SignatureError):
        double(None)
    a = np.ones(4, np.float32)
    double(a)
    assert (a == 2).all()
    # The failed set of types is not remembered, neither as compiled nor as broken.
    assert len(double.specializations) == 1 and not double._specializations._locks


def test_the_exception_of_a_users_adapter_is_the_users():
    class Image:
        pass

    def adapter(_image):
        raise ZeroDivisionError("mine")

    weft.register_argument(Image, adapter)
    with pytest.raises(ZeroDivisionError, match="mine"):
        weft.compile(make_double(), Image())


def test_every_waiting_thread_gets_the_failure(monkeypatch):
    double, errors = make_double(), []
    a = np.ones(4, np.float32)
    double(np.ones(1))  # another type: which parameters are constants is known then
    start = threading.Barrier(4)

    def work():
        start.wait()
        try:
            double(a)
        except InternalCompilerError as error:
            errors.append(error)

    with monkeypatch.context() as context:
        patched(context, "lay_out_shared_memory")
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(errors) == 4
    double(a)
    assert (a == 2).all()
