# SPDX-License-Identifier: Apache-2.0
"""Writes docs/configuration.md from the table in `weft.config`.

In: the variables. Out: the page; `python -m docs.generate_configuration` writes it, and
tests/docs compares.
"""

from __future__ import annotations

from pathlib import Path

from weft.config import variables

PAGE = Path(__file__).parent / "configuration.md"

HEAD = """\
# Configuration

weft reads these environment variables and no others, each at the moment when it is needed. An unset variable and an
empty one are the same. `weft.config.override(ptxas="/opt/ptxas")`, used in a `with` statement, sets a field for the
calling context whatever the environment says; a field is named like its variable without `WEFT_`, in lower case.
The first compilation warns of a variable whose name looks like one of these misspelled. Other names that begin with `WEFT_`
are left alone: they may be an application's own.

The code of a kernel depends on options (`weft.compile(..., options=...)`), and not by the environment: the
same program compiles to the same code wherever it runs. Only `WEFT_SANITIZE` adds the sanitizer's checks.

| variable | holds | meaning |
|---|---|---|
"""

TAIL = """
*This page is written by `python -m docs.generate_configuration` from the table in `src/weft/config.py`.*
"""


def page() -> str:
    """The page as it should be."""
    rows = [f"| `{item.name}` | {item.kind} | {item.doc} |\n" for item in variables()]
    return HEAD + "".join(rows) + TAIL


if __name__ == "__main__":
    PAGE.write_text(page())
