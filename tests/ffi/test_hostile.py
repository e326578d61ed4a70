# SPDX-License-Identifier: Apache-2.0
"""Wrong and hostile values are errors that say what is wrong, whatever they are passed to.

In: every public name of weft.ffi and a C++ function. Out: a result or an ordinary exception, never a crash or the
interpreter's complaint about one of ours.
"""

from __future__ import annotations

import array
import ctypes
import gc

import numpy as np
import pytest

from tests.ffi.building import build
from weft import ffi

pytestmark = pytest.mark.joined

LIBRARY = ffi.load_module(build("library.cpp"))


class HugeIndex:
    def __index__(self):
        return 1 << 70


def answering(method: str, answer: object) -> object:
    """An object whose protocol method gives that answer."""
    return type("Hostile", (), {method: lambda self, **_keywords: answer})()


PROTOCOLS = (
    "__tvm_ffi_int__",
    "__tvm_ffi_float__",
    "__tvm_ffi_opaque_ptr__",
    "__tvm_ffi_value__",
    "__tvm_ffi_object__",
    "__chandle__",
    "__dlpack__",
    "__dlpack_data_type__",
    "__dlpack_device__",
    "__cuda_stream__",
    "__array_namespace__",
)
ANSWERS = (None, "text", 1 << 70, HugeIndex(), (1 << 80, "x", -2), (-1, -1), [], object())


class RaisingMeta(type):
    def __getattribute__(cls, name):
        raise RuntimeError(f"no {name} here")


class Raising(metaclass=RaisingMeta):
    pass


class RaisingAttributes:
    def __getattr__(self, name):
        raise RuntimeError(f"no {name} here")


class RaisingEquality:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("not comparable")


class CallingFinalizer:
    def __del__(self):
        LIBRARY.echo([1, np.zeros(2)])


class LyingList(list):
    def __len__(self):
        return super().__len__() - 3

    def __iter__(self):
        raise RuntimeError("no iteration")


class LyingNames(tuple):
    _fields = (1, 2)


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


def recursive_list():
    made: list = []
    made.append(made)
    return made


def recursive_dict():
    made: dict = {}
    made["itself"] = made
    return made


def deep_list():
    made: list = []
    for _ in range(50_000):
        made = [made]
    return made


def moved_array():
    array = ffi.Array([1])
    ffi.Object(array.release(), borrowed=False)
    return array


def empty_any():
    value = ffi.Any([1])
    value.take()
    return value


VALUES = {
    **{
        f"{method} gives {type(answer).__name__}": lambda m=method, a=answer: answering(m, a)
        for method in PROTOCOLS
        for answer in ANSWERS
        if (method, answer) != ("__chandle__", 1 << 70)  # an address, and so its owner's word
    },
    **{
        made.__name__: made
        for made in (
            HugeIndex,
            RaisingAttributes,
            RaisingEquality,
            CallingFinalizer,
            recursive_list,
            recursive_dict,
            deep_list,
            moved_array,
            empty_any,
            object,
        )
    },
    "a lying list": lambda: LyingList([1, 2]),
    "lying names": lambda: LyingNames((1, 2)),
    "an unprintable exception": lambda: Unprintable("x"),
    "an instance of a class that raises": Raising,
    "a class that raises": lambda: Raising,
    "a generator": lambda: (number for number in (1, 2)),
    "a slice": lambda: slice(None),
    "nothing": lambda: None,
    "not a number": lambda: float("nan"),
    "a complex number": lambda: 2j,
    "a large number": lambda: 1 << 5000,
    "a lone surrogate": lambda: "\ud800",
    "a null character": lambda: "\0",
    "a long text": lambda: "x" * 100_000,
    "swapped bytes": lambda: np.zeros(2, ">f4"),
    "dates": lambda: np.zeros(2, "M8[s]"),
    "records": lambda: np.zeros(2, [("a", int)]),
    "texts": lambda: np.array(["a"]),
    "objects": lambda: np.array([object()]),
    "a masked array": lambda: np.ma.masked_array([1, 2], [0, 1]),
    "64 dims": lambda: np.zeros((1,) * 64),
    "a date": lambda: np.datetime64(1, "s"),
    "a null pointer": lambda: ctypes.c_void_p(None),
    "a C array": ctypes.c_int * 3,
    "an array": lambda: array.array("d", [1.0]),
    "a capsule": lambda: ffi.to_dlpack(np.zeros(2)),
    "a moved argument": lambda: ffi.Array([1]).move(),
}
INDICES = ("HugeIndex", "a large number")
# Of numbers these make what is at that address.
ADDRESSES = {"function_at", "Object", "Tensor", "Error", "String", "Bytes", "Module"}
# What changes the tables of the process.
CHANGES_TABLES = {"register_error", "register_global", "remove_global", "register_object"}
CALLED = {
    **{name: getattr(ffi, name) for name in ffi.__all__ if name not in CHANGES_TABLES},
    "echo": LIBRARY.echo,
    "echo in a list": lambda value: LIBRARY.echo([value]),
    "echo as a key": lambda value: LIBRARY.echo({"key": 1, 5: value}),
    "describe": LIBRARY.describe,
    "append": lambda value: ffi.List([1]).append(value),
    "index": lambda value: ffi.Array([1, 2])[value],
    "look-up": lambda value: ffi.Dict({"a": 1})[value],
    "comparison": lambda value: ffi.Array([1]) == value,
    "callback": lambda value: LIBRARY.apply(lambda given: given, value),
    "callback's result": lambda value: LIBRARY.apply(lambda: value),
    "callback on a thread": lambda value: LIBRARY.apply_on_thread(lambda given: value, 1),
    "raised": lambda value: ffi.wrap_function(lambda: (_ for _ in ()).throw(value))(),
    "tensor_type": lambda value: setattr(LIBRARY.echo, "tensor_type", value),
    "objects": lambda value: setattr(LIBRARY.echo, "objects", value),
    "__name__": lambda value: setattr(LIBRARY.echo, "__name__", value),
    "parameters": lambda value: ffi.name_parameters(LIBRARY.echo, "echo", value),
    "defaults": lambda value: ffi.name_parameters(LIBRARY.echo, "echo", ("a",), defaults=value),
    "stream": lambda value: ffi.use_stream(value, "cuda:0").__enter__(),
}
EXPECTED = (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, BufferError)


