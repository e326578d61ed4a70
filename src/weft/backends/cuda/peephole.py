# SPDX-License-Identifier: Apache-2.0
"""Peephole rewrites of LLVM's text and PTX, where LLVM or ptxas are wrong or slow.

In: optimized LLVM text; PTX. Out: the same, with

* a move before each shift whose count comes from 64 bits. LLVM takes `select(count < width, x << trunc(count), 0)` for
  the `shl` or `shr` that bounds its count, also where the comparison has 64 bits and the instruction 32, so that a
  count of 2**32 shifts by 0. It does not look through the move, which ptxas removes. The comparison may be a program's
  own, so nothing that builds the shift can prevent it.
* multiplications by -1 in place of `neg.s16`. ptxas 13.0 negates in 32 bits and does not extend the result's sign, so
  that -(-32768), which is -32768, was 32768 (seen on an H100; ptxas 13.5 is right). The multiplication is one
  instruction too, and right in both.
* one `lop3` for `x & mask | bits`: ptxas leaves two instructions if both constants need 32 bits, as in unpacking of
  4-bit weights.
* a multiplication of 32 bits before each sum of 64 bits that it is part of. LLVM has it where it is first needed, often
  as a shift of a widened register; ptxas fuses both if the multiplication has no other use.
* the PTX version that sums in f16 of 8-bit floats need, in modules that have them: others stay at their
  architecture's, for older drivers and assemblers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME: Final = r'%(?:[-\w.$]+|"[^"]*")'
_SHIFT: Final = re.compile(
    rf"^(?P<head> *{_NAME} = (?:shl|lshr) (?:nuw |nsw |exact )*i(?P<bits>\d+) [^,]+, )(?P<count>{_NAME})",
    re.MULTILINE,
)
_DEFINITION: Final = re.compile(rf"^ *({_NAME}) = (.*)$", re.MULTILINE)
_LLVM_FUNCTION: Final = re.compile(r"^define .*?^}", re.MULTILINE | re.DOTALL)
_LOOKED_THROUGH: Final = ("and ", "or ", "select ", "freeze ", "zext ", "trunc ")
_REGISTER_BITS: Final = 32  # of a count in PTX
_REGISTERS: Final = {16: "h", 32: "r", 64: "l"}  # LLVM's letters for them


def keep_wide_counts(text: str) -> str:
    """The text, in which the counts of shifts that come from 64 bits are moved first."""
    if _SHIFT.search(text) is None:
        return text
    return _LLVM_FUNCTION.sub(lambda function: _in_function(function[0]), text)


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
    """Whether a count of that many bits is part of a number above 32 bits, as far as LLVM looks."""
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


_NEGATION: Final = re.compile(r"\b(?:neg\.s16(\s+%\w+, )|sub\.s16(\s+%\w+, )0, )(%\w+);")


def wrap_negations(ptx: str) -> str:
    """The PTX, in which 16-bit integers are negated by multiplications only.

    Example:
        >>> wrap_negations("neg.s16 %rs2, %rs1;")
        'mul.lo.s16 %rs2, %rs1, -1;'
    """
    return _NEGATION.sub(lambda found: f"mul.lo.s16{found[1] or found[2]}{found[3]}, -1;", ptx)


_F16_SUMS_OF_BYTES: Final = re.compile(r"\bmma\.sync\.[\w.]*\.f16\.e[45]m[23]\.")
_VERSION: Final = re.compile(r"^\.version 8\.[0-6]$", re.MULTILINE)
_OLD_VERSION: Final = re.compile(r"^\.version 8\.[0-4]$", re.MULTILINE)


def raise_version(ptx: str) -> str:
    """PTX with the version that its instructions need."""
    if _F16_SUMS_OF_BYTES.search(ptx):
        return _VERSION.sub(".version 8.7", ptx, 1)
    return _OLD_VERSION.sub(".version 8.5", ptx, 1) if "mma.sp::ordered_metadata" in ptx else ptx


_MASKED: Final = re.compile(
    r"^\tand\.b32 +\t(%r\d+), (%r\d+), (-?\d+);\n((?:\t\.loc[^\n]*\n)*)\tor\.b32 +\t(%r\d+), \1, (-?\d+);$",
    re.MULTILINE,
)


def join_masks(ptx: str) -> str:
    """The PTX, in which a mask that only goes into a disjunction of constant bits is one instruction with it.

    Example:
        ``and.b32 %r2, %r1, 15; or.b32 %r3, %r2, 768;`` becomes ``lop3.b32 %r3, %r1, 15, 768, 0xEA;``.
    """
    if _MASKED.search(ptx) is None:
        return ptx
    return _in_each_function(ptx, _with_joined_masks)


def _with_joined_masks(function: str) -> str:
    uses = Counter(re.findall(r"%r\d+", function))

    def joined(found: re.Match[str]) -> str:
        masked, source, mask, places, result, bits = found.groups()
        if uses[masked] != 2:
            return found[0]
        return f"{places}\tlop3.b32 \t{result}, {source}, {mask}, {bits}, 0xEA;"

    return _MASKED.sub(joined, function)


_PTX_FUNCTION: Final = re.compile(r"(?<=^\{\n).*?(?=^\}$)", re.MULTILINE | re.DOTALL)
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


class _Multiply(NamedTuple):
    """A register of 32 bits, ``u32`` or ``s32``, times a constant; `places` is where it is written to its own."""

    kind: str
    register: str
    factor: int
    places: tuple[int, ...] = ()


def place_wide_products(ptx: str) -> str:
    """Rewrites the sums of every function."""
    return _in_each_function(ptx, _rewritten)


def _in_each_function(ptx: str, rewrite: Callable[[str], str]) -> str:
    """The PTX with the body of every function rewritten."""
    pieces: list[str] = []
    end = 0
    # The end of a function is a brace alone on its line, which inline assembly may have, too.
    masked = _ASSEMBLY.sub(lambda found: re.sub("[{}]", " ", found[0]), ptx)
    for found in _PTX_FUNCTION.finditer(masked):
        pieces += (ptx[end : found.start()], rewrite(ptx[found.start() : found.end()]))
        end = found.end()
    return "".join((*pieces, ptx[end:]))


def _rewritten(function: str) -> str:
    """A function's body, in which registers are its own."""
    sums = list(_SUM.finditer(function))
    multiplies = _multiplies(function) if sums else {}
    if not multiplies or "\tbrx" in function:
        return function
    places = _Places(function, multiplies)
    pieces: list[str] = []
    end = count = 0
    for total in sums:
        for part, other in ((total[3], total[2]), (total[2], total[3])):
            if part in multiplies and places.is_set(part, total.start()):
                kind, register, factor, _ = multiplies[part]
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


