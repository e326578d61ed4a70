# SPDX-License-Identifier: Apache-2.0
"""The traceback of a user's error: the user's frames, at most one weft frame, and one screen in a notebook."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.errors import golden
from weft.arguments.base import MISSING
from weft.frontend.source import read_source
from weft.types.dtype import DType

FILES = sorted(golden.CASES.glob("*.txt"), key=lambda path: path.stem)
INTERNAL = ("weft", "xdsl", "llvmlite", "contextlib", "threading")


def chain(error):
    """The exceptions that Python prints."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def internal_frames(error):
    return [
        f"{frame.f_globals['__name__']}:{line}"
        for one in chain(error)
        for frame, line in traceback.walk_tb(one.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] in INTERNAL
    ]


def value_of(annotation):
    if annotation is MISSING or annotation is weft.Tensor:
        return np.zeros(64, np.float32)
    if isinstance(annotation, DType):
        return golden.MISSING_VALUE[annotation.kind]
    if isinstance(annotation, type(weft.Tensor[weft.f32, ("n",)])):
        return np.zeros((64,) * len(annotation.dims), np.float32)
    return None


def raised_by(call):
    try:
        call()
    except Exception as error:
        return error
    return None


JIT = type(weft.jit(value_of))


def ways(namespace):
    """The calls that compile a program, each by its name."""
    host, kernel = namespace.get("host"), namespace.get("kernel")
    function = host.function if isinstance(host, JIT) else host or kernel.function
    try:
        parameters = [p for p in read_source(function).parameters if not p.keyword_only]
    except weft.WeftError:  # wrong in itself; then the arguments do not matter
        parameters = []
    if host is None and parameters:
        function = golden._host_of(kernel)
    jit = host if isinstance(host, JIT) else weft.jit(function)
    examples = [golden._example(p.annotation) for p in parameters]
    yield "compile", lambda: weft.compile(jit, *examples, options="--target cpu")
    values = [value_of(p.annotation) for p in parameters]
    if all(value is not None for value in values):
        yield "call", lambda: jit(*values)
        if host is None:
            yield "bare launch", lambda: kernel[1, 32](*values)


def run(program):
    """The names and errors of the ways to run into what is wrong with a program."""
    lines = program.splitlines(keepends=True)
    linecache.cache[golden.FILE] = (len(program), None, lines, golden.FILE)
    namespace = {"weft": weft, "__name__": "program"}
    error = raised_by(lambda: exec(compile(program, golden.FILE, "exec"), namespace))
    if error is not None:
        return [("definition", error)]
    errors = [(way, raised_by(call)) for way, call in ways(namespace)]
    linecache.cache.pop(golden.FILE, None)
    return [(way, error) for way, error in errors if error is not None]


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_wrong_program_shows_at_most_one_frame_of_wefts(path, every):
    cases = golden.read_cases(path)[::every]
    errors = [(case.name, way, error) for case in cases for way, error in run(case.program)]
    found = {(name, way): internal_frames(error) for name, way, error in errors}
    assert {place: frames for place, frames in found.items() if len(frames) > 1} == {}
    assert {name for name, _, _ in errors} == {case.name for case in cases}


@weft.kernel
def fill_kernel(a: weft.Tensor[weft.f32, ("n",)], value: weft.f32 = 1.0):
    assert value > 0, "positive"
    a[weft.thread_idx.x] = value


@weft.jit
def fill(a: weft.Tensor[weft.f32, ("n",)], value: weft.f32 = 1.0):
    fill_kernel(a, value).launch(grid=1, block=a.shape[0])


class Owner:
    @weft.jit
    def fill(self: weft.Constexpr, a: weft.Tensor[weft.f32, ("n",)]):
        fill_kernel(a, 1.0).launch(grid=1, block=a.shape[0])

    launch = fill_kernel