@pytest.mark.parametrize("name", CALLED)
def test_a_hostile_value_is_a_result_or_an_ordinary_error(name):
    for title, make in VALUES.items():
        if name in ADDRESSES and title in INDICES:
            continue
        try:
            CALLED[name](make())
        except SystemError as error:
            pytest.fail(f"{name} of {title}: {error!r}")
        except Exception as error:
            # Errors of the hostile value itself go through as they are.
            if isinstance(error, EXPECTED) and not isinstance(error, KeyError | Unprintable):
                assert str(error), f"{name} of {title}: {error!r} says nothing"
    ffi.use_stream(None, "cuda:0").__enter__()
    gc.collect()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (answering("__tvm_ffi_int__", "x"), r"Hostile\.__tvm_ffi_int__\(\) returned 'x', expected"),
        (answering("__tvm_ffi_float__", "x"), r"__tvm_ffi_float__\(\) returned 'x', expected a fl"),
        (answering("__tvm_ffi_opaque_ptr__", "x"), r"returned 'x', expected an address or None"),
        (answering("__dlpack_data_type__", (1, 2)), r"a tuple of 3 numbers, received \(1, 2\)"),
        (answering("__dlpack_device__", (1 << 80, 0)), "expected numbers from 0 to 2147483647"),
        (answering("__dlpack_device__", (1, None)), r"of 2 numbers, received \(1, None\)"),
    ],
)
def test_a_protocol_s_wrong_answer_is_quoted(value, message):
    with pytest.raises((TypeError, ValueError), match=rf"^echo: argument #0: .*{message}"):
        LIBRARY.echo(value)


STOPS = (KeyboardInterrupt, SystemExit, MemoryError, TimeoutError)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(
    "method", [name for name in PROTOCOLS if name.startswith(("__tvm", "__dl"))]
)
def test_what_a_protocol_s_method_raises_goes_through(method, stop):
    def raising(self, **_keywords):
        raise stop("from the method")

    # A producer of DLPack is asked for its device first.
    methods = {"__dlpack_device__": lambda self: (1, 0)} if method == "__dlpack__" else {}
    with pytest.raises(stop, match="from the method"):
        LIBRARY.echo(type("Stopping", (), {**methods, method: raising})())


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("method", ["__tvm_ffi_int__", "__tvm_ffi_float__", "__dlpack_device__"])
def test_what_a_protocol_s_answer_raises_goes_through(method, stop):
    def raising(self):
        raise stop("from the answer")

    answer = type("Number", (), {"__index__": raising, "__float__": raising})()
    given = (answer, 0) if method == "__dlpack_device__" else answer
    with pytest.raises(stop, match="from the answer"):
        LIBRARY.echo(answering(method, given))


def test_a_protocol_s_number_may_be_an_index_of_any_size():
    assert ffi.Any(answering("__tvm_ffi_int__", HugeIndex())).take() == 1 << 70


def test_an_error_names_the_function_and_the_way_to_the_item():
    masked = np.ma.masked_array([1, 2], [0, 1])

    def scale(values):
        return values

    for function, name in (
        (LIBRARY.echo, "echo"),
        (ffi.wrap_function(scale), scale.__qualname__),
        (ffi.get_global("ffi.Array"), "ffi.Array"),
        (ffi.name_parameters(LIBRARY.echo, "echo", ("value",)), "echo(value)"),
    ):
        place = "#0 'value" if "(" in name else "#0"
        with pytest.raises(TypeError, match="masked array") as caught:
            function((1, {"key": [masked]}))
        assert str(caught.value).startswith(f"{name}: argument {place}[1]['key'][0]")
    with pytest.raises(TypeError, match=r"^echo: argument #0\.keys\(\)\[<.*Hostile object"):
        LIBRARY.echo({"a": 1, answering("__tvm_ffi_int__", "x"): 2})
