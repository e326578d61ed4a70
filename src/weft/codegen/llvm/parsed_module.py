# SPDX-License-Identifier: Apache-2.0
"""LLVM modules, which their context owns.

In: LLVM text. Out: a module in a context of its own, or in that of another module. LLVM deletes a context's modules
with it; llvmlite's modules delete themselves too, and a module whose context is gone then ends the process. Python
finalizes the two in either order: in a garbage collection, or where a signal's exception holds the frames of parsing.
So modules here delete nothing.
"""

from __future__ import annotations

import llvmlite.binding as llvm
from llvmlite.binding import ContextRef, ModuleRef, ffi


class OwnedModule(ModuleRef):
    """A module that keeps its context alive, and goes with it.

    Raises:
        RuntimeError: with LLVM's words, if the text is not a module.
    """

    _owned = True  # llvmlite's word for: another object disposes of it

    def __init__(self, text: str, context: ContextRef) -> None:
        # LLVM's words are freed when they go out of use; `with` frees them, too, and may be interrupted in between.
        words = ffi.OutputString()
        super().__init__(ffi.lib.LLVMPY_ParseAssembly(context, text.encode(), words), context)
        if words:
            raise RuntimeError(f"LLVM IR parsing error\n{words}")

    def verify(self) -> None:
        """Checks the module.

        Raises:
            RuntimeError: with LLVM's words, if it breaks LLVM's rules.
        """
        words = ffi.OutputString()
        if ffi.lib.LLVMPY_VerifyModule(self, words):
            raise RuntimeError(str(words))


def parse_module(text: str, beside: ModuleRef | None = None) -> ModuleRef:
    """An LLVM module from its text, not verified.

    Args:
        text: the module.
        beside: a module of this function whose context it shares, so that they can be linked.
    Raises:
        RuntimeError: with LLVM's words, if it is not a module.
    """
    # llvmlite says a module's context in no other way.
    context = llvm.create_context() if beside is None else beside._context  # pyright: ignore[reportPrivateUsage]
    return OwnedModule(text, context)
