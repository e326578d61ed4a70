# SPDX-License-Identifier: Apache-2.0
"""Shift counts of 64 bits, of which LLVM's code for NVIDIA's GPUs would lose the high half.

In: optimized LLVM text. Out: the same, with a move before each shift whose count comes from 64 bits. LLVM takes
`select(count < width, x << trunc(count), 0)` for the `shl` or `shr` that bounds its count, also where the comparison
has 64 bits and the instruction 32, so that a count of 2**32 shifts by 0. It does not look through the move, which
ptxas removes. The comparison may be a program's own, so nothing that builds the shift can prevent it.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = r'%(?:[-\w.$]+|"[^"]*")'
_SHIFT: Final = re.compile(
    rf"^(?P<head> *{_NAME} = (?:shl|lshr) (?:nuw |nsw |exact )*i(?P<bits>\d+) [^,]+, )(?P<count>{_NAME})",
    re.MULTILINE,
)
_DEFINITION: Final = re.compile(rf"^ *({_NAME}) = (.*)$", re.MULTILINE)
_FUNCTION: Final = re.compile(r"^define .*?^}", re.MULTILINE | re.DOTALL)
_LOOKED_THROUGH: Final = ("and ", "or ", "select ", "freeze ", "zext ", "trunc ")
_REGISTER_BITS: Final = 32  # of a count in PTX
_REGISTERS: Final = {16: "h", 32: "r", 64: "l"}  # LLVM's letters for them


def keep_wide_counts(text: str) -> str:
    """The text, in which the counts of shifts that come from 64 bits are moved first."""
    if _SHIFT.search(text) is None:
        return text
    return _FUNCTION.sub(lambda function: _in_function(function[0]), text)


def _in_function(text: str) -> str:
    definitions = dict(_DEFINITION.findall(text))
    number = 0

    def moved(shift: re.Match[str]) -> str:
        nonlocal number
        bits, count = int(shift["bits"]), shift["count"]
        if bits not in _REGISTERS or not _is_wide(count, bits, definitions):
            return shift[0]
        number += 1
        name, kind = f"%shift_count.{number}", _REGISTERS[bits]
        move = f'call i{bits} asm "mov.b{bits} $0, $1;", "={kind},{kind}"(i{bits} {count})'
        return f"  {name} = {move}\n{shift['head']}{name}"

    return _SHIFT.sub(moved, text)


def _is_wide(count: str, bits: int, definitions: dict[str, str], depth: int = 8) -> bool:
    """Whether a count of so many bits is a part of a number of more than 32, as far as LLVM looks."""
    made = definitions.get(count, "")
    if made.startswith("trunc ") and " i64 " in made:
        return True
    if bits > _REGISTER_BITS and not made.startswith("zext "):
        return True
    if depth == 0 or not made.startswith(_LOOKED_THROUGH):
        return False
    return any(
        _is_wide(name, _REGISTER_BITS, definitions, depth - 1) for name in re.findall(_NAME, made)
    )
