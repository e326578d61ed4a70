# SPDX-License-Identifier: Apache-2.0
"""Runs a program by weft and by the reference, and says where they differ.

In: a `Program`. Out: None or a `Difference`. weft runs it at two levels of optimization, with one thread and with
several, with coroutines where it makes loops of threads that wait, and with the iterations of `weft.each` mapped
as on a GPU too; `unassembled` compiles it for a GPU, as far as the
assembler.
"""

from __future__ import annotations

import itertools
import linecache
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from xdsl.dialects.builtin import UnitAttr

import weft
from tools.fuzz.machine import run
from tools.fuzz.values import UnspecifiedError
from weft import _native
from weft.backends.cpu.lowering.fission import COROUTINES
from weft.codegen.operations.launch import kernels_of
from weft.compiler import pipeline
from weft.passes.map_each import map_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from xdsl.dialects.builtin import ModuleOp

    from tools.fuzz.programs import Program

# Level of optimization → threads of the pool.
RUNS = {3: (1, 4), 0: (1,)}
ARCHITECTURE = "sm_90"
_NUMPY = {"bool_": np.bool_, "f16": np.float16, "f32": np.float32, "f64": np.float64}
_NUMPY |= {
    f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "iu" for bits in (8, 16, 32, 64)
}
_files = itertools.count()


@dataclass(frozen=True)
class Difference:
    """Something that weft does and the reference does not.

    Attributes:
        kind: what a smaller program must share to show the same: an error's code, or "values".
        text: what it is, for a person.
        level: of optimization, at which it was seen.
    """

    kind: str
    text: str
    level: int = 3


def defined(source: str) -> Any:
    """The program's `host`, as weft's function."""
    file = f"<fuzz {next(_files)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"weft": weft, "__name__": file}
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names["host"]


def given(program: Program) -> list[Any]:
    """The arguments for weft: new arrays, at addresses of any alignment, alike in every other seed; and numbers."""
    made: list[Any] = []
    for number, argument in enumerate(program.arguments):
        if isinstance(argument, tuple):
            name, shape, values = argument
            first = (program.seed // 2 + program.seed % 2 * number) % 4
            memory = np.zeros(first + len(values), _NUMPY[name])
            memory[first:] = np.array(values, _NUMPY[name])
            made.append(memory[first:].reshape(shape))
        else:
            made.append(argument)
    return made


def _same(got: Any, expected: list[Any]) -> Any:
    """Where two arrays agree; a NaN is like any other."""
    wanted = np.array(expected, got.dtype).reshape(got.shape)
    if got.dtype.kind != "f":
        return got == wanted
    alike = (got == wanted) & (np.signbit(got) == np.signbit(wanted))
    return alike | (np.isnan(got) & np.isnan(wanted))


def difference(program: Program, levels: Iterable[int] = tuple(RUNS)) -> Difference | None:
    """What weft does that the reference does not, at these levels of optimization.

    Raises:
        UnspecifiedError: if the documentation does not say what the program does.
    """
    expected = run(program.source, program.arguments)
    for level in levels:
        where = f"level {level}"
        try:
            for host in _compiled(program, f"--opt-level {level}"):
                for threads in RUNS[level]:
                    where = f"level {level}, {threads} threads"
                    _native.set_cpu_threads(threads)
                    arguments = given(program)
                    made: Any = host(*arguments)
                    arguments += (
                        made if isinstance(made, tuple) else () if made is None else (made,)
                    )
                    text = _unlike(arguments, expected)
                    if text:
                        return Difference("values", f"{where}: {text}", level)
        except Exception as error:
            kind = getattr(error, "code", type(error).__name__)
            return Difference(str(kind), f"{where}: {error}", level)
    return None


def _compiled(program: Program, options: str) -> Iterator[Callable[..., object]]:
    """The program's `host`; then by the CPU's other engine; then with iterations distributed as on a GPU, in loops."""
    host = weft.compile(defined(program.source), *given(program), options=options)
    yield host
    if any("split at" in remark.message for remark in host.remarks):
        yield weft.compile(
            defined(program.source),
            *given(program),
            options=options,
            post_compile_hooks=[as_coroutines],
        )
    if "weft.each(" in program.source:
        as_on_a_gpu = mock.patch.object(
            pipeline, "map_each", lambda module, on_host: map_each(module)
        )
        with as_on_a_gpu:
            host = weft.compile(defined(program.source), *given(program), options=options)
        yield host


def as_coroutines(module: ModuleOp) -> None:
    """A hook that makes each waiting thread a coroutine."""
    for kernel in kernels_of(module):
        kernel.attributes[COROUTINES] = UnitAttr()


def _unlike(got: list[Any], expected: list[list[Any] | None]) -> str:
    """Where the first array differs, or nothing."""
    for number, (array, numbers) in enumerate(zip(got, expected, strict=True)):
        if numbers is None:
            continue
        same = _same(array, numbers)
        if not same.all():
            first = int(np.argmin(same))
            return (
                f"array {number} is {array[first]} at {first}, {numbers[first]} by the reference; "
                f"{int((~same).sum())} of {same.size} differ"
            )
    return ""


def unassembled(program: Program, _levels: Iterable[int] = ()) -> Difference | None:
    """Defect of the program's code for a GPU, as far as the compiler and the assembler see it."""
    arguments = [
        weft.fake_tensor(getattr(weft, argument[0]), argument[1], device="cuda")
        if isinstance(argument, tuple)
        else argument
        for argument in program.arguments
    ]
    try:
        run(program.source, program.arguments)
        weft.compile(
            defined(program.source), *arguments, options=f"--target cuda --gpu-arch {ARCHITECTURE}"
        )
    except UnspecifiedError:
        raise
    except Exception as error:
        code = getattr(error, "code", type(error).__name__)
        return Difference(f"cuda {code}", f"for {ARCHITECTURE}: {error}")
    return None
