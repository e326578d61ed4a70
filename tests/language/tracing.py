# SPDX-License-Identifier: Apache-2.0
"""A function under construction, its printed IR, and an evaluator of integer IR to check what it means."""

from __future__ import annotations

from xdsl.dialects import arith, builtin, func, math
from xdsl.ir import Block, Region
from xdsl.parser import Parser

from weft.dialects.builder import Builder
from weft.dialects.context import make_context
from weft.dialects.simt.scalar import FloorDivOp, FloorModOp
from weft.language.ir_types import ir_tensor_type, ir_type
from weft.language.values import Scalar, Tensor


class Trace:
    """A builder on a function whose arguments are given by `scalar` and `tensor`."""

    def __init__(self):
        self.block = Block()
        self.builder = Builder(self.block)

    def scalar(self, dtype):
        return Scalar(self.block.insert_arg(ir_type(dtype), len(self.block.args)), dtype)

    def tensor(self, dtype, shape=(-1,), name="a", **facts):
        ssa = self.block.insert_arg(ir_tensor_type(dtype, shape, **facts), len(self.block.args))
        return Tensor(ssa, dtype, name)

    @property
    def names(self):
        """Names of the operations but constants, in order."""
        return [op.name for op in self.block.ops if op.name != "arith.constant"]

    @property
    def constants(self):
        return [str(op.value) for op in self.block.ops if isinstance(op, arith.ConstantOp)]

    def verify(self):
        """Verifies the function, and that its text parses to the same; returns the text."""
        types = [argument.type for argument in self.block.args]
        self.block.add_op(func.ReturnOp())
        function = func.FuncOp("f", (types, []), Region(self.block))
        module = builtin.ModuleOp([function])
        module.verify()
        text = str(module)
        parsed = Parser(make_context(), text).parse_module()
        parsed.verify()
        assert str(parsed) == text
        return text

    def evaluate(self, result, *arguments):
        """The integer that `result` has for these arguments, read by its dtype."""
        values = dict(zip(self.block.args, arguments, strict=True))
        for operation in self.block.ops:
            inputs = [values[operand] for operand in operation.operands]
            bits = operation.operands[0].type.width.data if operation.operands else 64
            output = operation.results[0]
            values[output] = _evaluate(operation, bits, inputs) & _mask(output.type.width.data)
        return _read(values[result.ssa], result.dtype)


def _mask(bits):
    return (1 << bits) - 1


def _signed(value, bits):
    value &= _mask(bits)
    return value - (1 << bits) if value >> (bits - 1) else value


def _read(value, dtype):
    if dtype.is_bool:
        return bool(value & 1)
    return _signed(value, dtype.bits) if dtype.is_signed else value & _mask(dtype.bits)


POISON = 0x5A5A5A5A5A5A5A5A

UNSIGNED = {
    arith.AddiOp: lambda a, b, bits: a + b,
    arith.SubiOp: lambda a, b, bits: a - b,
    arith.MuliOp: lambda a, b, bits: a * b,
    arith.AndIOp: lambda a, b, bits: a & b,
    arith.OrIOp: lambda a, b, bits: a | b,
    arith.XOrIOp: lambda a, b, bits: a ^ b,
    arith.ShLIOp: lambda a, b, bits: a << b if b < bits else POISON,
    arith.ShRUIOp: lambda a, b, bits: a >> b if b < bits else POISON,
    arith.MinUIOp: lambda a, b, bits: min(a, b),
    arith.MaxUIOp: lambda a, b, bits: max(a, b),
    arith.DivUIOp: lambda a, b, bits: a // b if b else _mask(bits),
    arith.RemUIOp: lambda a, b, bits: a % b if b else a,
}
SIGNED = {
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
    FloorDivOp: lambda a, b: a // b if b else -1,
    FloorModOp: lambda a, b: a % b if b else a,
}
PREDICATES = {
    0: lambda a, b, _: a == b,
    1: lambda a, b, _: a != b,
    2: lambda a, b, bits: _signed(a, bits) < _signed(b, bits),
    3: lambda a, b, bits: _signed(a, bits) <= _signed(b, bits),
    4: lambda a, b, bits: _signed(a, bits) > _signed(b, bits),
    5: lambda a, b, bits: _signed(a, bits) >= _signed(b, bits),
    6: lambda a, b, _: a < b,
    7: lambda a, b, _: a <= b,
    8: lambda a, b, _: a > b,
    9: lambda a, b, _: a >= b,
}
COUNTS = {
    math.CtPopOp: lambda a, bits: a.bit_count(),
    math.CountLeadingZerosOp: lambda a, bits: bits - a.bit_length(),
    math.CountTrailingZerosOp: lambda a, bits: (a & -a).bit_length() - 1 if a else bits,
}


def _evaluate(operation, bits, inputs):
    inputs = [
        value & _mask(operand.type.width.data) for value, operand in _pairs(inputs, operation)
    ]
    kind = type(operation)
    if kind is arith.ConstantOp:
        return operation.value.value.data
    if kind in UNSIGNED:
        return UNSIGNED[kind](*inputs, bits)
    if kind in SIGNED:
        return SIGNED[kind](*(_signed(value, bits) for value in inputs))
    if kind is arith.CmpiOp:
        return PREDICATES[operation.predicate.value.data](*inputs, bits)
    if kind is arith.SelectOp:
        return inputs[1] if inputs[0] else inputs[2]
    if kind in (arith.ExtUIOp, arith.TruncIOp):
        return inputs[0]
    if kind is arith.ExtSIOp:
        return _signed(inputs[0], bits)
    if kind is arith.ShRSIOp:
        return _signed(inputs[0], bits) >> inputs[1] if inputs[1] < bits else POISON
    if kind is math.AbsIOp:
        return abs(_signed(inputs[0], bits))
    if kind in COUNTS:
        return COUNTS[kind](inputs[0], bits)
    raise AssertionError(f"the evaluator does not know {operation.name}")


def _pairs(inputs, operation):
    return zip(inputs, operation.operands, strict=True)
