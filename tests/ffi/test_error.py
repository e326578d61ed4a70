# SPDX-License-Identifier: Apache-2.0
"""Exceptions and errors become each other; the original survives; causes and frames are kept."""

from __future__ import annotations

import gc
import pickle
import sys
import traceback

import numpy as np
import pytest

from weft import ffi


class OwnError(ValueError):
    pass


def raiser(exception):
    def raise_it(*_arguments):
        raise exception

    return raise_it


@pytest.mark.parametrize("through", ["apply", "rethrow"])
@pytest.mark.parametrize(
    "exception",
    [
        ValueError("a"),
        KeyError("b"),
        OwnError("c"),
        KeyboardInterrupt(),
        SystemExit(3),
        StopIteration(4),
    ],
    ids=lambda exception: type(exception).__name__,
)
def test_an_exception_through_c_is_the_same_object(library, through, exception):
    with pytest.raises(type(exception)) as caught:
        getattr(library, through)(raiser(exception))
    assert caught.value is exception
    names = [frame.name for frame in traceback.extract_tb(exception.__traceback__)]
    assert names[-1] == "raise_it"


def test_nested_callbacks_keep_the_first_exception(library):
    exception = OwnError("inner")

    def outer():
        library.apply(raiser(exception))

    with pytest.raises(OwnError) as caught:
        library.apply(outer)
    assert caught.value is exception
    assert exception.__cause__ is None


def test_c_sees_kind_message_traceback_and_cause(library):
    def fail():
        try:
            raise KeyError("the reason")
        except KeyError as error:
            raise OwnError("what happened") from error

    kind, message, backtrace, cause = library.catch(fail)
    assert (kind, message) == ("ValueError", "what happened")
    assert f'File "{__file__}", line' in backtrace
    assert "in fail" in backtrace
    assert cause == "KeyError: 'the reason'"
    assert library.catch(lambda: None) == ()


def test_an_implied_cause_counts_unless_it_is_hidden(library):
    def implied():
        try:
            raise KeyError("reason")
        except KeyError:
            raise ValueError("result")  # noqa: B904

    def hidden():
        try:
            raise KeyError("reason")
        except KeyError:
            raise ValueError("result") from None

    assert library.catch(implied)[3] == "KeyError: 'reason'"
    assert library.catch(hidden)[3] is None


def test_the_kind_is_that_of_the_nearest_registered_class(library):
    class Unregistered(Exception):
        pass

    @ffi.register_error("weft_test.Special")
    class Special(RuntimeError):
        pass

    class MoreSpecial(Special):
        pass

    assert library.catch(raiser(Unregistered("x")))[0] == "RuntimeError"
    assert library.catch(raiser(OwnError("x")))[0] == "ValueError"
    assert library.catch(raiser(MoreSpecial("x")))[0] == "weft_test.Special"
    with pytest.raises(Special, match="from C"):
        library["raise"]("weft_test.Special", "from C")


def test_an_error_of_c_is_an_exception_with_a_note_of_its_frames(library):
    with pytest.raises(IndexError, match="too far") as caught:
        library["raise"]("IndexError", "too far")
    assert type(caught.value) is IndexError
    (note,) = caught.value.__notes__
    assert note.startswith("Foreign traceback (most recent call last):")
    assert "library.cpp" in note
    error = ffi.error_of(caught.value)
    assert (error.kind, error.message) == ("IndexError", "too far")
    assert "library.cpp" in error.backtrace
    assert "too far" in repr(error)


def test_an_exception_whose_text_cannot_be_shown_is_still_an_error(library):
    class Unspeakable(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    exception = Unspeakable()
    assert library.catch(raiser(exception))[1] == "an exception whose str() fails"
    with pytest.raises(Unspeakable):
        library.apply(raiser(exception))


def test_an_error_is_a_value_too(library):
    exception = OwnError("as a value")
    error = ffi.to_error(exception)
    assert isinstance(error, ffi.Error)
    assert (error.kind, error.message, error.cause) == ("ValueError", "as a value", None)
    assert error.context is exception
    assert error.exception() is exception
    assert library.echo(error) is error
    assert library.echo(exception) is exception
    assert library.describe(exception) == "ffi.Error"
    assert library.apply(lambda given: given, exception) is exception
    with pytest.raises(TypeError, match="expected an exception"):
        ffi.to_error("text")
    with pytest.raises(TypeError, match="is not an error"):
        ffi.Error.kind.fget(ffi.Array([1]))


def test_causes_become_causes_of_the_exception(library):
    inner = ffi.to_error(ValueError("inner"))
    assert ffi.error_of(ValueError("plain")) is None
    outer = ValueError("outer")
    outer.__cause__ = KeyError("inner")
    error = ffi.to_error(outer)
    assert error.cause.kind == "KeyError"
    assert inner.cause is None


def test_a_long_chain_of_causes_ends(library):
    first = last = ValueError("0")
    for depth in range(1, 200):
        last.__cause__ = ValueError(str(depth))
        last = last.__cause__
    last.__cause__ = first  # and a loop
    error, depth = ffi.to_error(first), 0
    while error.cause is not None:
        error, depth = error.cause, depth + 1
    assert depth == 16


def test_an_error_on_another_thread_is_reported(library):
    with pytest.raises(RuntimeError, match="ValueError: on a thread"):
        library.apply_on_thread(raiser(ValueError("on a thread")), 1)


def test_an_error_keeps_arguments_no_longer_than_itself(library):
    class Local:
        pass

    import weakref

    local = Local()
    reference = weakref.ref(local)

    def fail(value):
        raise ValueError("x")

    try:
        library.apply(fail, local)
    except ValueError:
        pass
    del local
    gc.collect()
    assert reference() is None


def test_raising_ten_thousand_times_leaves_nothing_behind(library):
    def fail():
        raise ValueError("x")

    def call():
        try:
            library.rethrow(fail)
        except ValueError:
            pass

    for _ in range(2000):
        call()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(2000):
        call()
    gc.collect()
    assert sys.getallocatedblocks() - before < 200


def test_errors_of_wrong_arguments_have_no_frames(library):
    with pytest.raises(TypeError) as caught:
        library.count_elements("not a tensor")
    assert "Mismatched type" in str(caught.value)
    with pytest.raises(ValueError, match="byte order"):
        library.count_elements(np.zeros(2, ">f4"))


def test_an_exception_that_was_made_of_an_error_can_be_pickled(library):
    with pytest.raises(ValueError) as caught:
        library["raise"]("ValueError", "to be sent to another process")
    del caught.value.__ffi_error__
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == "to be sent to another process"


def test_errors_cross_the_tvm_ffi_package_both_ways(library):
    import tvm_ffi

    exception = OwnError("there and back")
    ours = ffi.wrap_function(raiser(exception)).__tvm_ffi_object__()
    with pytest.raises(ValueError, match="there and back"):
        ours()

    def fail():
        raise ValueError("from their callback")

    with pytest.raises(ValueError, match="from their callback"):
        library.apply(tvm_ffi.convert(fail))
    with pytest.raises(OwnError) as caught:
        library.apply(ffi.wrap_function(raiser(exception)).__tvm_ffi_object__())
    assert caught.value is exception
