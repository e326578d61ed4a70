# SPDX-License-Identifier: Apache-2.0
"""The loops of machine code, and what they cost for each unit of work.

In: a cubin. Out: for each function its basic blocks as nvdisasm's control flow has them; of these the loops, and
the instructions of the hot one for each unit of work.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from weft.backends.cuda.toolchain import find_nvdisasm

if TYPE_CHECKING:
    from collections.abc import Iterable

_FUNCTION = re.compile(r'subgraph "cluster_(.*)" \{')
_NODE = re.compile(r'"([^"]+)"\n\[label="\{(.*?)\}"\]', re.DOTALL)
_EDGE = re.compile(r'"([^"]+)":\w+:\w -> "([^"]+)":')
_INSTRUCTION = re.compile(r"[0-9a-f]{4,}:\s+(?:@!?\w+\s+)?([^;]+?)\s*;")
_WIDTH = re.compile(r"\.(?:([US])?(8|16)|64|128)\b")


class Block(NamedTuple):
    """Instructions without their predicates, `NOP` left out, and the names of the blocks that may follow."""

    instructions: list[str]
    successors: list[str]


class Cost(NamedTuple):
    """A piece of code: its instructions, and the units of work that they do."""

    instructions: int
    units: float

    @property
    def per_unit(self) -> float:
        """Instructions for each unit of work."""
        return self.instructions / self.units


def functions(cubin: bytes) -> dict[str, dict[str, Block]]:
    """The blocks of each function in a cubin by name, the first one the entry."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(find_nvdisasm()), "-bbcfg", "-poff", file.name]
        graph = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    parts = _FUNCTION.split(graph)[1:]
    return dict(zip(parts[::2], map(_blocks, parts[1::2]), strict=True))


def _blocks(graph: str) -> dict[str, Block]:
    blocks: dict[str, Block] = {}
    for name, label in _NODE.findall(graph):
        lines = re.sub(r"\\([^l])", r"\1", label).split(r"\l")
        found = (text for line in lines for text in _INSTRUCTION.findall(line))
        blocks[name] = Block([text for text in found if text != "NOP"], [])
    for source, target in _EDGE.findall(graph):
        if target in blocks:
            blocks[source].successors.append(target)
    return blocks


def reachable(blocks: dict[str, Block], avoided: str = "") -> set[str]:
    """The blocks that the entry leads to on ways that avoid one block."""
    found, work = set[str](), [next(iter(blocks))]
    while work:
        name = work.pop()
        if name not in found and name != avoided:
            found.add(name)
            work += blocks[name].successors
    return found


def loops(blocks: dict[str, Block]) -> list[set[str]]:
    """The blocks of each natural loop that are in no loop within it.

    A loop belongs to a head that dominates a block which leads back to it.
    """
    alive = reachable(blocks)
    bodies: dict[str, set[str]] = {}
    for head in alive:
        dominated = alive - reachable(blocks, head)
        tails = [name for name in dominated if head in blocks[name].successors]
        if tails:
            bodies[head] = body = {head}
            while tails:
                name = tails.pop()
                if name not in body:
                    body.add(name)
                    tails += [other for other in alive if name in blocks[other].successors]
    return [
        body.difference(*(bodies[other] for other in body & bodies.keys() if other != head))
        for head, body in bodies.items()
    ]


def work(instruction: str, kind: str) -> int:
    """Work of an instruction, by kind: bytes of loads and stores (`LDG`, `STG`, `LDS`), others one."""
    opcode = instruction.split(maxsplit=1)[0]
    if not re.fullmatch(rf"({kind})(\..*)?", opcode):
        return 0
    if opcode[:3] not in ("LDG", "STG", "LDS"):
        return 1
    width = _WIDTH.search(opcode)
    bits = int(re.sub(r"\D", "", width[0])) if width else 32
    return bits // 8


def hot_cost(blocks: dict[str, Block], kind: str, per_unit: int) -> Cost:
    """Instructions and units of the loop that does most of a kind of work, which is the most unrolled one.

    Loops within it count for themselves: those of rare cases are not hot, and others do the work instead of it. Code
    that does the work in no loop counts as a whole, without what it calls.

    Args:
        blocks: of one function.
        kind: a regular expression for the opcodes that do the work, as `work` takes it.
        per_unit: how much of it a unit is.
    """

    def cost(names: Iterable[str]) -> Cost:
        texts = [text for name in names for text in blocks[name].instructions]
        return Cost(len(texts), sum(work(text, kind) for text in texts) / per_unit)

    found = map(cost, loops(blocks))
    hot = max(found, key=lambda cost: (cost.units, -cost.instructions), default=Cost(0, 0))
    return hot if hot.units else cost(reachable(blocks))
