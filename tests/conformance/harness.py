# SPDX-License-Identifier: Apache-2.0
"""How the conformance tests make kernels: from text, through a linecache entry, with arrays in and out.

In: expressions or statements of the kernel language, and arrays. Out: what the CPU target computed.
"""

from __future__ import annotations

import itertools
import linecache
import textwrap
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft.cli.functions import numpy_type
from weft.ffi.tensor import Borrowed
from weft.language import LANGUAGE, resolve
from weft.types.dtype import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NUMPY_TYPES = {dtype: numpy_type(dtype) for dtype in DTYPES}
WEFT_TYPES = {numpy_type: dtype for dtype, numpy_type in NUMPY_TYPES.items()}
SIGNED = (weft.i8, weft.i16, weft.i32, weft.i64)
UNSIGNED = (weft.u8, weft.u16, weft.u32, weft.u64)
INTEGERS = SIGNED + UNSIGNED
WIDE_FLOATS = (weft.f32, weft.f64)
NARROW_FLOATS = (weft.f16, weft.bf16)
EIGHT_BIT_FLOATS = tuple(dtype for dtype in DTYPES if dtype.is_float8)
BLOCK = 32
# weft.math: what takes only integers, what answers with a bool, and what takes one float and gives one.
OF_INTEGERS = {"clz", "ctz", "ffs", "mulhi", "popcount"}
QUESTIONS = {"isfinite", "isinf", "isnan"}

_file_numbers = itertools.count()


def math_functions(count: int) -> list[str]:
    """The functions of `weft.math` that take `count` floats and give one."""
    names = {name.removeprefix("math.") for name in LANGUAGE if name.startswith("math.")}
    return [
        name
        for name in sorted(names - OF_INTEGERS - QUESTIONS)
        if sum(
            parameter.kind is not Parameter.KEYWORD_ONLY
            for parameter in resolve(f"math.{name}").__signature__.parameters.values()
        )
        == count
    ]


def define(source: str, **names: Any) -> dict[str, Any]:
    """Run a text as a module whose source weft can read, and return its names."""
    source = textwrap.dedent(source)
    file = f"<conformance {next(_file_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {"weft": weft, "np": np, "__name__": file, **names}
    exec(compile(source, file, "exec"), namespace)
    return namespace


def threads(
    body: str | Sequence[str], names: Iterable[str], decorator: str = "weft.kernel", **captured: Any
) -> Any:
    """A host function that runs statements once per index `i` below `count`.

    Args:
        body: statements; `return` ends the thread. Of several, each is a kernel of its own: one compilation for all.
        names: of the tensors that they see, which follow `count` in the parameters.
        decorator: of the kernel.
        captured: what else they see.

    The last block is partial unless `count` is a multiple of 32.
    """
    bodies = [body] if isinstance(body, str) else body
    kernels = ["kernel", *(f"kernel{number}" for number in range(1, len(bodies)))]
    parameters = ", ".join(f"{name}: weft.Tensor" for name in names)
    source = "".join(
        f"""\
@{decorator}
def {kernel}(count: weft.i32, {parameters}):
    i = weft.block_idx.x * {BLOCK} + weft.thread_idx.x
    if i >= count:
        return
{textwrap.indent(textwrap.dedent(statements).strip(), "    ")}

"""
        for kernel, statements in zip(kernels, bodies, strict=True)
    )
    launch = f"launch(grid=weft.ceil_div(count, {BLOCK}), block={BLOCK})"
    launches = [f"    {kernel}(count, {', '.join(names)}).{launch}\n" for kernel in kernels]
    source += f"@weft.jit\ndef host(count: weft.i32, {parameters}):\n{''.join(launches)}"
    return define(source, **captured)["host"]


def run_threads(
    body: str | Sequence[str], count: int, arrays: dict[str, np.ndarray], **captured: Any
) -> None:
    """Run `threads` on the CPU, over arrays that the statements see under their names."""
    given = [
        Exported(array) if array.dtype in EXPORTED_TYPES else array for array in arrays.values()
    ]
    threads(body, arrays, **captured)(count, *given)


def elementwise(expressions: dict[str, tuple[str, weft.DType]], inputs: Iterable[str]) -> str:
    """Statements that evaluate expressions for one element of each input, and check their types."""
    lines = [f"{name} = {name}_values[i]" for name in inputs]
    for name, (text, dtype) in expressions.items():
        lines += [
            f"{name}_value = {text}",
            f"weft.static_assert({name}_value.dtype is weft.{dtype})",
            f"{name}_result[i] = {name}_value",
        ]
    return "\n".join(lines)


