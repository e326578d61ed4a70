# SPDX-License-Identifier: Apache-2.0
"""Gives each sum of 64 bits its own product of 32-bit factors, with which the machine computes it in one instruction.

In: PTX as LLVM emits it, in which a product stands where it is first needed, often as a shift of a widened register.
Out: PTX in which it stands before each sum that it is part of. ptxas joins the two if the product has no other use.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import Final, NamedTuple

_FUNCTION: Final = re.compile(r"(?<=^\{\n).*?(?=^\}$)", re.MULTILINE | re.DOTALL)
_SUM: Final = re.compile(r"^\tadd\.s64 \t(%rd\d+), (%rd\d+), (%rd\d+);$", re.MULTILINE)
_SCALED: Final = re.compile(
    r"^\t(cvt\.u64\.u32|cvt\.s64\.s32|mul\.wide\.u32|mul\.wide\.s32|shl\.b64) \t"
    r"(%rd\d+), (%rd?\d+)(?:, (\d+))?;$",
    re.MULTILINE,
)
_RESULTS: Final = re.compile(
    r"^\t(?:@!?%p\d+ )?[a-z][\w.:]* *\t(?:(%rd?\d+)[,|]|\{([^}]*)\},)", re.MULTILINE
)
_REGISTER: Final = re.compile(r"%rd?\d+")
_ASSEMBLY: Final = re.compile(r"// begin inline asm.*?// end inline asm", re.DOTALL)
_FLOW: Final = re.compile(
    r"^(?:(\$L\w+):|\t(@!?%p\d+ )?(?:(bra)(?:\.uni)? *\t(\$L\w+)|ret|exit);)", re.MULTILINE
)
_LARGEST: Final = 1 << 31


class _Product(NamedTuple):
    """A register of 32 bits, ``u32`` or ``s32``, times a constant; `places` is where it is written to its own."""

    kind: str
    register: str
    factor: int
    places: tuple[int, ...] = ()


def place_wide_products(ptx: str) -> str:
    """Rewrites the sums of every function."""
    pieces: list[str] = []
    end = 0
    # The end of a function is a brace alone on its line, which inline assembly may have, too.
    masked = _ASSEMBLY.sub(lambda found: found[0].replace("}", " "), ptx)
    for found in _FUNCTION.finditer(masked):
        pieces += (ptx[end : found.start()], _rewritten(ptx[found.start() : found.end()]))
        end = found.end()
    return "".join((*pieces, ptx[end:]))


def _rewritten(function: str) -> str:
    """A function's body, in which registers are its own."""
    sums = list(_SUM.finditer(function))
    products = _products(function) if sums else {}
    if not products or "\tbrx" in function:
        return function
    places = _Places(function, products)
    pieces: list[str] = []
    end = count = 0
    for total in sums:
        for part, other in ((total[3], total[2]), (total[2], total[3])):
            if part in products and places.is_set(part, total.start()):
                kind, register, factor, _ = products[part]
                pieces += (
                    function[end : total.start()],
                    f"\tmul.wide.{kind} \t%wide{count}, {register}, {factor};\n",
                    f"\tadd.s64 \t{total[1]}, {other}, %wide{count};",
                )
                end, count = total.end(), count + 1
                break
    if not count:
        return function
    return "".join((f"\t.reg .b64 \t%wide<{count}>;\n", *pieces, function[end:]))


def _products(function: str) -> dict[str, _Product]:
    """The registers that hold one product, whichever of their instructions has set them."""
    scaled: dict[str, list[re.Match[str]]] = {}
    for found in _SCALED.finditer(function):
        scaled.setdefault(found[2], []).append(found)
    if not scaled:
        return {}
    results: Counter[str] = Counter()
    for one, several in _RESULTS.findall(function):
        results.update((one,) if one else _REGISTER.findall(several))
    for assembly in _ASSEMBLY.findall(function):
        results.update(2 * _REGISTER.findall(assembly))  # may be set there, any number of times
    products: dict[str, _Product | None] = {}

    def product(register: str) -> _Product | None:
        if register not in products:
            products[register] = None
            several = scaled.get(register, ())
            kinds = {made(*found.group(1, 3, 4)) for found in several}
            if len(kinds) == 1 and results[register] == len(several):
                found = kinds.pop()
                places = tuple(one.start() for one in several)
                products[register] = found and found._replace(places=places)
        return products[register]

    def made(operation: str, source: str, by: str | None) -> _Product | None:
        kind, factor = operation[-3:], int(by or 1)
        if operation == "shl.b64":
            inner = product(source)
            if inner is None:
                return None
            kind, source, factor = inner.kind, inner.register, inner.factor << factor
        # LLVM also extends the low half of a register of 64 bits.
        is_kept = results[source] == 1 and not source.startswith("%rd")
        return _Product(kind, source, factor) if is_kept and 0 < factor < _LARGEST else None

    return {register: found for register in scaled if (found := product(register)) is not None}


class _Places:
    """Where registers have surely been set.

    There, what a product was computed from is still the same: the program sets that in one place, always before.
    """

    def __init__(self, function: str, products: dict[str, _Product]) -> None:
        self._products = products
        self._starts = [0]
        self._labels: dict[str, int] = {}
        self._successors: list[list[str | int]] = [[]]
        self._unset: dict[str, set[int]] = {}
        for found in _FLOW.finditer(function):
            label, condition, branch, target = found.groups()
            following = len(self._starts)
            if branch:
                self._successors[-1].append(target)
            if label:
                self._labels[label] = following
            if label or condition:
                self._successors[-1].append(following)
            self._starts.append(found.end())
            self._successors.append([])

    def is_set(self, register: str, at: int) -> bool:
        """Whether every way to a place passes an instruction that sets a register."""
        block = self._block(at)
        places = self._products[register].places
        if any(self._block(place) == block and place < at for place in places):
            return True
        unset = self._unset.get(register)
        if unset is None:
            unset = self._unset[register] = self._reachable(set(map(self._block, places)))
        return block not in unset

    def _block(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def _reachable(self, closed: set[int]) -> set[int]:
        """The blocks at whose beginning the entry leads, through none that is closed."""
        found: set[int] = set()
        work: list[int] = [0]
        while work:
            block = work.pop()
            if block not in found:
                found.add(block)
                if block not in closed:
                    following = self._successors[block]
                    work += (self._labels[n] if isinstance(n, str) else n for n in following)
        return found
