# SPDX-License-Identifier: Apache-2.0
"""Every public name of weft.ffi is documented, with an example that holds."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from docs.generate_reference import ffi_documentation, ffi_page
from weft import ffi


@pytest.mark.joined
@pytest.mark.parametrize("name", ffi.__all__)
def test_the_example_of_the_name_holds(name):
    names = {public: getattr(ffi, public) for public in ffi.__all__}
    parsed = doctest.DocTestParser().get_doctest(
        ffi_documentation(name), {**names, "np": np}, f"weft.ffi.{name}", name, 0
    )
    assert parsed.examples, f"weft.ffi.{name} has no example"
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(parsed, out=said.append)
    assert not said, "".join(said)


def test_every_name_has_a_heading_in_the_reference():
    page = ffi_page()
    assert [name for name in ffi.__all__ if f"\n## `weft.ffi.{name}" not in page] == []
