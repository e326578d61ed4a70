# SPDX-License-Identifier: Apache-2.0
"""LLVM modules whose context goes with the last of them, in whatever order Python finalizes.

In: LLVM text. Out: a module in a context of its own, or in that of another module. llvmlite disposes of a context when
its Python object goes; the garbage collector may finalize that before the module's (an exception that holds the
frames of a failed compilation is enough), and LLVM ends the process. Next: optimize.
"""

from __future__ import annotations

from typing import cast

import llvmlite.binding as llvm
from llvmlite.binding import ContextRef, ModuleRef


class SharedContext(ContextRef):
    """A context that counts its modules; the last one disposes of it, and nothing else does."""

    modules: int

    def close(self) -> None:
        """Nothing: its modules know when it can go."""

    def enter(self) -> None:
        """One module more."""
        self.modules += 1

    def leave(self) -> None:
        """One module less."""
        self.modules -= 1
        if not self.modules:
            super().close()


class OwnedModule(ModuleRef):
    """A module that keeps its context alive, and takes it along."""

    _context: ContextRef

    def detach(self) -> None:
        """The module is gone, or another one's now: every way there comes through here, more than once at times."""
        was_open = not self.closed
        super().detach()
        if was_open:
            cast("SharedContext", self._context).leave()


def parse_module(text: str, beside: ModuleRef | None = None) -> ModuleRef:
    """An LLVM module from its text, not verified.

    Args:
        text: the module.
        beside: a module of this function whose context it shares, so that they can be linked.
    Raises:
        RuntimeError: with LLVM's words, if it is no module.
    """
    if beside is None:
        # llvmlite's functions make objects of its own classes; these add no data but a number.
        context = llvm.create_context()
        context.__class__ = SharedContext
        shared = cast("SharedContext", context)
        shared.modules = 0
    else:
        shared = cast("SharedContext", beside._context)  # pyright: ignore[reportPrivateUsage]  llvmlite has no other way
    shared.enter()
    try:
        module = llvm.parse_assembly(text, shared)
    except BaseException:
        shared.leave()
        raise
    module.__class__ = OwnedModule
    return module
