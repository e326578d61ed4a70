# SPDX-License-Identifier: Apache-2.0
"""Runs a case by the CPU target and by a GPU, or by the emulator, and says where their memory differs.

In: a `Case`. Out: a `Result`. Bytes between and around the elements count, too; a NaN is like any other.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

import weft
from tools.fuzz.compare import defined
from tools.fuzz.gpu.arrays import Array, Placed
from tools.fuzz.gpu.ptx_numbers import NotEmulatedError
from tools.fuzz.machine import run
from tools.fuzz.programs import program_of
from tools.fuzz.values import UnspecifiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.fuzz.gpu.cases import Case

Machine: TypeAlias = "Callable[[Case], list[np.ndarray]]"
"""Runs a case, and gives back the memory of its arrays."""

SAME = "same"
_SMALLER_FOR = 20.0  # seconds


class Result(NamedTuple):
    """What came of a case.

    Attributes:
        kind: `same`; `refused CODE` where the CPU target refuses it; `values`, or the code of a GPU's error.
        text: what it is, for a person.
    """

    kind: str
    text: str = ""


def on_cpu(case: Case) -> list[np.ndarray]:
    """The arrays' memory after a call on the CPU."""
    return _called(case, "--target cpu --no-cache", on_device=False)


def on_gpu(case: Case) -> list[np.ndarray]:
    """The arrays' memory after a call on the first GPU."""
    return _called(case, "--target cuda --no-cache", on_device=True)


def _called(case: Case, options: str, *, on_device: bool) -> list[np.ndarray]:
    given = [
        Placed(one, on_device=on_device) if isinstance(one, Array) else one
        for one in case.arguments
    ]
    weft.compile(defined(case.source), *given, options=options)(*given)
    return [one.fetch() for one in given if isinstance(one, Placed)]


def compared(case: Case, run_on: Machine = on_gpu) -> Result:
    """Whether another machine changes memory as the CPU does."""
    try:
        ignored = _unspecified(case)
        expected = on_cpu(case)
    except UnspecifiedError as error:
        return Result(f"not specified: {error}")
    except Exception as error:
        return Result(f"refused {getattr(error, 'code', type(error).__name__)}", str(error))
    try:
        got = run_on(case)
    except NotEmulatedError as error:
        return Result(f"not emulated: {error}")
    except Exception as error:
        return Result(f"{type(error).__name__} {getattr(error, 'code', '')}".strip(), str(error))
    arrays = [one for one in case.arguments if isinstance(one, Array)]
    for number, (array, mine, other) in enumerate(zip(arrays, expected, got, strict=True)):
        text = "" if number in ignored else _unlike(array, mine, other)
        if text:
            return Result("values", f"array {number} {text}")
    return Result(SAME)


def _unspecified(case: Case) -> set[int]:
    """The arrays of a random program whose values the documentation leaves open.

    Raises:
        UnspecifiedError: if it does not say what the program does.
    """
    if case.family != "programs":
        return set()
    program = program_of(case.seed)
    found = run(program.source, program.arguments)
    return {number for number, values in enumerate(found) if values is None}


def _unlike(array: Array, expected: np.ndarray, got: np.ndarray) -> str:
    """Where memory differs, or nothing."""
    mine, other = array.view(expected), array.view(got)
    kind = f"u{array.itemsize}"
    same = (
        mine.view(kind) == other.view(kind)
        if mine.flags.contiguous
        else _bits(mine) == _bits(other)
    )
    if np.issubdtype(mine.dtype, np.floating) or mine.dtype.kind == "V":
        same |= np.isnan(mine.astype(np.float64)) & np.isnan(other.astype(np.float64))
    if not same.all():
        first = tuple(int(place) for place in np.argwhere(~same)[0])
        places = [tuple(int(part) for part in place) for place in np.argwhere(~same)[:8]]
        return (
            f"({array.dtype} {array.shape}) is {other[first]} at {first}, {mine[first]} on the CPU; "
            f"{int((~same).sum())} of {same.size} differ: {places}"
        )
    for memory, where in ((expected, " on the CPU"), (got, "")):
        place = array.outside(memory)
        if place is not None:
            return f"({array.dtype} {array.shape}) changed at byte {place}, outside its elements{where}"
    return ""


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def smaller(case: Case, kind: str, run_on: Machine = on_gpu) -> Case:
    """The case without the statements that the difference does not need."""
    end = time.monotonic() + _SMALLER_FOR
    number = 0
    while time.monotonic() < end:
        lines = case.source.splitlines()
        while number < len(lines) and (
            not lines[number].startswith("    ") or "launch(" in lines[number]
        ):
            number += 1
        if number >= len(lines):
            break
        indent = len(lines[number]) - len(lines[number].lstrip())
        after = number + 1
        while after < len(lines) and len(lines[after]) - len(lines[after].lstrip()) > indent:
            after += 1
        text = "\n".join([*lines[:number], *lines[after:]]) + "\n"
        candidate = replace(case, source=text)
        if compared(candidate, run_on).kind == kind:
            case = candidate
        else:
            number += 1
    return case


def reproducer(case: Case, result: Result, command: str) -> str:
    """Report of a difference, for a person."""
    arguments = "\n".join(f"# {one!r}" for one in _brief(case.arguments))
    return f"seed {case.seed} ({case.family}): {result.kind}: {result.text}\n# {command}\n{case.source}{arguments}\n"


def _brief(arguments: Sequence[Array | int]) -> list[Array | int]:
    """Without long lists of zeros."""
    return [
        replace(one, numbers=(0, ...))
        if isinstance(one, Array) and one.numbers and not any(one.numbers)
        else one
        for one in arguments
    ]
