# SPDX-License-Identifier: Apache-2.0
"""Looking inside a compiled function, whatever options it was compiled with.

In: the compressed texts that the compilation kept. Out: IR, LLVM, PTX, cubin, SASS: those of what was compiled,
also when a global has changed since.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.backends.base import Backend
    from weft.compiler.artifacts import Artifacts


class IRText(str):
    """A module as text; ``generic()`` gives the form that other MLIR tools read."""

    __slots__ = ()

    def generic(self) -> str:
        """The same module in MLIR's generic form, for ``mlir-opt --allow-unregistered-dialect``."""
        from xdsl.parser import Parser
        from xdsl.printer import Printer

        from weft.dialects.context import make_context

        context = make_context()
        context.allow_unregistered = True  # a post-compile hook may have added anything
        stream = io.StringIO()
        Printer(stream, print_generic_format=True).print_op(Parser(context, self).parse_module())
        return stream.getvalue()


class Inspection:
    """The texts of one compilation.

    Args:
        backend: disassembles.
        artifacts: what the compilation kept.
    """

    __slots__ = ("_artifacts", "_backend")

    def __init__(self, backend: Backend, artifacts: Artifacts) -> None:
        self._backend = backend
        self._artifacts = artifacts

    def ir_module(self) -> IRText:
        """The module of kernels, host function and wrapper, after the passes and hooks."""
        return IRText(self._artifacts.text("ir") or "")

    def text(self, stage: str) -> str | None:
        """The text of a stage (``"llvm"``, ``"llvm-host"``, ``"ptx"``), or None where there is none."""
        return self._artifacts.text(stage)

    def data(self, stage: str) -> bytes | None:
        """The bytes of a stage (``"cubin"``), or None where there is none."""
        return self._artifacts.data(stage)

    def sass(self) -> str | None:
        """The disassembled cubin, or None on a target that has none; needs nvdisasm."""
        return self._backend.disassemble(self._artifacts)
