# SPDX-License-Identifier: Apache-2.0
"""Library functions that are one instruction of a GPU's special function units, or two.

Out: `units(machine)`: `rsqrt`; `approx.<function>`, for ``approx=True``; `unit.<instruction>`, which others are made
of; conversions of 8-bit floats. Errors are those of the PTX ISA; `unit.ex2`, `unit.rcp` and `unit.rsqrt`
flush subnormal numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.formula import Formula
from weft.types.dtype_info import INFO

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter
    from weft.types.capabilities import Capabilities

_LOG2_E: Final = 1.4426950408889634
_LN2: Final = 0.6931471805599453
# 8-bit float → PTX's name of two.
BYTE_PAIRS: Final = {
    name: info.ptx_pair for name, info in INFO.items() if info.format and info.bits == 8
}
# Elements of a matrix operand → PTX's name; of 32-bit floats the tensor cores read the highest 19 bits.
OPERANDS: Final = {**{name: info.ptx for name, info in INFO.items()}, "f32": "tf32"}

# name → instruction, number of operands
_INSTRUCTIONS: Final = {
    "approx.exp2": ("ex2.approx.ftz.f32", 1),
    "approx.log2": ("lg2.approx.f32", 1),
    "approx.sqrt": ("sqrt.approx.f32", 1),
    "approx.sin": ("sin.approx.f32", 1),
    "approx.cos": ("cos.approx.f32", 1),
    "approx.tanh": ("tanh.approx.f32", 1),
    "approx.divide": ("div.full.f32", 2),
    "unit.ex2": ("ex2.approx.ftz.f32", 1),
    "unit.rcp": ("rcp.approx.ftz.f32", 1),
    "unit.rsqrt": ("rsqrt.approx.ftz.f32", 1),
    "unit.fma_down": ("fma.rm.f32", 3),
    "unit.fma_saturated": ("fma.rn.sat.f32", 3),
}


def _instruction(name: str, instruction: str, count: int) -> LibraryEntry:
    operands = ", ".join(f"${number}" for number in range(count + 1))
    constraints = ",".join(("=f", *"f" * count))

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{name}.f32", "float", *("float",) * count)
        listed = ", ".join(f"float {argument}" for argument in f.arguments)
        text = f'call float asm "{instruction} {operands};", "{constraints}"({listed})'
        return f.finish(f.let(text))

    return entry


def _exp(module: ModulePrinter) -> str:
    f = Formula(module, "approx.exp.f32", "float", "float")
    return f.finish(f.library("approx.exp2", f.mul(f.arguments[0], _LOG2_E)))


def _log(module: ModulePrinter) -> str:
    f = Formula(module, "approx.log.f32", "float", "float")
    return f.finish(f.mul(f.library("approx.log2", f.arguments[0]), _LN2))


def _rsqrt(module: ModulePrinter) -> str:
    f = Formula(module, "rsqrt.f32", "float", "float")
    callee = module.intrinsic("llvm.nvvm.rsqrt.approx.f")
    return f.finish(f.let(f"call float {callee}(float {f.arguments[0]})"))


_UNITS: Final[dict[str, LibraryEntry]] = {
    "rsqrt.f32": _rsqrt,
    "approx.exp.f32": _exp,
    "approx.log.f32": _log,
    **{f"{name}.f32": _instruction(name, *row) for name, row in _INSTRUCTIONS.items()},
}


def _narrows(name: str, pair: str) -> LibraryEntry:
    """One of the two that the instruction rounds; those too large, infinity too, to the largest, as weft does."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"f32_to_{name}", "i8", "float")
        callee = module.intrinsic(f"llvm.nvvm.ff.to.{pair}.rn")
        both = f.let(f"call i16 {callee}(float 0.0, float {f.arguments[0]})")
        return f.finish(f.let(f"trunc i16 {both} to i8"))

    return entry


def _widens(name: str, pair: str) -> LibraryEntry:
    """One of the two that the instruction makes f16, which holds them all."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{name}_to_f32", "float", "i8")
        callee = module.intrinsic(f"llvm.nvvm.{pair}.to.f16x2.rn")
        both = f.let(f"zext i8 {f.arguments[0]} to i16")
        halves = f.let(f"call <2 x half> {callee}(i16 {both})")
        half = f.let(f"extractelement <2 x half> {halves}, i32 0")
        return f.finish(f.let(f"fpext half {half} to float"))

    return entry


_BYTE_FLOATS: Final[dict[str, LibraryEntry]] = {
    **{f"f32_to_{name}": _narrows(name, pair) for name, pair in BYTE_PAIRS.items()},
    **{f"{name}_to_f32": _widens(name, pair) for name, pair in BYTE_PAIRS.items()},
}


def units(machine: Capabilities) -> dict[str, LibraryEntry]:
    """The functions that a GPU of a compute capability, such as 90, has."""
    missing = () if machine.has("tanh") else ("approx.tanh.f32",)
    found = {name: entry for name, entry in _UNITS.items() if name not in missing}
    return found | _BYTE_FLOATS if machine.has("cvt_f8") else found
