# SPDX-License-Identifier: Apache-2.0
"""Runs a traced kernel's IR for one thread, in plain Python, so that the front end is tested by what it means.

It knows the operations that the programs under test need, and nothing else.
"""

from __future__ import annotations

import math
import struct

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import Float32Type, IntegerType

from weft.dialects.simt.kernel import ReturnOp


class AssertionFails(Exception):
    """A `simt.assert` did not hold."""


def signed(value: int, bits: int) -> int:
    """The value as a two's complement integer of that width; an i1 is 0 or 1."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    """The bits of a value as an unsigned number."""
    return value & ((1 << bits) - 1)


def rounded(value: float, value_type) -> float:
    """A float as its type holds it."""
    if isinstance(value_type, Float32Type) and math.isfinite(value):
        return struct.unpack("f", struct.pack("f", value))[0]
    return value


_INTEGER = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.XOrIOp: lambda a, b: a ^ b,
    arith.ShLIOp: lambda a, b: a << b,
    arith.ShRSIOp: lambda a, b: a >> b,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
}
_FLOAT = {
    arith.AddfOp: lambda a, b: a + b,
    arith.SubfOp: lambda a, b: a - b,
    arith.MulfOp: lambda a, b: a * b,
    arith.DivfOp: lambda a, b: a / b,
}
# By the number of the predicate in arith.
_SIGNED = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]
_FLOAT_COMPARISONS = {
    1: lambda a, b: a == b,
    2: lambda a, b: a > b,
    3: lambda a, b: a >= b,
    4: lambda a, b: a < b,
    5: lambda a, b: a <= b,
    13: lambda a, b: a != b,
}


class Interpreter:
    """One thread. Tensors are Python lists, of lists where they have more dimensions."""

    def __init__(self, most_operations: int = 200_000) -> None:
        self.values = {}
        self.left = most_operations

    def run(self, kernel, arguments) -> None:
        """Executes a kernel on its arguments."""
        self.values |= dict(zip(kernel.body.block.args, arguments, strict=True))
        self.block(kernel.body.block)

    def block(self, block):
        """Executes a block; returns its terminator and the terminator's operands."""
        for op in block.ops:
            self.left -= 1
            assert self.left > 0, "the program does not end"
            if isinstance(op, scf.YieldOp | scf.ConditionOp | ReturnOp):
                return op, [self.values[v] for v in op.operands]
            self.operation(op)
        return None, []

    def operation(self, op) -> None:
        operands = [self.values[v] for v in op.operands]
        results = self.results(op, operands)
        for result, value in zip(op.results, results, strict=True):
            if isinstance(result.type, IntegerType):
                value = signed(int(value), result.type.width.data)
            self.values[result] = value

    def results(self, op, operands):
        kind = type(op)
        if kind in _INTEGER:
            return [_INTEGER[kind](*operands)]
        if kind in _FLOAT:
            return [rounded(_FLOAT[kind](*operands), op.results[0].type)]
        method = getattr(self, kind.__name__, None)
        assert method is not None, f"the interpreter lacks {op.name}"
        return method(op, *operands)

    def ConstantOp(self, op):
        return [op.value.value.data]

    def CmpiOp(self, op, a, b):
        predicate = op.predicate.value.data
        if predicate > 5:
            bits = op.lhs.type.width.data
            return [_SIGNED[predicate - 4](unsigned(a, bits), unsigned(b, bits))]
        return [_SIGNED[predicate](a, b)]

    def CmpfOp(self, op, a, b):
        return [_FLOAT_COMPARISONS[op.predicate.value.data](a, b)]

    def SelectOp(self, op, condition, a, b):
        return [a if condition else b]

    def ExtSIOp(self, op, a):
        return [a]

    def ExtUIOp(self, op, a):
        return [unsigned(a, op.input.type.width.data)]

    def TruncIOp(self, op, a):
        return [a]

    def SIToFPOp(self, op, a):
        return [rounded(float(a), op.results[0].type)]

    def UIToFPOp(self, op, a):
        return [float(unsigned(a, op.input.type.width.data))]

    def ExtFOp(self, op, a):
        return [a]

    def TruncFOp(self, op, a):
        return [rounded(a, op.results[0].type)]

    def NegfOp(self, op, a):
        return [-a]

    def AbsIOp(self, op, a):
        return [abs(a)]

    def FloorDivOp(self, op, a, b):
        if isinstance(op.results[0].type, IntegerType) and b == 0:
            return [-1]
        return [a // b]

    def FloorModOp(self, op, a, b):
        if isinstance(op.results[0].type, IntegerType) and b == 0:
            return [a]
        return [a % b]

    def ExitOp(self, op):
        return []

    def DimOp(self, op, tensor):
        for _ in range(op.dimension.value.data):
            tensor = tensor[0]
        return [len(tensor)]

    def AllocaOp(self, op):
        (size,) = op.results[0].type.dims
        return [[None] * size]

    def LoadOp(self, op, tensor, *indices):
        for index in indices:
            assert index >= 0
            tensor = tensor[index]
        return [tensor]

    def StoreOp(self, op, value, tensor, *indices):
        *outer, last = indices
        for index in outer:
            tensor = tensor[index]
        assert last >= 0
        tensor[last] = value
        return []

    def AssertOp(self, op, condition):
        if not condition:
            raise AssertionFails(op.text.data)
        return []

    def IfOp(self, op, condition):
        region = op.true_region if condition else op.false_region
        if not region.blocks:
            return []
        return self.block(region.block)[1]

    def ForOp(self, op, lower, upper, step, *carried):
        body = op.body.block
        while lower < upper:
            self.values |= dict(zip(body.args, [lower, *carried], strict=True))
            carried = self.block(body)[1]
            lower += step
        return list(carried)

    def WhileOp(self, op, *carried):
        before, after = op.before_region.block, op.after_region.block
        while True:
            self.values |= dict(zip(before.args, carried, strict=True))
            _, (goes_on, *forwarded) = self.block(before)
            if not goes_on:
                return forwarded
            self.values |= dict(zip(after.args, forwarded, strict=True))
            carried = self.block(after)[1]
