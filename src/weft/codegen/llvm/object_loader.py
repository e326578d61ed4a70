# SPDX-License-Identifier: Apache-2.0
"""Links objects in memory into this process, with LLVM's LLJIT on machines that weft's own linker does not know.

In: the bytes of a relocatable object, the wanted symbols. Out: their addresses, valid while the handle lives. Objects
need only libc and libm.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from weft.codegen.llvm.optimize import initialize
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.memo import kept
from weft.runtime.linker import KNOWS_THIS_MACHINE, link_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llvmlite.binding import LLJIT, ResourceTracker

    from weft._native import LinkedObject


class LoadedObject:
    """Code in memory, unloaded with its last reference.

    Attributes:
        addresses: symbol → address.
    """

    __slots__ = ("_tracker", "addresses")

    def __init__(self, tracker: ResourceTracker, symbols: Sequence[str]) -> None:
        self._tracker: ResourceTracker | None = tracker
        self.addresses = {symbol: int(tracker[symbol]) for symbol in symbols}

    def close(self) -> None:
        """Unloads the code now. No call may be running or follow."""
        self.addresses = {}
        self._tracker = None


@kept
def _compiler(debuggable: bool) -> LLJIT:
    """The process's LLJIT, made once.

    JITLink places an object's sections side by side. RuntimeDyld places them anywhere, and ends the process if they lie
    more than 2 GB apart, as happens with much mapped memory (a GPU's, say); but only RuntimeDyld reports loaded code to
    gdb.
    """
    initialize("native")
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="small"
    )
    return llvm.create_lljit_compiler(machine, use_jit_link=not debuggable)


@kept
def _numbers() -> itertools.count[int]:
    """Numbers for the libraries of an LLJIT, whose names must be unique."""
    return itertools.count()


def load_object(
    data: bytes, symbols: Sequence[str], debuggable: bool = False
) -> LoadedObject | LinkedObject:
    """`link_object` where the linker knows the machine, else `load_with_lljit`."""
    load = link_object if KNOWS_THIS_MACHINE else load_with_lljit
    return load(data, symbols, debuggable)


def load_with_lljit(data: bytes, symbols: Sequence[str], debuggable: bool = False) -> LoadedObject:
    """Loads an object and looks up symbols in it.

    Args:
        data: a relocatable object for this machine.
        symbols: names of functions or data in it.
        debuggable: report the code to debuggers; not for processes that use a GPU.
    Raises:
        InternalCompilerError: if a symbol is missing in the object or among its references.
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
