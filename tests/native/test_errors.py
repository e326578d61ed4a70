# SPDX-License-Identifier: Apache-2.0
"""An error of a callee is the Python exception of its kind."""

import pytest

from tests.native.callee import address, foreign
from weft import _native


@pytest.mark.parametrize(
    "kind",
    [
        ValueError,
        TypeError,
        RuntimeError,
        IndexError,
        KeyError,
        MemoryError,
        NotImplementedError,
        OSError,
    ],
)
def test_a_kind_is_raised_as_the_class_of_its_name(kind):
    with pytest.raises(kind) as caught:
        foreign("raise")(kind.__name__, "what went wrong")
    assert type(caught.value) is kind
    assert caught.value.args == ("what went wrong",)


def test_an_unknown_kind_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="the message"):
        foreign("raise")("MadeUpError", "the message")


def test_a_registered_kind_is_raised_as_its_class():
    class RegisteredError(Exception):
        pass

    _native.register_error_kind("RegisteredError", RegisteredError)
    with pytest.raises(RegisteredError, match="the message"):
        foreign("raise")("RegisteredError", "the message")


def test_a_context_that_names_a_class_gives_its_other_arguments():
    class DetailedError(RuntimeError):
        def __init__(self, message, code, name):
            super().__init__(message)
            self.code, self.name = code, name

    _native.register_error_kind("DetailedError", DetailedError)
    with pytest.raises(DetailedError, match="with context") as caught:
        foreign("raise_with_context")(("DetailedError", 700, "a longer name"))
    assert (caught.value.code, caught.value.name) == (700, "a longer name")


@pytest.mark.parametrize("context", [("Unknown", 1), ("DetailedError",), (), (1, 2)])
def test_a_context_that_says_nothing_does_not_hide_the_error(context):
    with pytest.raises(RuntimeError, match="with context"):
        foreign("raise_with_context")(context)


def test_an_exception_through_foreign_code_is_the_same():
    exception = LookupError("the original")
    function = _native.Function.from_address(address("raise_original"), id(exception), exception)
    with pytest.raises(LookupError) as caught:
        function()
    assert caught.value is exception


@pytest.mark.parametrize("code", ["raise_pending", "raise_already_set"])
def test_a_pending_exception_is_raised_as_it_is(code):
    with pytest.raises(KeyboardInterrupt, match="pending"):
        foreign(code)()


def test_a_failure_without_an_error_is_a_system_error():
    with pytest.raises(SystemError, match="returned -1 without an error"):
        foreign("raise_nothing")()


def test_errors_carry_no_backtrace_by_default():
    with pytest.raises(ValueError, match="expected 10") as caught:
        foreign("raise_value_error")()
    assert not hasattr(caught.value, "__ffi_backtrace__")


def test_only_exception_classes_can_be_registered():
    with pytest.raises(TypeError):
        _native.register_error_kind("X", int)
