# SPDX-License-Identifier: Apache-2.0
"""The C++ library, loaded once."""

import gc

import pytest

from tests.ffi.building import build
from weft import ffi


@pytest.fixture(scope="module")
def small_heap():
    """Leaves what earlier tests imported out of collections, so that each takes microseconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def library() -> ffi.Module:
    return ffi.load_module(build("library.cpp"))
