# SPDX-License-Identifier: Apache-2.0
"""The C++ library, loaded once."""

import pytest

from tests.ffi.building import build
from weft import ffi


@pytest.fixture(scope="session")
def library() -> ffi.Module:
    return ffi.load_module(build("library.cpp"))