def _multiplies(function: str) -> dict[str, _Multiply]:
    """The registers that hold one multiplication's result, whichever of their instructions has set them."""
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
    multiplies: dict[str, _Multiply | None] = {}

    def multiply(register: str) -> _Multiply | None:
        if register not in multiplies:
            multiplies[register] = None
            several = scaled.get(register, ())
            kinds = {made(*found.group(1, 3, 4)) for found in several}
            if len(kinds) == 1 and results[register] == len(several):
                found = kinds.pop()
                places = tuple(one.start() for one in several)
                multiplies[register] = found and found._replace(places=places)
        return multiplies[register]

    def made(operation: str, source: str, by: str | None) -> _Multiply | None:
        kind, factor = operation[-3:], int(by or 1)
        if operation == "shl.b64":
            inner = multiply(source)
            if inner is None:
                return None
            kind, source, factor = inner.kind, inner.register, inner.factor << factor
        # LLVM also extends the low half of a register of 64 bits.
        is_kept = results[source] == 1 and not source.startswith("%rd")
        return _Multiply(kind, source, factor) if is_kept and 0 < factor < _LARGEST else None

    return {register: found for register in scaled if (found := multiply(register)) is not None}


class _Places:
    """Ranges in which registers have surely been set.

    There, the operands of a multiplication are unchanged: the program sets them in one place, always before.
    """

    def __init__(self, function: str, multiplies: dict[str, _Multiply]) -> None:
        self._multiplies = multiplies
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
        places = self._multiplies[register].places
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
