# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference from the docstrings of every public name.

In: `weft.__all__`, the table of the kernel language, and what was measured of `weft.kernels`. Out: one page per group,
and one for each function of `weft.kernels`;
`python -m docs.generate_reference` writes them, and tests/docs compares.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

import weft
from docs import generate_performance
from weft import language
from weft.api import Compile
from weft.autotuner.decorator import Autotune
from weft.autotuner.results import Result, Subject, Trial
from weft.autotuner.tuned import Tuned
from weft.language.functions import DeviceFunction
from weft.language.operation import Operation

FOLDER = Path(__file__).parent / "reference"
FOOT = "\n*Written by `python -m docs.generate_reference` from the docstrings.*\n"
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Example", "Examples")
CODE_NAME = re.compile(r"^(\*{0,2}[\w./`]+(?:, \*{0,2}[\w./`]+)*):\s+(.*)$", re.DOTALL)


KINDS = {
    "int": "Signed integer",
    "uint": "Unsigned integer",
    "float": "Float",
    "bool": "Truth value",
    "complex": "A complex number",
}


# What holds for all names of a family.
FAMILIES = {
    "numbers.math": (
        "Arguments are numbers of any type. A function of floats keeps its argument's type; an integer enters as f32, "
        "or as f64 if it has 64 bits, an 8-bit float as f32; of several arguments the common type counts. Angles are in "
        "radians. Of constants alone the result is a constant. Errors: `TypeMismatchError` if an "
        "argument is not a number and for incompatible types, `ValueRangeError` for constants "
        "outside of the domain. Host functions may "
        "use them too. [Mathematics](../mathematics.md) says how exact each is."
    ),
    "memory.atomics": (
        "Each is one step for all threads of its `scope`, on both targets. [The language](../language.md#tensors) defines "
        "the orders."
    ),
    "threads.grid": "Of clocks, only differences of times have a meaning.",
}


class Page(NamedTuple):
    """One page: its file, its title, its introduction, and the modules whose names it lists."""

    file: str
    title: str
    introduction: str
    modules: tuple[str, ...]


PAGES = (
    Page(
        "api.md",
        "Compiling and calling",
        "The public names of `weft`.",
        (
            "weft.api",
            "weft.runtime.warmup",
            "weft.sanitizer.checks",
            "weft.compiler.exported.files",
            "weft.compiler.exported.load",
            "weft.compiler.exported.linking",
        ),
    ),
    Page(
        "arguments.md",
        "Arguments",
        "Annotations of parameters, and stand-ins for arguments that are given to `weft.compile`.",
        (
            "weft.arguments.tensor_spec",
            "weft.arguments.packed",
            "weft.arguments.constant",
            "weft.arguments.shape",
            "weft.arguments.pointer",
            "weft.arguments.stream",
            "weft.arguments.registered",
            "weft.types.dims",
        ),
    ),
    Page(
        "options.md",
        "Compile options",
        "In `weft.compile[...]` an option is one of these classes; in `options=` it is its flag.",
        ("weft.compiler.options",),
    ),
    Page(
        "types.md",
        "Element types and limits",
        "As annotations element types declare scalars and elements; inside a kernel a call converts: `weft.f32(x)`.",
        ("weft.types.dtype", "weft.types.launch_limits"),
    ),
    Page(
        "driver.md",
        "Devices and memory",
        "Beside the calls of compiled functions; `weft.driver` has the rest of the bridge.",
        ("weft.driver.device", "weft.driver.memory"),
    ),
    Page(
        "autotune.md",
        "The autotuner",
        "[The guide](../autotune.md) says how to begin.",
        ("weft.autotuner.decorator",),
    ),
    Page(
        "errors.md",
        "Errors",
        "Every exception that can be caught.",
        ("weft.errors", "weft.sanitizer.report"),
    ),
)


def paragraphs(lines: list[str]) -> str:
    """Docstring text as Markdown: names in double back-quotes lose one pair."""
    return textwrap.dedent("\n".join(lines)).strip().replace("``", "`")


def items(lines: list[str]) -> str:
    """`name: text` entries of a section as a list; continued lines are indented deeper."""
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    entries = re.split(r"\n(?=\S)", text)
    rows = []
    for entry in entries:
        flat = " ".join(entry.split())
        named = CODE_NAME.match(flat)
        row = f"`{named[1].replace('`', '')}`: {named[2]}" if named else flat
        rows.append(f"* {row.replace('``', '`')}")
    return "\n".join(rows)


