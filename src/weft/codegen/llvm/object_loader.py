# SPDX-License-Identifier: Apache-2.0
"""Objects in memory become callable: linked against this process by LLVM's LLJIT.

In: the bytes of a relocatable object, the symbols that are wanted. Out: their addresses, valid while the handle
lives. Objects need libc and libm only, which the process has.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from weft.codegen.llvm.optimize import initialize
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llvmlite.binding import LLJIT, ResourceTracker


class LoadedObject:
    """Code in memory; it is unloaded when the last reference goes.

    Attributes:
        addresses: symbol → address.
    """

    __slots__ = ("_tracker", "addresses")

    def __init__(self, tracker: ResourceTracker, symbols: Sequence[str]) -> None:
        self._tracker: ResourceTracker | None = tracker
        self.addresses = {symbol: int(tracker[symbol]) for symbol in symbols}

    def close(self) -> None:
        """Unloads the code now. No call may be running or come later."""
        self.addresses = {}
        self._tracker = None


@kept
def _compiler(debuggable: bool) -> LLJIT:
    """The process's LLJIT, made once.

    JITLink lays the sections of an object side by side. RuntimeDyld places them where the system likes, and in a
    process with much memory mapped (a GPU's, say) it ends the process when they lie more than 2 GB apart; but
    only RuntimeDyld tells gdb what was loaded.
    """
    initialize("native")
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="small"
    )
    return llvm.create_lljit_compiler(machine, use_jit_link=not debuggable)


@kept
def _numbers() -> itertools.count[int]:
    """Numbers for the libraries of an LLJIT, whose names cannot be used twice."""
    return itertools.count()


def load_object(data: bytes, symbols: Sequence[str], debuggable: bool = False) -> LoadedObject:
    """Loads an object and looks up symbols in it.

    Args:
        data: a relocatable object for this machine.
        symbols: names of functions or data in it.
        debuggable: debuggers are told of the code; not for processes that use a GPU.
    Raises:
        InternalCompilerError: if a symbol is missing, in the object or among what it needs.
    """
    library = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
    for symbol in symbols:
        library.export_symbol(symbol)
    try:
        return LoadedObject(
            library.link(_compiler(debuggable), f"weft.{next(_numbers())}"), symbols
        )
    except RuntimeError as error:
        raise InternalCompilerError(
            "OBJECT_LOADING", f"the object cannot be loaded: {error}", hint=REPORT_HINT
        ) from error
