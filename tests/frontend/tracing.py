# SPDX-License-Identifier: Apache-2.0
"""Helpers of the front end's tests: trace a function, read its IR, run it, compare it with Python itself."""

from __future__ import annotations

import copy
import linecache
import re

import weft
from tests.frontend.interpreter import Interpreter
from weft.arguments.signature import infer_signature
from weft.dialects.simt.kernel import KernelOp
from weft.frontend.source import read_source
from weft.frontend.trace import trace
from weft.passes.arguments import find_written_arguments, written_arguments
from weft.passes.blocks import find_block_sizes
from weft.passes.remove_unused import remove_unused_operations
from weft.types.dtype import DType

_TENSOR = re.compile(r"!simt\.tensor<[^>]*>")


def trace_host(host, *examples, **keywords):
    """The traced module of a host function, verified."""
    source = read_source(host)
    signature = infer_signature(source.name, source.parameters, examples, keywords)
    traced = trace(source, signature)
    remove_unused_operations(traced.module)
    find_block_sizes(traced.module)
    traced.module.verify()
    check_dominance(traced.module.body.block, set())
    return traced


def check_dominance(block, visible) -> None:
    """Checks that every operand is defined before its use, in its block or around it."""
    visible = visible | set(block.args)
    for op in block.ops:
        missing = [operand for operand in op.operands if operand not in visible]
        assert not missing, f"{op.name} uses {missing}, which is not defined there"
        for region in op.regions:
            for inner in region.blocks:
                check_dominance(inner, visible)
        visible |= set(op.results)


def launch_of(kernel):
    """A host function that launches a kernel with one thread on all of its parameters."""
    code = kernel.function.__code__
    names = ", ".join(code.co_varnames[: code.co_argcount])
    text = f"def host({names}):\n    kernel({names}).launch(grid=1, block=1)\n"
    file = f"<host of {code.co_name} at {code.co_filename}:{code.co_firstlineno}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"kernel": kernel}
    exec(compile(text, file, "exec"), namespace)
    host = namespace["host"]
    host.__annotations__ = {
        p.name: p.annotation
        for p in read_source(kernel).parameters
        if isinstance(p.annotation, DType)
    }
    return host


def vector(dtype=weft.i32, *dims):
    """A tensor without data; of one dimension that is known at run time, unless dims are given."""
    return weft.fake_tensor(dtype, dims or (None,))


def trace_kernel(function, *examples):
    """The traced module of a plain function as a kernel; by default with one vector of i32 per parameter."""
    kernel = weft.kernel(function)
    count = function.__code__.co_argcount
    examples = (*examples, *(vector() for _ in range(count - len(examples))))
    return trace_host(launch_of(kernel), *examples)


def kernel_of(traced):
    """The only kernel of a module."""
    (kernel,) = [op for op in traced.module.body.block.ops if isinstance(op, KernelOp)]
    return kernel


def written_names(traced) -> set[str]:
    """Names of the host function's arguments that its kernels may write through."""
    find_written_arguments(traced.module)
    host = next(op for op in traced.module.body.block.ops if op.name == "func.func")
    return {host.body.block.args[index].name_hint for index in written_arguments(traced.module)}


def kernel_text(function, *examples) -> str:
    """The kernel's IR, with the tensors' types shortened to T."""
    return shortened(kernel_of(trace_kernel(function, *examples)))


def shortened(op) -> str:
    """An operation's text, with the tensors' types shortened to T."""
    return _TENSOR.sub("T", str(op))


def body_lines(text: str) -> list[str]:
    """The lines inside the outermost braces, without indentation."""
    return [line.strip() for line in text.splitlines()[1:-1]]


def ops(text: str, *names: str) -> dict[str, int]:
    """How often each operation stands in a text."""
    return {name: len(re.findall(rf"\b{re.escape(name)}\b", text)) for name in names}


def run(function, *arguments, examples=None):
    """Runs a function as a kernel of one thread on these arguments, which it changes in place."""
    examples = [_example(argument) for argument in arguments] if examples is None else examples
    kernel = kernel_of(trace_kernel(function, *examples))
    Interpreter().run(kernel, arguments)
    return arguments


def check_like_python(function, *arguments) -> None:
    """Runs a function as a kernel and as Python, and compares what both leave in the arguments."""
    expected, received = copy.deepcopy(arguments), copy.deepcopy(arguments)
    function(*expected)
    run(function, *received)
    assert received == expected


def _example(argument):
    if isinstance(argument, list):
        dtype = weft.f32 if argument and isinstance(argument[0], float) else weft.i32
        return vector(dtype)
    return argument


def programs_of(module: dict[str, object]) -> list:
    """The functions of ``(a, out, n)`` that a module of tests has defined so far."""
    return [
        value
        for value in module.values()
        if callable(value)
        and getattr(value, "__module__", "") == module["__name__"]
        and value.__code__.co_varnames[:3] == ("a", "out", "n")
    ]
