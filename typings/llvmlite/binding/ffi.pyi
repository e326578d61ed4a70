# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from threading import RLock
from typing import Any

from llvmlite.binding import ContextRef, ModuleRef

class LLVMModuleRef: ...

class OutputString:
    def __bool__(self) -> bool: ...

class _LLVMLock:
    _lock: RLock
    _cblist: list[tuple[Callable[[], Any], Callable[[], Any]]]

class _lib_wrapper:
    _lock: _LLVMLock
    def LLVMPY_ParseAssembly(
        self, context: ContextRef, text: bytes, words: OutputString
    ) -> LLVMModuleRef: ...
    def LLVMPY_VerifyModule(self, module: ModuleRef, words: OutputString) -> int: ...

lib: _lib_wrapper
