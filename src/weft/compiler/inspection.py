# SPDX-License-Identifier: Apache-2.0
"""Looking inside a compiled function, whatever options it was compiled with.

In: what the compilation kept: source, signature, compressed texts. Out: IR, LLVM, PTX, cubin, SASS.
The IR is not kept: it is traced again from the snapshot of source and captured values. Next: runtime.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp

    from weft.backends.base import Backend
    from weft.compiler.artifacts import Artifacts


class IRText(str):
    """A module as text; ``generic()`` gives the form that other MLIR tools read."""

    __slots__ = ("_generic",)

    _generic: str

    def generic(self) -> str:
        """The same module in MLIR's generic form, for ``mlir-opt --allow-unregistered-dialect``."""
        return self._generic


class Inspection:
    """The texts of one compilation, made when they are asked for.

    Args:
        module_again: makes the module before lowering, once more from the snapshot.
        backend: disassembles.
        artifacts: what the compilation kept.
    """

    __slots__ = ("_artifacts", "_backend", "_module_again")

    def __init__(
        self, module_again: Callable[[], ModuleOp], backend: Backend, artifacts: Artifacts
    ) -> None:
        self._module_again = module_again
        self._backend = backend
        self._artifacts = artifacts

    def ir_module(self) -> IRText:
        """The module of kernels, host function and wrapper, before lowering."""
        from xdsl.printer import Printer

        module = self._module_again()
        text = IRText(module)
        stream = io.StringIO()
        Printer(stream, print_generic_format=True).print_op(module)
        text._generic = stream.getvalue()  # pyright: ignore[reportPrivateUsage]
        return text

    def text(self, stage: str) -> str | None:
        """The text of a stage (``"llvm"``, ``"llvm-host"``, ``"ptx"``), or None where there is none."""
        return self._artifacts.text(stage)

    def data(self, stage: str) -> bytes | None:
        """The bytes of a stage (``"cubin"``), or None where there is none."""
        return self._artifacts.data(stage)

    def sass(self) -> str | None:
        """The disassembled cubin, or None on a target that has none; needs nvdisasm."""
        return self._backend.disassemble(self._artifacts)
