# SPDX-License-Identifier: Apache-2.0
"""Pages that are written by a program are what that program writes now."""

from __future__ import annotations

from docs import generate_configuration


def test_configuration_page_is_what_the_table_of_variables_says():
    assert generate_configuration.PAGE.read_text() == generate_configuration.page(), (
        "run: make docs"
    )
