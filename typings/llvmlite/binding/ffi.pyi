# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

from llvmlite.binding import ContextRef, ModuleRef

class LLVMModuleRef: ...

class OutputString:
    def __bool__(self) -> bool: ...

class _RLock:
    def acquire(self) -> bool: ...
    def release(self) -> None: ...
    def _is_owned(self) -> bool: ...

class _LLVMLock:
    _lock: _RLock

class _lib_fn_wrapper:
    __call__: Callable[..., Any]

class _lib_wrapper:
    _lock: _LLVMLock
    def LLVMPY_ParseAssembly(
        self, context: ContextRef, text: bytes, words: OutputString
    ) -> LLVMModuleRef: ...
    def LLVMPY_VerifyModule(self, module: ModuleRef, words: OutputString) -> int: ...

lib: _lib_wrapper
