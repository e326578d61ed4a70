# SPDX-License-Identifier: Apache-2.0
"""A defect of weft itself reaches users as one error that says where it happened and how to report it."""

from __future__ import annotations

import linecache

import pytest

import weft
from tests.frontend.tracing import trace_kernel
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.frontend.expressions import attributes

# A function of weft, as far as its module's name says.
_NAMESPACE = {"__name__": "weft.broken"}
exec("def broken(*_arguments, **_keywords):\n    raise KeyError('layout')\n", _NAMESPACE)
broken = _NAMESPACE["broken"]


def kernel(a):
    x = 1.0
    a[0] = a[1] + x


def test_an_escaped_exception_is_an_internal_error(monkeypatch):
    monkeypatch.setattr(attributes.views, "subscript", broken)
    with pytest.raises(InternalCompilerError) as caught:
        trace_kernel(kernel)
    error = caught.value
    assert error.code == "INTERNAL"
    assert error.message == "tracing 'host' failed with KeyError: 'layout'"
    assert error.hint == REPORT_HINT
    assert error.location.line == kernel.__code__.co_firstlineno + 2
    assert "a[0] = a[1] + x\n           ^^^^" in str(error)
    assert isinstance(error.__cause__, KeyError)


def test_a_too_deeply_nested_expression_is_an_error():
    text = "def deep(a):\n    a[0] = " + "-" * 600 + "a[0]\n"
    namespace = {"weft": weft}
    linecache.cache["<deep>"] = (len(text), None, text.splitlines(keepends=True), "<deep>")
    exec(compile(text, "<deep>", "exec"), namespace)
    with pytest.raises(weft.CompileError, match="TOO_DEEP"):
        trace_kernel(namespace["deep"])