A = np.zeros(2, np.float32)
CALLS = {
    "too few": fill,
    "wrong dtype": lambda: fill(A.astype(np.float64)),
    "no such kind": lambda: fill(object()),
    "wrong value": lambda: fill(A, 1e300),
    "an assertion in the kernel": lambda: fill(A, -1.0),
    "compiled": lambda: weft.compile(fill)(A.astype(np.int32)),
    "compile": lambda: weft.compile(fill, 3),
    "compile a kernel": lambda: weft.compile(fill_kernel),
    "compile nothing": weft.compile,
    "an option": lambda: weft.compile(fill, options="--fast"),
    "a typed option": lambda: weft.compile["--fast"],
    "brackets": lambda: fill_kernel[1],
    "a grid": lambda: fill_kernel[-1, 1](A),
    "bare launch": lambda: fill_kernel[1, 1](A, 1.0, 2.0),
    "bare launch of a list": lambda: fill_kernel[1, 1]([1.0]),
    "called": lambda: fill_kernel(A),
    "method": lambda: Owner().fill(A.astype(np.int32)),
    "method's brackets": lambda: Owner().launch[1],
    "a bound": lambda: weft.kernel(max_threads=5000),
    "no function": lambda: weft.jit(3),
    "a decorator's option": lambda: weft.jit(options="--fast"),
    "to": lambda: weft.compile(fill).to("tpu"),
    "preload": lambda: weft.compile(fill).preload(-1),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_entry_shows_at_most_one_frame_of_wefts(name):
    error = raised_by(CALLS[name])
    assert error is not None
    assert len(internal_frames(error)) <= 1, internal_frames(error)


def test_no_message_names_a_class_of_the_package():
    with pytest.raises(TypeError, match=r"^weft\.compile\(\) missing 1 required positional"):
        weft.compile()


def test_all_frames_are_there_for_who_asks():
    with weft.config.override(full_tracebacks=True):
        assert len(internal_frames(raised_by(CALLS["wrong dtype"]))) > 1


def test_a_defect_of_weft_keeps_its_frames(monkeypatch):
    from weft.compiler import pipeline

    namespace = {"__name__": "weft.broken"}
    exec("def broken(*_, **__):\n    raise KeyError('layout')\n", namespace)
    monkeypatch.setattr(pipeline, "link", namespace["broken"])
    error = raised_by(lambda: weft.compile(fill))
    assert isinstance(error, weft.InternalCompilerError)
    assert len(internal_frames(error)) > 2


def test_only_the_users_exception_context_stays():
    try:
        try:
            raise LookupError("mine")
        except LookupError:
            fill(object())
    except TypeError as error:
        assert isinstance(error.__context__, LookupError)
        assert error.__context__.__context__ is None
    else:
        pytest.fail("no error")


def test_the_users_own_frames_are_kept():
    class Odd:
        pass

    def adapter(value):
        raise ZeroDivisionError("mine")

    weft.register_argument(Odd, adapter)
    error = raised_by(lambda: fill(Odd()))
    names = [
        frame.f_code.co_name
        for one in chain(error)
        for frame, _ in traceback.walk_tb(one.__traceback__)
    ]
    assert "adapter" in names


@pytest.mark.parametrize("name", ["wrong dtype", "compile", "bare launch of a list", "an option"])
def test_a_notebook_shows_one_screen(name):
    """As IPython does: it asks the exception itself, and has frames of its own."""
    namespace = {"__name__": "IPython.core.interactiveshell", "call": CALLS[name]}
    exec("def run_code():\n    call()\n", namespace)
    error = raised_by(namespace["run_code"])
    if not isinstance(error, weft.WeftError):
        pytest.skip("an error of the call itself is Python's own")
    shown = error._render_traceback_()
    assert len(shown) <= 24
    assert shown[0].startswith("Traceback")
    own = f'File "{Path(weft.__file__).parent}'
    assert not any("run_code" in line or own in line for line in shown)
    assert f"[{error.code}]" in "\n".join(shown)
