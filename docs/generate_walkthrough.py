# SPDX-License-Identifier: Apache-2.0
"""Writes docs/walkthrough.md: add_one from source to result, with the texts that weft really makes.

In: examples/add_one.py, compiled for the CPU and for sm_90a. Out: the page;
`python -m docs.generate_walkthrough` writes it, and tests/docs compares.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.parser import Parser

import weft
from examples.add_one import add_one, add_one_kernel, fake_arguments
from weft.backends.cpu.stages import print_kernels
from weft.backends.host import machine_of
from weft.compiler.pipeline import passes_for
from weft.dialects.context import make_context

PAGE = Path(__file__).parent / "walkthrough.md"
ROOT = PAGE.parent.parent


def cpu_llvm(module: str) -> str:
    """LLVM text of the kernels for a CPU with AVX2, whatever this machine is; without locations."""
    again = Parser(make_context(), module).parse_module()
    return print_kernels(again, machine_of("x86-64-v3", "+avx2"))


def plain(text: str) -> str:
    """A text without this repository's path and without blanks at the ends of lines."""
    text = text.replace(str(ROOT) + "/", "").replace(str(ROOT), ".").expandtabs(4)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def block(language: str, text: str) -> str:
    """A fenced block."""
    return f"```{language}\n{plain(text)}\n```\n"


def from_line(text: str, begin: str, end: str) -> str:
    """The lines from the first that contains `begin` to the first after it that begins with `end`.

    Raises:
        ValueError: if there is no such line, so that the page cannot silently lose a part.
    """
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if begin in line), None)
    if first is None:
        raise ValueError(f"no line of the text contains {begin!r}")
    last = next(
        (
            number
            for number in range(first + 1, len(lines))
            if lines[number].strip().startswith(end)
        ),
        len(lines) - 1,
    )
    return inspect.cleandoc("\n" + "\n".join(lines[first : last + 1]))


def llvm_excerpt(text: str) -> str:
    """The head of a CPU kernel and the loop over the threads of a row."""
    head = from_line(text, "define", "entry:")
    loop = from_line(text, "run.", "next.")
    return f"{head}\n  ; … parameters, and the loop over blocks\n{loop}\n  ; …\n}}"


def operation(module: str, begin: str) -> str:
    """One top-level operation of a printed module: from its first line to its closing brace."""
    lines = module.splitlines()
    first = next((number for number, line in enumerate(lines) if begin in line), None)
    if first is None:
        raise ValueError(f"the module has no {begin!r}")
    indent = len(lines[first]) - len(lines[first].lstrip())
    closing = " " * indent + "}"
    last = next(
        number for number in range(first + 1, len(lines)) if lines[number].startswith(closing)
    )
    return "\n".join(line[indent:] for line in lines[first : last + 1])


def said(function: Any) -> str:
    """The first sentence of a function's module, as it goes on after a colon."""
    text = inspect.getdoc(inspect.getmodule(getattr(function, "func", function))) or ""
    first = text.partition("\n")[0].rstrip(".")
    return first[0].lower() + first[1:]


def heads(module: str) -> list[str]:
    """The first lines of the kernel and of the host function."""
    return [operation(module, begin).partition("\n")[0] for begin in ("simt.kernel", "func.func")]