def markdown(docstring: str) -> str:
    """A docstring of the house as Markdown."""
    parts: list[str] = []
    section, lines = "", []

    def finish() -> None:
        if not any(line.strip() for line in lines):
            return
        if section.startswith("Example") and ">>>" not in "\n".join(lines):
            parts.append(f"**{section}** {paragraphs(lines)}")
        elif section.startswith("Example"):
            parts.append("```pycon\n" + textwrap.dedent("\n".join(lines)).strip() + "\n```")
        elif section in ("Args", "Attributes", "Raises"):
            parts.append(f"**{section}**\n\n{items(lines)}")
        elif section:
            parts.append(f"**{section}** {' '.join(' '.join(lines).split())}".replace("``", "`"))
        else:
            parts.append(paragraphs(lines))

    for line in inspect.cleandoc(docstring).splitlines():
        heading = line.rstrip().removesuffix(":")
        if line.rstrip().endswith(":") and heading in SECTIONS:
            finish()
            section, lines = heading, []
        elif section and line.strip() and not line.startswith(" "):
            finish()
            section, lines = "", [line]
        else:
            lines.append(line)
    finish()
    return "\n\n".join(parts)


def signature(name: str, value: object) -> str:
    """How `name` is called, for functions and operations; else the name."""
    if isinstance(value, Operation | DeviceFunction):
        shown = value.__signature__
    elif inspect.isroutine(value):
        shown = inspect.signature(value)
    else:
        return name
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in shown.parameters.values()
    ]
    return name + str(shown.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def entry(name: str, value: object, level: str = "##") -> str:
    """One public name: heading, how it is called, documentation.

    Raises:
        ValueError: if the object has no documentation.
    """
    flag = f" (`{value.flag}`)" if hasattr(value, "flag") else ""
    text = markdown(documentation(name, value))
    return f"{level} `{signature(f'weft.{name}', value)}`{flag}\n\n{text}\n"


def documentation(name: str, value: object) -> str:
    """The docstring of a public name, with its Example section.

    Raises:
        ValueError: if the object has none.
    """
    if isinstance(value, weft.DType):
        return f"{KINDS[value.kind]} of {value.bits} bits.\n\nExample:\n    ``x = weft.{value.name}(a[i])``"
    if isinstance(value, int):
        return text_below(weft._MODULE_OF[name], name)
    text = inspect.cleandoc(value.__doc__ or "")
    if not text:
        raise ValueError(f"weft.{name} has no docstring")
    if isinstance(value, Compile | Autotune):
        text = f"{text}\n\n{inspect.cleandoc(value.__call__.__doc__ or '')}"
    return text


def defined_in(modules: tuple[str, ...]) -> dict[str, object]:
    """The public names that come from these modules, in alphabetical order within each."""
    return {name: getattr(weft, name) for module in modules for name in weft._PUBLIC[module]}


def profiler_page() -> str:
    """`weft.profiler`, without the names that kernels use."""
    lines = [
        "# The profiler\n",
        "`weft.profiler` on the host: it prepares buffers, collects launches, and shows what they recorded. "
        "[The guide](../profiling.md) says how to begin; [the language](language.md#profiler) has "
        "`Profiler` and `CudaProfiler`. In the examples `run(a)` launches a marked kernel, and `trace` is the result of a "
        "capture of it gave.\n",
    ]
    for names in weft.profiler._PUBLIC.values():
        for name in names:
            value = getattr(weft.profiler, name)
            lines.append(entry(f"profiler.{name}", value))
            lines += methods(f"profiler.{name}", value)
    return "\n".join(lines) + FOOT


def text_below(module: str, name: str) -> str:
    """The text after the annotated assignment of a name in a module; empty without one."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for node, following in itertools.pairwise(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(following, ast.Expr):
            continue
        if ast.unparse(node.target) == name and isinstance(following.value, ast.Constant):
            return inspect.cleandoc(str(following.value.value))
    return ""


def ffi_documentation(name: str) -> str:
    """The docstring of a public name of `weft.ffi`.

    A class of the extension is documented where its module gives it the public name.

    Raises:
        ValueError: if it has none.
    """
    text = text_below(weft.ffi._MODULE_OF[name], name) or getattr(weft.ffi, name).__doc__
    if not isinstance(text, str) or not text:
        raise ValueError(f"weft.ffi.{name} has no docstring")
    return inspect.cleandoc(text)


def ffi_page() -> str:
    """`weft.ffi`, by module."""
    lines = [
        "# The TVM-FFI ABI\n",
        "`weft.ffi`: functions, values, objects, tensors and errors that other languages share. [The guide](../ffi.md) "
        "describes ownership; [calls](../calling.md) describes a call. In the examples the names of `weft.ffi` are "
        "imported, and `np` is NumPy. A test runs each.\n",
    ]
    for names in weft.ffi._PUBLIC.values():
        for name in names:
            value = getattr(weft.ffi, name)
            heading = signature(f"weft.ffi.{name}", value)
            lines.append(f"## `{heading}`\n\n{markdown(ffi_documentation(name))}\n")
            lines += methods(f"ffi.{name}", value)
    return "\n".join(lines) + FOOT


def namespace_page(space: str, title: str, introduction: str) -> str:
    """A module that is public as it is: each of its names."""
    module = getattr(weft, space)
    lines = [f"# {title}\n", f"{introduction}\n"]
    lines += [entry(f"{space}.{name}", getattr(module, name)) for name in module.__all__]
    return "\n".join(lines) + FOOT


def kernels_pages() -> dict[Path, str]:
    """`weft.kernels`: a list, and a page for each function with what was measured of it."""
    record = json.loads((generate_performance.FOLDER / generate_performance.RECORD).read_text())
    lines = [
        "# Kernels ready for use\n",
        "`weft.kernels`: functions of arrays. [The guide](../kernels.md) says what holds for all of them, "
        "[Performance](../performance.md) how they were measured.\n",
    ]
    found: dict[Path, str] = {}
    for name in weft.kernels.__all__:
        value = getattr(weft.kernels, name)
        summary, _, _ = documentation(name, value).partition("\n\n")
        lines.append(f"* [`{name}`](kernels/{name}.md): {' '.join(summary.split())}")
        source = f"src/{value.__module__.replace('.', '/')}.py"
        measured = generate_performance.section(record, name, "../../images/performance")
        parts = [
            entry(f"kernels.{name}", value, "#"),
            f"Its source is [{Path(source).name}](../../../{source}).\n",
            *((f"## Measured\n\n{measured}",) if measured else ()),
        ]
        found[FOLDER / "kernels" / f"{name}.md"] = "\n".join(parts) + FOOT
    found[FOLDER / "kernels.md"] = "\n".join(lines) + "\n" + FOOT
    return found


def device_functions() -> dict[str, object]:
    """The primitives, in the order of their modules' tables."""
    spaces = {"warp": weft.warp, "block": weft.block, "random.philox": weft.random.philox}
    return {
        f"{space}.{name}": getattr(module, name)
        for space, module in spaces.items()
        for name in module.__all__
    }


def primitives_page() -> str:
    """`weft.warp`, `weft.block` and `weft.random`."""
    lines = [
        "# Primitives\n",
        "`weft.warp`, `weft.block` and `weft.random`: functions that kernels inline, written in the language itself. "
        "[The guide](../primitives.md) says who has to call them, and what they cost. The examples stand in a kernel, as "
        "those of [the language](language.md) do; a test compiles and runs each.\n",
    ]
    lines += [entry(name, value) for name, value in device_functions().items()]
    return "\n".join(lines) + FOOT


def tuner_text() -> str:
    """What stands around `weft.autotune`: sweeps, the tuned function, its results."""
    shown = signature("autotune.sweep", weft.autotune.sweep)
    lines = [f"### `{shown}`\n\n{markdown(Autotune.sweep.__doc__ or '')}\n"]
    lines.append(
        f"## The tuned function\n\n{markdown(Tuned.__doc__ or '')} In the examples it is `scale`.\n"
    )
    for name, member in vars(Tuned).items():
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        call = name if isinstance(member, property) else signature(name, function)
        heading = call.replace("(self, ", "(").replace("(self)", "()")
        lines.append(f"### `tuned.{heading}`\n\n{markdown(function.__doc__ or '')}\n")
    for kind in (Result, Subject, Trial):
        lines.append(f"## `{kind.__name__}`\n\n{markdown(kind.__doc__ or '')}\n")
    return "\n".join(lines)


def methods(name: str, value: object) -> list[str]:
    """The documented methods of a class, as a list of entries."""
    if not inspect.isclass(value):
        return []
    found = []
    for attribute, member in vars(value).items():
        function = member.fget if isinstance(member, property) else member
        if attribute.startswith("_") or not inspect.isfunction(function):
            continue
        shown = attribute if isinstance(member, property) else signature(attribute, function)
        text = markdown(function.__doc__ or "")
        found.append(
            f"### `{name.rpartition('.')[2]}.{shown.replace('(self, ', '(').replace('(self)', '()')}`\n\n{text}\n"
        )
    return found


def language_page() -> str:
    """The kernel language, by family."""
    lines = [
        "# The kernel language\n",
        "Names that have a meaning in functions that weft compiles. Python's own operators, `if`, "
        "`for`, `while`, `abs`, `min`, `max`, `divmod`, `pow`, `round`, `len`, `range`, `int`, "
        "`float`, `bool` and `assert` work on staged values too.\n",
        "The examples stand in a kernel where `tid` and `i` are the index of the thread in its block and in the "
        "grid, `x` is an f32, and `a` and `b` are vectors of f32. A test compiles and runs each.\n",
    ]
    families: dict[str, list[str]] = {}
    for name, family in language.LANGUAGE.items():
        families.setdefault(family, []).append(name)
    for family, names in families.items():
        lines.append(f"## {family.rpartition('.')[2].capitalize()}\n")
        if family in FAMILIES:
            lines.append(f"{FAMILIES[family]}\n")
        lines += [entry(name, language.resolve(name), "###") for name in names]
    return "\n".join(lines) + FOOT


def compiled_function_page() -> str:
    """What `weft.compile` returns."""
    from weft.runtime.compiled_function import CompiledDetails

    lines = [
        "# The compiled function\n",
        "`weft.compile` returns a native callable. These are its attributes. In the examples `fn` is a function "
        "`add(a, b)` that was compiled for the CPU, and `gpu` the same for `sm_90a`.\n",
        markdown(CompiledDetails.__doc__ or "") + "\n",
    ]
    for name, value in vars(CompiledDetails).items():
        function = value.fget if isinstance(value, property) else value
        if not name.startswith("_") and inspect.isfunction(function):
            lines.append(f"## `fn.{name}`\n\n{markdown(function.__doc__ or '')}\n")
    return "\n".join(lines) + FOOT


def pages() -> dict[Path, str]:
    """Every page as it should be, by file."""
    result = {
        FOLDER / "language.md": language_page(),
        FOLDER / "primitives.md": primitives_page(),
        **kernels_pages(),
        FOLDER / "compiled-function.md": compiled_function_page(),
        FOLDER / "profiler.md": profiler_page(),
        FOLDER / "ffi.md": ffi_page(),
        FOLDER / "torch.md": namespace_page(
            "torch",
            "torch",
            "`weft.torch`: functions as operators of torch. [The guide](../torch.md) says when one needs it.",
        ),
        FOLDER / "nn.md": namespace_page(
            "nn",
            "Layers of torch",
            "`weft.nn`: layers of torch over `weft.kernels`. [The guide](../torch.md#layers) has an example.",
        ),
        FOLDER / "hf.md": namespace_page(
            "hf",
            "Models of transformers",
            "`weft.hf`: models of Hugging Face's transformers over `weft.kernels`. "
            "[The guide](../huggingface.md) says which, and what falls back.",
        ),
        FOLDER / "jax.md": namespace_page(
            "jax",
            "JAX",
            "`weft.jax`: functions in programs that JAX compiles. [The guide](../jax.md) says when one needs it.",
        ),
        FOLDER / "testing.md": namespace_page(
            "testing",
            "Testing",
            "`weft.testing`: other orders of threads, and line-by-line traces of one thread. "
            "The guide has examples of [both](../sanitizer.md#other-orders-of-threads).",
        ),
    }
    for page in PAGES:
        entries = [entry(name, value) for name, value in defined_in(page.modules).items()]
        text = f"# {page.title}\n\n{page.introduction}\n\n" + "\n".join(entries) + FOOT
        result[FOLDER / page.file] = text
    tuner = FOLDER / "autotune.md"
    result[tuner] = result[tuner].removesuffix(FOOT) + "\n" + tuner_text() + FOOT
    links = [
        ("language.md", "The kernel language"),
        ("primitives.md", "Primitives"),
        ("kernels.md", "Kernels ready for use"),
        ("compiled-function.md", "The compiled function"),
        ("profiler.md", "The profiler"),
        ("ffi.md", "The TVM-FFI ABI"),
        ("torch.md", "torch"),
        ("nn.md", "Layers of torch"),
        ("hf.md", "Models of transformers"),
        ("jax.md", "JAX"),
        ("testing.md", "Testing"),
    ]
    links = [*((page.file, page.title) for page in PAGES), *links]
    index = "# Reference\n\n" + "".join(f"* [{title}]({file})\n" for file, title in links) + FOOT
    result[FOLDER / "README.md"] = index
    return result


def main() -> None:
    """Write the pages, and delete those that are no longer made."""
    FOLDER.mkdir(exist_ok=True)
    found = pages()
    for path, text in found.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for old in {*FOLDER.rglob("*.md")} - {*found}:
        old.unlink()


if __name__ == "__main__":
    main()
