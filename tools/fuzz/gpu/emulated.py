# SPDX-License-Identifier: Apache-2.0
"""Runs a case's PTX in Python, where no GPU is.

In: a `Case` of one kernel that is given the host function's arguments. Out: the memory of its arrays.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from tools.fuzz.compare import defined
from tools.fuzz.gpu.arrays import Array, Placed
from tools.fuzz.gpu.ptx_machine import Block
from tools.fuzz.gpu.ptx_memory import Memory
from tools.fuzz.gpu.ptx_numbers import NotEmulatedError
from tools.fuzz.gpu.ptx_text import kernel_of
from weft.codegen.operations.launch import SCALAR, KernelParameter, kernel_parameters, kernels_of
from weft.dialects.simt.kernel import DIM, POINTER, STRIDE

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tools.fuzz.gpu.cases import Case

OPTIONS = "--gpu-arch sm_90a --no-cache"
_LAUNCH = re.compile(r"launch\(grid=(\d+), block=(\d+)\)")
_NAMES = re.compile(r"def host\((.*)\):")


def on_emulator(case: Case) -> list[np.ndarray]:
    """The arrays' memory after the kernel's blocks have run, one after the other.

    Raises:
        NotEmulatedError: for an instruction, or a host function, that is not known here.
    """
    launch = _LAUNCH.findall(case.source)
    if len(launch) != 1 or case.family == "programs":
        raise NotEmulatedError("launches of a host function")
    grid, size = map(int, launch[0])
    placed = [
        Placed(one, on_device=False) if isinstance(one, Array) else one for one in case.arguments
    ]
    arrays = [one for one in placed if isinstance(one, Placed)]
    parameters: list[tuple[str, KernelParameter]] = []

    def keep(module: ModuleOp) -> None:
        for kernel in kernels_of(module):
            names = [argument.name_hint or "" for argument in kernel.body.block.args]
            parameters[:] = [(names[one.argument], one) for one in kernel_parameters(kernel)]

    compiled: Any = weft.compile(
        defined(case.source), *placed, options=OPTIONS, post_compile_hooks=[keep]
    )
    memory = Memory([one.host for one in arrays])
    numbers = dict(zip(_names(case), placed, strict=True))
    given = [_value(one, numbers[name], memory, arrays) for name, one in parameters]
    kernel = kernel_of(compiled.ptx)
    for block in range(grid):
        Block(kernel, given, memory, size, block, grid).run()
    return [memory.piece(number) for number in range(len(arrays))]


def _names(case: Case) -> list[str]:
    (listed,) = _NAMES.findall(case.source)
    return re.findall(r"(\w+): weft\.", listed)


def _value(parameter: KernelParameter, argument: Any, memory: Memory, arrays: list[Placed]) -> int:
    """Arguments of a launch."""
    if parameter.part == SCALAR:
        return int(argument) & (1 << 64) - 1
    array = argument.array
    if parameter.part == POINTER:
        return memory.address(arrays.index(argument)) + array.origin
    if parameter.part == DIM:
        return array.shape[parameter.dimension]
    if parameter.part == STRIDE:
        return array.strides[parameter.dimension]
    raise NotEmulatedError(f"a parameter of kind {parameter.part}")
