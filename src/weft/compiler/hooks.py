# SPDX-License-Identifier: Apache-2.0
"""Post-compile hooks: users' functions that see the module after the passes, and may change it.

In: the functions. Out: the module as they leave it, verified after each; if a changed module cannot be compiled, the
error names the hook, not weft.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from weft.blame import is_of_a_handler
from weft.compiler.module_text import module_text
from weft.errors import CompileError, InternalCompilerError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from xdsl.dialects.builtin import ModuleOp

    PostCompileHook = Callable[[ModuleOp], object]


class Hooks:
    """The hooks of one compilation.

    Args:
        functions: called in order with the module.
    """

    def __init__(self, functions: Sequence[PostCompileHook] = ()) -> None:
        self.functions = tuple(functions)
        self._changed_by: list[str] = []

    def run(self, module: ModuleOp) -> None:
        """Calls each hook, and verifies the module after it.

        Raises:
            CompileError: if the module is invalid.
        """
        before = module_text(module) if self.functions else ""
        for function in self.functions:
            name = f"the post-compile hook {getattr(function, '__name__', function)!s}"
            function(module)
            try:
                module.verify()
            except Exception as error:
                if is_of_a_handler(error):
                    raise
                raise CompileError(
                    "HOOK_BROKE_MODULE", f"{name} left an invalid module: {error}"
                ) from error
            after = module_text(module)
            if after != before:
                self._changed_by.append(name)
            before = after

    @contextlib.contextmanager
    def blamed(self) -> Generator[None]:
        """Attributes failures in the `with` block to the hooks, if one changed the module.

        Raises:
            CompileError: instead of an `InternalCompilerError`.
        """
        try:
            yield
        except InternalCompilerError as error:
            if not self._changed_by:
                raise
            raise CompileError(
                "HOOK_BROKE_MODULE",
                f"{' and '.join(self._changed_by)} left a module that cannot be compiled: {error.message}",
                hint="if it also fails without the hook, it is a defect of weft",
            ) from error
