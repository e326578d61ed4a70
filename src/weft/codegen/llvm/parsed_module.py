# SPDX-License-Identifier: Apache-2.0
"""LLVM modules owned by their context.

In: LLVM text. Out: a module in its own context, or in another module's. LLVM deletes a context's modules with it;
llvmlite's modules also delete themselves, which ends the process once the context is gone. Python may finalize the two
in either order: in a garbage collection, or if a signal's exception holds the frames of parsing. So modules here delete
nothing.
"""

from __future__ import annotations

import llvmlite.binding as llvm
from llvmlite.binding import ContextRef, ModuleRef, ffi


class OwnedModule(ModuleRef):
    """A module that keeps its context alive and is freed with it.

    Raises:
        RuntimeError: with LLVM's message, if the text is not a module.
    """

    _owned = True  # llvmlite's flag: another object disposes of it

    def __init__(self, text: str, context: ContextRef) -> None:
        # The message is freed with its last reference; `with` would free it too, but may be interrupted in between.
        words = ffi.OutputString()
        super().__init__(ffi.lib.LLVMPY_ParseAssembly(context, text.encode(), words), context)
        if words:
            raise RuntimeError(f"LLVM IR parsing error\n{words}")

    def verify(self) -> None:
        """Checks the module.

        Raises:
            RuntimeError: with LLVM's message, if it is invalid.
        """
        words = ffi.OutputString()
        if ffi.lib.LLVMPY_VerifyModule(self, words):
            raise RuntimeError(str(words))


def parse_module(text: str, beside: ModuleRef | None = None) -> ModuleRef:
    """An LLVM module from its text, not verified.

    Args:
        text: the module.
        beside: a module of this function whose context it shares, for linking.
    Raises:
        RuntimeError: with LLVM's message, if it is not a module.
    """
    # llvmlite exposes a module's context in no other way.
    context = llvm.create_context() if beside is None else beside._context  # pyright: ignore[reportPrivateUsage]
    return OwnedModule(text, context)