def compute(
    expressions: dict[str, tuple[str, weft.DType]],
    /,
    decorator: str = "weft.kernel",
    **inputs: np.ndarray,
) -> dict[str, np.ndarray]:
    """Evaluate expressions for each element of the inputs, which they see under their names.

    Args:
        expressions: name → (expression, the type that it must have). One kernel evaluates all.
        decorator: of the kernel.
        inputs: arrays of one length.

    Returns:
        name → array of results.
    """
    count = len(next(iter(inputs.values())))
    outputs = {
        f"{name}_result": np.zeros(count, NUMPY_TYPES[dtype])
        for name, (_, dtype) in expressions.items()
    }
    body = elementwise(expressions, inputs)
    arrays = {f"{name}_values": array for name, array in inputs.items()}
    run_threads(body, count, arrays | outputs, decorator=decorator)
    return {name: outputs[f"{name}_result"] for name in expressions}


def compute_one(
    expression: str, dtype: weft.DType, /, decorator: str = "weft.kernel", **inputs: np.ndarray
) -> np.ndarray:
    """`compute` of a single expression."""
    return compute({"it": (expression, dtype)}, decorator, **inputs)["it"]


def compute_each(
    expressions: dict[str, tuple[str, np.ndarray]], dtype: weft.DType, decorator: str
) -> dict[str, np.ndarray]:
    """Evaluate each expression, in a kernel of its own, for each element of its own input `a`.

    Args:
        expressions: name → (expression of `a`, input). One host function launches all kernels.
        dtype: of inputs and results.
        decorator: of the kernels.

    Returns:
        name → array of results.
    """
    longest = max(len(array) for _, array in expressions.values())
    rows = np.array([np.resize(a, longest) for _, a in expressions.values()], NUMPY_TYPES[dtype])
    results = np.zeros_like(rows)
    bodies = [
        f"a = rows[{n}, i]\nit = {text}\nweft.static_assert(it.dtype is weft.{dtype})\nresults[{n}, i] = it"
        for n, (text, _) in enumerate(expressions.values())
    ]
    run_threads(bodies, longest, {"rows": rows, "results": results}, decorator=decorator)
    return {
        name: row[: len(a)]
        for row, (name, (_, a)) in zip(results, expressions.items(), strict=True)
    }


EXPORTED_TYPES = tuple(
    kind for dtype, kind in NUMPY_TYPES.items() if dtype.info.is_of_ml_dtypes or dtype.is_bool
)


class Exported(Borrowed):
    """An array given by `__dlpack__` only: types that NumPy cannot export, or any DLTensor field wrong."""

    def __init__(
        self, array: np.ndarray, byte_offset: int = 0, without_strides: bool = False
    ) -> None:
        dtype = WEFT_TYPES[array.dtype]
        self.array = array
        strides = [stride // array.itemsize for stride in array.strides]
        super().__init__(
            array.ctypes.data - byte_offset,
            array.shape,
            None if without_strides else strides,
            (dtype.dlpack_code, dtype.bits, 1),
            byte_offset=byte_offset,
        )


def run_function(function: Callable[..., Any], *columns: np.ndarray) -> list[int]:
    """Run a Python function in a kernel, for each row of the i32 columns."""
    out = np.zeros(len(columns[0]), np.int32)
    names = [f"column{number}" for number in range(len(columns))]
    call = ", ".join(f"{name}[i]" for name in names)
    arrays = dict(zip(names, columns, strict=True)) | {"out": out}
    run_threads(f"out[i] = function({call})", len(out), arrays, function=function)
    return out.tolist()


def assert_python_agrees(function: Callable[..., Any], *columns: Iterable[int]) -> None:
    """The function gives the same in a kernel as in Python, for each row of the columns."""
    arrays = [np.array(list(column), np.int32) for column in columns]
    rows = zip(*(array.tolist() for array in arrays), strict=True)
    expected = [function(*row) for row in rows]
    got = run_function(function, *arrays)
    assert got == [int(value) for value in expected]


def assert_python_agrees_everywhere(
    function: Callable[..., Any], pairs: Sequence[tuple[int, int]]
) -> None:
    """A function of two integers gives what it gives in Python: for run-time values and for constants.

    The same kernel also compiles for a GPU.
    """
    expected = [int(function(*pair)) for pair in pairs]
    chosen = (0, len(pairs) // 2, len(pairs) - 1)
    body = ["out[i] = function(a[i], b[i])"]
    body += [f"constants[{k}] = function{pairs[k]}" for k in chosen]
    a, b = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    out, constants = np.zeros_like(a), np.zeros_like(a)
    arrays = {"a": a, "b": b, "out": out, "constants": constants}
    host = threads("\n".join(body), arrays, function=function)
    host(len(pairs), *arrays.values())
    assert out.tolist() == expected
    assert [constants[k] for k in chosen] == [expected[k] for k in chosen]
    fakes = [weft.fake_tensor(weft.i32, (weft.sym("n"),))] * len(arrays)
    assert ".entry" in weft.compile(host, 1, *fakes, options="--gpu-arch sm_90a").ptx
