# SPDX-License-Identifier: Apache-2.0
"""A kernel's PTX as a list of instructions.

In: text. Out: `PtxKernel`: instructions with their guards and operands, labels, sizes of shared arrays, parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)(.*?)\{", re.DOTALL)
_PARAMETER = re.compile(r"(\w+_param_\d+)")
_SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.b8\s+([\w$]+)\[(\d*)\]")
_GUARD = re.compile(r"@(!?)(%[\w]+)\s+(.*)", re.DOTALL)
_LABEL = re.compile(r"^\s*([\w$]+):")


@dataclass(frozen=True)
class Instruction:
    """One instruction: `@guard name operands`; `not_` turns the guard around."""

    name: str
    operands: tuple[str, ...]
    guard: str = ""
    not_: bool = False

    @property
    def parts(self) -> list[str]:
        """The name's, without its dots."""
        return self.name.split(".")


@dataclass
class PtxKernel:
    """One entry of a module."""

    name: str
    parameters: list[str]
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0


def kernel_of(ptx: str) -> PtxKernel:
    """The module's only kernel."""
    text = re.sub(r"//[^\n]*", "", ptx)
    found = _ENTRY.search(text)
    assert found is not None
    kernel = PtxKernel(found[1], list(dict.fromkeys(_PARAMETER.findall(found[2]))))
    place = 1024  # no array lies at 0
    for alignment, name, size in _SHARED.findall(text):
        place = -(-place // int(alignment)) * int(alignment)
        kernel.shared[name] = place
        place += int(size or 0)
    kernel.shared_bytes = place
    for statement in _statements(text[found.end() :]):
        _add(kernel, statement)
    return kernel


def _statements(text: str) -> list[str]:
    """What semicolons end, but for the braces of scopes; ends with the entry's own brace."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("}"):
            break
        rest = line.strip()
        while label := _LABEL.match(rest):
            found.append(label[0])
            rest = rest[label.end() :].strip()
        if rest.startswith((".loc", ".file", ".pragma")):
            continue
        found += [part for part in re.split(r";", rest) if part.strip(" {}\t")]
    return found


def _add(kernel: PtxKernel, statement: str) -> None:
    text = statement.strip()
    if text.endswith(":"):
        kernel.labels[text[:-1]] = len(kernel.instructions)
        return
    if text.startswith("{ "):
        text = text[2:].strip()
    if text.startswith("."):
        return
    guard, not_ = "", False
    if match := _GUARD.match(text):
        not_, guard, text = bool(match[1]), match[2], match[3]
    name, _, rest = text.replace("\t", " ").partition(" ")
    kernel.instructions.append(Instruction(name, tuple(_operands(rest)), guard, not_))


def _operands(text: str) -> list[str]:
    found, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and not depth:
            found.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    return [*found, last] if last else found
