# SPDX-License-Identifier: Apache-2.0
"""The examples of the reference, one per public name, as programs.

In: a docstring. Out: what its Example section holds: a session (`>>>`), or a fragment of a kernel or of a host
function, which becomes a whole function here: what it names and does not define is a parameter or a line before it.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import functools
import inspect
import linecache
import re
import textwrap
from typing import TYPE_CHECKING

import numpy as np

import weft
from docs import generate_reference
from weft import language
from weft.runtime.compiled_function import CompiledDetails

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH = 1024

# What fragments may name without saying what it is: tensors…
TENSORS = {
    **dict.fromkeys("a b points totals values largest distance candidates".split(), "float32"),
    **dict.fromkeys(
        "counts histogram finished ready pending busy head lock ranks".split(), "int32"
    ),
    **dict.fromkeys("flags visited parity".split(), "uint32"),
    "pixels": "uint8",
    "records": "uint64",
    **dict.fromkeys(("source", "target"), "float32"),
}
# …those of which a kernel has the tensor map, as matrices, with a box of 8 rows…
MAPS = {"source", "target", "counts"}
# …and lines that stand before the fragment.
_INDEX = "weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x"
LINES = {
    "TILE": "TILE = 32",
    "full": "full = weft.mbarrier(1, arrivals=32)",
    "part": "part = weft.shared((8, 32), weft.f32, swizzle=128)",
    "numbers": "numbers = weft.shared((8, 32), weft.i32, swizzle=128)",
    "acc": "acc = weft.mma.zeros((16, 8), weft.f32)",
    "bias": "bias = 0.0",
    **{
        f"{name}_tile": f"{name}_tile = weft.shared((64, 64), weft.bf16, swizzle=128)"
        for name in ("left", "right")
    },
    "tiles": "tiles = [weft.shared((16, 16), weft.bf16) for _ in range(2)]",
    "place": "place = weft.global_scratch(16, weft.u64)",
    "rows": "rows = weft.global_scratch((64, 32), weft.f32)",
    "column": "column = 0",
    "other": "other = 1 - weft.cluster_rank()",
    "tid": "tid = weft.thread_idx.x",
    "i": f"i = {_INDEX}",
    "n": "n = weft.grid_dim.x * weft.block_dim.x",
    "block": "block = weft.block_idx.x",
    "blocks": "blocks = weft.grid_dim.x",
    "tile": "tile = weft.shared(32, weft.f32)",
    "changed": "changed = weft.thread_idx.x > 3",
    "keep": "keep = weft.thread_idx.x > 3",
    **{name: f"{name} = weft.thread_idx.x" for name in "key node row digit".split()},
    **{name: f"{name} = weft.u32({_INDEX})" for name in "word mask bits bit".split()},
    **{
        name: f"{name} = weft.f32({_INDEX})"
        for name in (
            "x y z total candidate logit dot norms height length ratio dx dy gradient power mean epsilon limit gamma "
            "scale residual step"
        ).split()
    },
}


def entries() -> dict[str, object]:
    """Public name → object, for every entry of the reference."""
    found: dict[str, object] = {}
    for page in generate_reference.PAGES:
        found |= generate_reference.defined_in(page.modules)
    found |= {name: language.resolve(name) for name in language.LANGUAGE}
    for names in weft.profiler._PUBLIC.values():
        found |= {f"profiler.{name}": getattr(weft.profiler, name) for name in names}
    found |= generate_reference.device_functions()
    found |= {f"kernels.{name}": getattr(weft.kernels, name) for name in weft.kernels.__all__}
    found |= {f"jax.{name}": getattr(weft.jax, name) for name in weft.jax.__all__}
    found |= {f"torch.{name}": getattr(weft.torch, name) for name in weft.torch.__all__}
    found |= {f"nn.{name}": getattr(weft.nn, name) for name in weft.nn.__all__}
    found |= {f"hf.{name}": getattr(weft.hf, name) for name in weft.hf.__all__}
    return found | {f"fn.{name}": value for name, value in _compiled_members()}


def _compiled_members() -> Iterator[tuple[str, object]]:
    for name, value in vars(CompiledDetails).items():
        if not name.startswith("_") and inspect.isroutine(getattr(value, "fget", value)):
            yield name, value


def example(name: str, value: object) -> str:
    """The Example section of an entry, or an empty string."""
    text = inspect.cleandoc(generate_reference.documentation(name, value))
    found = re.search(r"^Examples?:\n((?:[ \t]+.*(?:\n|$)|\n)+)", text, re.MULTILINE)
    return textwrap.dedent(found[1]).strip() if found else ""


@weft.kernel
def add_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1


@weft.jit
def add(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    add_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


@weft.kernel
def run_kernel(a: weft.Tensor, enabled: weft.Constexpr[bool]):
    p = weft.profiler.Profiler(enabled=enabled)
    p.init(0)
    with p.range("load"):
        a[weft.thread_idx.x] += 1


@weft.jit
def run(a: weft.Tensor[weft.f32, ("n",)], enabled: weft.Constexpr[bool] = True):
    run_kernel(a, enabled).launch(grid=2, block=32)


@weft.kernel
def scale_kernel(a: weft.Tensor, out: weft.Tensor, items: weft.Constexpr[int]):
    first = (weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x) * items
    for i in weft.static_range(items):
        if first + i < a.shape[0]:
            out[first + i] = 2 * a[first + i]


@weft.autotune(space={"threads": [64, 256], "items": [1]}, key=["n"], samples=3)
@weft.jit
def scale(
    a: weft.Tensor[weft.f32, ("n",)],
    out: weft.Tensor[weft.f32, ("n",)],
    threads: weft.i32,
    items: weft.Constexpr[int],
):
    grid = weft.ceil_div(a.shape[0], threads * items)
    scale_kernel(a, out, items).launch(grid=grid, block=threads)


@functools.cache
def surroundings() -> dict[str, object]:
    """What sessions may name without saying what it is."""
    a, b = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with weft.profiler.capture() as trace:
        run(a)
    fn, gpu = weft.compile(add, a, b), weft.compile(add, options="--gpu-arch sm_90a")
    named = {"a": a, "b": b, "out": b, "run": run, "scale": scale, "trace": trace}
    return {"weft": weft, "fn": fn, "gpu": gpu, **named}


def run_session(name: str, text: str) -> list[str]:
    """Runs a `>>>` session; what went wrong, as doctest says it."""
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(text, dict(surroundings()), name, name, 0)
    assert test.examples
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=said.append)
    return said


class Fragment:
    """A fragment as a host function with what to pass to it.

    Args:
        name: of the entry.
        text: its Example section, the code in double back-quotes.
    """

    def __init__(self, name: str, text: str) -> None:
        quoted = re.match(r"``(.*?)``", text, re.DOTALL)
        assert quoted, f"the example of {name} is neither a session nor code in double back-quotes"
        self.code = quoted[1]
        self.names, lines = _surroundings(self.code)
        body = textwrap.indent("\n".join([*lines, self.code]), "    ")
        listed = ", ".join(self.names)
        is_host = ".launch(" in self.code
        use = "weft.tma.prefetch(a)" if "_map(" in self.code else "a[weft.thread_idx.x] += n"
        kernel = f"def kernel(a, n=1):\n    {use}" if is_host else f"def kernel({listed}):\n{body}"
        passed = ", ".join(
            f"weft.tensor_map({n}, box=(8, 32), swizzle=128)" if n in MAPS else n
            for n in self.names
        )
        launch = (
            body
            if is_host
            else f"    kernel({passed}).launch(grid=2, block=32, shared_memory_bytes=8192, "
            f"cooperative={'sync_grid' in self.code}, "
            f"cluster={2 if re.search('map_shared|st_async', self.code) else None})"
        )
        if re.search("warpgroup|wgmma|setmaxnreg", self.code):
            launch = launch.replace("block=32", "block=128")
        text = f"@weft.kernel\n{kernel}\n\n@weft.jit\ndef host({listed}):\n{launch}\n"
        file = f"<example of {name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        namespace = {"weft": weft}
        exec(compile(text, file, "exec"), namespace)
        self.host = namespace["host"]

    def arguments(self) -> list[np.ndarray]:
        """Zeros for every tensor, aligned to 64 bytes."""
        arrays = ((name, _zeros(np.dtype(TENSORS[name]))) for name in self.names)
        return [array.reshape(-1, 32) if name in MAPS else array for name, array in arrays]

    def compiled(self, options: str) -> object:
        """The host function for tensors of 1024 elements that are aligned to 16 bytes."""
        dtypes = {"float32": weft.f32, "int32": weft.i32, "uint32": weft.u32, "uint8": weft.u8}
        fakes = [
            weft.fake_tensor(
                dtypes.get(TENSORS[name], weft.u64),
                (LENGTH // 32, 32) if name in MAPS else (LENGTH,),
                alignment_bytes=16,
            )
            for name in self.names
        ]
        return weft.compile(self.host, *fakes, options=options)

    def is_for_cuda_only(self) -> bool:
        return "inline_ptx" in self.code


def _zeros(dtype: np.dtype) -> np.ndarray:
    raw = np.zeros(LENGTH * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + LENGTH * dtype.itemsize].view(dtype)


def _surroundings(code: str) -> tuple[list[str], list[str]]:
    """The tensors that the code names, and the lines for what else it reads before it assigns it."""
    seen: set[str] = {"weft", "kernel", *dir(builtins)}
    tensors: list[str] = []
    lines: list[str] = []
    for statement in ast.parse(code).body:
        own = {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
        names = [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and node.id not in own
        ]
        for name in sorted({node.id for node in names} - _assigned_first(statement) - seen):
            if name in TENSORS:
                tensors.append(name)
            else:
                assert name in LINES, f"say what {name} is: in the example, or in LINES"
                lines.append(LINES[name])
        seen |= {node.id for node in names}
    return tensors, lines


def _assigned_first(statement: ast.stmt) -> set[str]:
    """The names to which a statement gives a value without reading it."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            read = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
            nodes = [node for target in targets for node in ast.walk(target)]
            stored = {
                n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            return stored - read
        case ast.For(target=ast.Name(id=name)):
            return {name}
        case _:
            return set()
