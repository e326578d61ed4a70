# SPDX-License-Identifier: Apache-2.0
"""The C++ library, loaded once."""

import gc

import pytest

from tests.ffi.building import build
from weft import ffi


@pytest.fixture(scope="module")
def small_heap():
    """What is there already is left out of collections, so that each takes microseconds."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def library() -> ffi.Module:
    return ffi.load_module(build("library.cpp"))
