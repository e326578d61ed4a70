# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the compiler."""

import pytest

from weft.compiler import pipeline


@pytest.fixture
def compilations(monkeypatch):
    """The names of the functions that are compiled during the test."""
    names = []
    original = pipeline.compile_function

    def counting(function, *arguments, **keywords):
        names.append(function.function.__name__)
        return original(function, *arguments, **keywords)

    monkeypatch.setattr(pipeline, "compile_function", counting)
    return names
