# SPDX-License-Identifier: Apache-2.0
"""``weft explain``: explains the code of an error, or of an assembler's remark.

In: a code. Out: its messages, its cause and its cure, from the tables of docs/errors.md; ptxas's from the CUDA backend.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.backends.cuda.diagnostics import ASSEMBLER_CODES
from weft.cli.functions import WrongCommandError

if TYPE_CHECKING:
    import argparse

EXAMPLES: Final = ("weft explain TYPE_NOT_A_NUMBER", "weft explain")

_ROW: Final = re.compile(r"\| `([A-Z0-9_]+)` \| (.*) \| (.*) \| (.*) \|")


class Explanation(NamedTuple):
    """One code.

    Attributes:
        messages: with `…` for variable parts.
        cause: why it is raised.
        cure: what to do.
    """

    messages: tuple[str, ...]
    cause: str
    cure: str


def explanations() -> dict[str, Explanation]:
    """Code → its explanation, in alphabetical order.

    Example:
        >>> explanations()["PRINT"].cause
        'print in a kernel or a host function'
    """
    found: dict[str, Explanation] = {}
    for line in _page().read_text(encoding="utf-8").splitlines():
        if row := _ROW.fullmatch(line):
            code, messages, cause, cure = (cell.replace("\\|", "|") for cell in row.groups())
            before = found[code].messages if code in found else ()
            found[code] = Explanation((*before, *messages.split("<br>")), cause, cure)
    for code, meaning in ASSEMBLER_CODES.items():
        found[code] = Explanation((meaning.message,), meaning.cause, meaning.cure)
    return dict(sorted(found.items()))


def _page() -> Path:
    """That of the checkout; the one that is installed beside this file elsewhere."""
    of_checkout = Path(__file__).parents[3] / "docs" / "errors.md"
    return of_checkout if of_checkout.is_file() else Path(__file__).with_name("errors.md")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The code."""
    parser.add_argument(
        "code", nargs="?", help="as in the brackets of a message; without it, lists all"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints it.

    Raises:
        WrongCommandError: if there is no such code; with similar ones.
    """
    known = explanations()
    if arguments.code is None:
        width = max(map(len, known))
        for code, explanation in known.items():
            print(f"{code:{width}}  {explanation.cause}")
        return 0
    code = arguments.code.strip("[]").upper()
    if code not in known:
        near = get_close_matches(code, list(known), n=3)
        advice = f"similar codes: {', '.join(near)}" if near else "weft explain lists all codes"
        raise WrongCommandError(f"there is no code {code}; {advice}")
    messages, cause, cure = known[code]
    print(code)
    for message in messages:
        print(f"  {message}")
    print(f"why:         {cause}")
    print(f"what to do:  {cure}")
    return 0