def page() -> str:
    """The page as it should be."""
    cpu = weft.compile(add_one, *fake_arguments(), options="--target cpu")
    cuda = weft.compile(add_one, *fake_arguments(), options="--gpu-arch sm_90a")
    module, traced = str(cpu.ir_module), cpu.stages["trace"]
    passes = [f"* `{name}`: {said(each)}" for name, each in passes_for(cpu.signature).items()]
    x = np.arange(4, dtype=np.float32)
    y = np.zeros(4, dtype=np.float32)
    cpu(x, y)
    try:
        cpu(x, np.zeros(3, dtype=np.float32))
        raise AssertionError("a wrong shape was accepted")
    except ValueError as error:
        refusal = f"ValueError: {error}"
    return "\n".join(
        [
            "# From source to result",
            "",
            "What happens to [add_one](../examples/add_one.py). Every text on this page is what the "
            "compiler made when the page was written, and a test makes them again and compares.",
            "",
            "## 1. Source",
            "",
            "A kernel says what one thread does. A host function computes the launch.",
            "",
            block("text", inspect.getsource(add_one_kernel.function)),
            block("text", inspect.getsource(add_one.function)),
            "`frontend.source` reads the text again through the function object, finds its globals "
            "and closure, and parses it. Nothing is rewritten and nothing is run.",
            "",
            "## 2. Signature",
            "",
            "`arguments.signature` decides what each argument is, from the annotation and from the "
            "example that `weft.compile` was given:",
            "",
            block("text", str(cpu.signature)),
            "Both tensors have the symbol `n`, so the function serves every length and checks that "
            "the two agree. A direct call looks for code under exactly this information; only if "
            "there is none does the rest of this page happen.",
            "",
            "## 3. IR",
            "",
            "`frontend.trace` visits the syntax tree and builds xDSL operations. The kernel: ids and "
            "indices are i32, the guard is an `scf.if`, and the literal `1.0` took the type of what "
            "it was added to.",
            "",
            block("text", operation(traced, "simt.kernel")),
            "The host function computes the grid and launches. Numbers among the arguments, literals too, are passed at run time: "
            "a launch with `k(a, 24)` and one with `k(a, 8)` share one kernel, unless the parameter is a `weft.Constexpr`:",
            "",
            block("text", operation(traced, "func.func")),
            "## 4. Passes",
            "",
            "`passes_for` in `compiler.pipeline` lists what is done to the module, one function and one file each:",
            "",
            *passes,
            "",
            "After them the kernel says for which block it is made and what it takes of each tensor, and the "
            "host function what its kernels write:",
            "",
            block("text", "\n".join(heads(module))),
            "`ffi_wrapper` adds the function that callers see. It reads as the contract: which "
            "arguments, what is checked, in which order.",
            "",
            block("text", operation(module, "ffi.func")),
            "`fn.ir_module` is the whole text, `fn.stages` has it after each pass, and `generic()` of each "
            "gives the form that `mlir-opt --allow-unregistered-dialect` reads.",
            "",
            "## 5. LLVM IR for the CPU",
            "",
            "`codegen` prints LLVM's text straight from these operations. On the CPU a kernel is a "
            "loop over the threads of a block, and the guard has become the bound of that loop, so "
            "LLVM vectorizes it.",
            "",
            block("llvm", llvm_excerpt(cpu_llvm(module))),
            "## 6. PTX for sm_90a",
            "",
            "For the CUDA target the same IR is printed with the target's own rows, and LLVM makes "
            "PTX of it. ptxas makes a cubin of that in a process of its own, while this one compiles "
            "the host function.",
            "",
            block("text", from_line(cuda.ptx, ".visible .entry", "}")),
            "`fn.kernels` says what ptxas reported, `fn.sass` is the machine code.",
            "",
            "## 7. A call",
            "",
            "The host object is linked in memory; the marshaller turns Python arguments into "
            "`TVMFFIAny` values on the stack and calls the symbol `__tvm_ffi_add_one`. It checks, "
            "launches, and returns 0 or -1.",
            "",
            block(
                "pycon",
                ">>> x = np.arange(4, dtype=np.float32)\n>>> y = np.zeros(4, dtype=np.float32)\n"
                f">>> fn(x, y)\n>>> y\n{y!r}",
            ),
            "What does not fit is refused before anything runs:",
            "",
            block("pycon", f">>> fn(x, np.zeros(3, dtype=np.float32))\n{refusal}"),
            "*Written by `python -m docs.generate_walkthrough`.*",
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())
