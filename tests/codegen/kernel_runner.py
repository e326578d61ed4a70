# SPDX-License-Identifier: Apache-2.0
"""Runs one kernel of IR text on the CPU, without wrapper and launch: parameters go into the buffer directly.

In: text of a module with one kernel, NumPy arrays and scalars. Out: arrays changed in place.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from xdsl.parser import Parser

import weft
from tests.conformance.harness import define
from weft.arguments.signature import infer_signature
from weft.backends.cpu.stages import print_kernels
from weft.backends.host import HostMachine, host_machine
from weft.backends.registry import find_backend
from weft.codegen.llvm.optimize import emit_object, load_object, parse, run_pipeline
from weft.codegen.operations.launch import (
    DIM,
    POINTER,
    kernel_parameters,
    kernels_of,
    parameter_bytes,
)
from weft.codegen.runtime_abi import ROWS
from weft.compiler.artifacts import Artifacts
from weft.compiler.options import CompileOptions
from weft.compiler.pipeline import lower
from weft.dialects.context import make_context
from weft.frontend.source import read_source

CONTEXT = make_context()


def tensor(element: str, rank: int = 1, layout: str = "contiguous", offsets: int = 64) -> str:
    """The text of a tensor type with run-time dims."""
    dims = ", ".join("?" * rank)
    return (
        f"!simt.tensor<{element}, [{dims}], {layout}, global, dims 32, offsets {offsets}, align 1>"
    )


def parse_module(text: str) -> Any:
    """The verified module of a text."""
    module = Parser(CONTEXT, text).parse_module()
    module.verify()
    return module


class CpuLaunch(ctypes.Structure):
    """weft_cpu_launch."""

    _fields_ = (
        ("table", ctypes.c_void_p),
        ("grid", ctypes.c_int32 * 3),
        ("block", ctypes.c_int32 * 3),
        ("shared_memory_bytes", ctypes.c_int32),
        ("failed", ctypes.c_int32),
        ("kernel_name", ctypes.c_char_p),
    )


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
def _go_on(_launch: int | None) -> int:
    return 0


def _runtime_table() -> Any:
    """A runtime table of which kernels find what they ask of it after some work: whether to stop."""
    table = (ctypes.c_void_p * (1 + len(ROWS)))()
    table[ROWS["kernel_poll"][0] // 8] = ctypes.cast(_go_on, ctypes.c_void_p).value
    return table


_TABLE = _runtime_table()


class CpuKernel:
    """A compiled kernel; `llvm` is its text, `optimized` what LLVM made of it."""

    def __init__(self, text: str, machine: HostMachine | None = None, level: int = 2) -> None:
        machine = machine or host_machine()
        module = parse_module(text)
        (self.kernel,) = kernels_of(module)
        self.llvm = print_kernels(module, machine)
        compiled = parse(self.llvm, "kernel")
        run_pipeline(compiled, machine.machine, level, vectorize=True)
        self.optimized = str(compiled)
        self.object = emit_object(compiled, machine.machine)
        symbol = f"weft.kernel.{self.kernel.sym_name.data}"
        self._loaded = load_object(self.object, [symbol])
        signature = ctypes.CFUNCTYPE(
            ctypes.c_int32,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.c_void_p,
        )
        self._function = signature(self._loaded.addresses[symbol])

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any) -> int:
        grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        buffer = self.parameter_buffer(arguments)
        launch = CpuLaunch(
            ctypes.addressof(_TABLE),
            (ctypes.c_int32 * 3)(*grid),
            (ctypes.c_int32 * 3)(*block),
            0,
            0,
            b"kernel",
        )
        blocks = grid[0] * grid[1] * grid[2]
        return self._function(buffer, ctypes.byref(launch), 0, blocks, None)

    def parameter_buffer(self, arguments: tuple[Any, ...]) -> Any:
        """The parameters as the kernel reads them."""
        parameters = kernel_parameters(self.kernel)
        data = bytearray(max(parameter_bytes(parameters), 1))
        for parameter in parameters:
            argument = arguments[parameter.argument]
            if not isinstance(argument, np.ndarray):
                part = np.asarray(argument).tobytes()
            elif parameter.part == POINTER:
                part = argument.ctypes.data.to_bytes(8, "little")
            elif parameter.part == DIM:
                part = argument.shape[parameter.dimension].to_bytes(parameter.size_bytes, "little")
            else:
                stride = argument.strides[parameter.dimension] // argument.itemsize
                part = stride.to_bytes(8, "little", signed=True)
            assert len(part) == parameter.size_bytes
            data[parameter.offset_bytes : parameter.offset_bytes + len(part)] = part
        return (ctypes.c_char * len(data)).from_buffer(data)


INDEX = """
  %block = simt.block_idx "x" : i32
  %size = simt.block_dim "x" : i32
  %thread = simt.thread_idx "x" : i32
  %first = arith.muli %block, %size : i32
  %i = arith.addi %first, %thread : i32
"""


def elementwise(operation: str, sources: list[str], result: str) -> str:
    """A kernel that applies operations on %v0, %v1, ... giving %r, to each element of its arguments."""
    types = [*sources, result]
    arguments = ", ".join(f"%a{n} : {tensor(element)}" for n, element in enumerate(types))
    loads = "\n".join(
        f"%v{n} = simt.load %a{n}[%i : i32] : {tensor(element)} -> {element}"
        for n, element in enumerate(sources)
    )
    out = len(sources)
    return f"""simt.kernel @kernel({arguments}) {{
{INDEX}
  %n = simt.dim %a{out}[0] : {tensor(result)} -> i32
  %inside = arith.cmpi slt, %i, %n : i32
  scf.if %inside {{
    {loads}
    {operation}
    simt.store %r, %a{out}[%i : i32] : {result}, {tensor(result)}
  }}
  simt.return
}}"""


def apply(kernel: CpuKernel, result_type: Any, *sources: np.ndarray) -> np.ndarray:
    """Runs a kernel of `elementwise` over whole arrays."""
    sources = tuple(np.ascontiguousarray(source) for source in sources)
    result = np.zeros(len(sources[0]), result_type)
    assert kernel(((len(result) + 127) // 128,), (128,), *sources, result) == 0
    return result


def lowered_module(statements: str, dtype: weft.DType) -> Any:
    """The CPU's module of a kernel that sees tensors a, b, out of one type, a scalar `given` and an index i."""
    body = "\n".join(f"    {line}" for line in statements.splitlines())
    name = f"weft.{dtype.name}"
    host = define(
        f"""\
@weft.kernel
def kernel(n: weft.i32, given: {name}, a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    x = a[i]
    y = b[i]
{body}

T = weft.Tensor[{name}, ("n",)]

@weft.jit
def host(n: weft.i32, given: {name}, a: T, b: T, out: T):
    kernel(n, given, a, b, out).launch(grid=1, block=64)
"""
    )["host"]
    source = read_source(host.function)
    fake = weft.fake_tensor(dtype, (weft.sym("n"),))
    example = False if dtype.is_bool else 1.0 if dtype.is_float else 1
    signature = infer_signature(source.name, source.parameters, (1, example, fake, fake, fake), {})
    backend, artifacts = find_backend("cpu"), Artifacts(source.name, CompileOptions())
    return lower(source, signature.for_device(backend.device_type), backend, artifacts).module
