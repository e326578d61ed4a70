# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of addresses: products and sums that leave out zeros and ones; where elements of swizzled arrays lie.

In: texts of integers, names or constants. Out: the same, with the instructions that they need.
"""

from __future__ import annotations

from typing import Protocol


class Printer(Protocol):
    """A function's printer, as far as this file needs it."""

    def let(self, expression: str, stem: str = "v") -> str:
        """Adds an instruction and returns the name of its result."""
        ...


def widened(printer: Printer, text: str, from_bits: int, to_bits: int) -> str:
    """A signed integer in another width; constants stay constants."""
    if from_bits == to_bits or not text.startswith("%"):
        return text
    instruction = "sext" if from_bits < to_bits else "trunc"
    return printer.let(f"{instruction} i{from_bits} {text} to i{to_bits}")


def swizzled(printer: Printer, linear: str, mask: int, pointer: str) -> str:
    """Where an element of a swizzled array lies: bits 4 to 6 of its linear address, xored with bits 7 to 9.

    Shared addresses have 32 bits on GPUs; on the CPU they are the process's.
    """
    bits = 64 if pointer == "ptr" else 32
    address = printer.let(f"ptrtoint {pointer} {linear} to i{bits}")
    row = printer.let(f"lshr i{bits} {address}, 3")
    chunk = printer.let(f"and i{bits} {row}, {mask}")
    place = printer.let(f"xor i{bits} {address}, {chunk}")
    return printer.let(f"inttoptr i{bits} {place} to {pointer}", "at")


def divided(printer: Printer, text: str, width: int, bits: int) -> tuple[str, str]:
    """Quotient and rest of an index by a power of two."""
    if not text.startswith("%"):
        return str(int(text) // width), str(int(text) % width)
    quotient = printer.let(f"lshr i{bits} {text}, {width.bit_length() - 1}")
    return quotient, printer.let(f"and i{bits} {text}, {width - 1}")


def shifted(printer: Printer, text: str, width: int, bits: int) -> str:
    """An offset, which may be negative, divided by a power of two that divides it."""
    if not text.startswith("%"):
        return str(int(text) // width)
    return printer.let(f"ashr exact i{bits} {text}, {width.bit_length() - 1}")


def times(printer: Printer, lhs: str, rhs: str, kind: str) -> str:
    """A product; `kind` is its type, with flags: ``nsw i32``."""
    if "0" in (lhs, rhs):
        return "0"
    if lhs == "1":
        return rhs
    return lhs if rhs == "1" else printer.let(f"mul {kind} {lhs}, {rhs}")


def plus(printer: Printer, lhs: str, rhs: str, kind: str) -> str:
    """A sum; `kind` as for `times`."""
    if lhs == "0":
        return rhs
    return lhs if rhs == "0" else printer.let(f"add {kind} {lhs}, {rhs}")
