# SPDX-License-Identifier: Apache-2.0
"""How another process finds a function: a module to import, or a script to load, and a name in it.

In: a host function. Out: a `Reference`, or None for what only this process has: functions inside functions, of
notebooks, and of scripts that do their work while they are loaded.
"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from weft.api import JitFunction

_LOADED_AS = "__mp_main__"  # as multiprocessing calls it, so that a guarded script does not run


class Reference(NamedTuple):
    """Where a function is.

    Attributes:
        module: to import; for a script an empty string.
        script: its path, or an empty string.
        name: in the module, with dots in classes.
        path: of modules, as in this process.
    """

    module: str
    script: str
    name: str
    path: tuple[str, ...]

    def find(self) -> Any:
        """The function, in any process.

        Raises:
            ImportError, AttributeError: if it is not there.
        """
        sys.path[:] = [*self.path, *(entry for entry in sys.path if entry not in self.path)]
        if self.script:
            import runpy

            names = runpy.run_path(self.script, run_name=_LOADED_AS)
            first, _, rest = self.name.partition(".")
            return _inside(names[first], rest)
        return _inside(import_module(self.module), self.name)


def reference_to(function: JitFunction) -> Reference | None:
    """Where other processes find a function; None if they do not."""
    plain = function.function
    module, name, script = plain.__module__, plain.__qualname__, ""
    if "<" in name or module not in sys.modules:
        return None
    try:
        found = _inside(sys.modules[module], name)
    except AttributeError:
        return None
    if found is not function:
        return None
    if module == "__main__":
        spec = getattr(sys.modules[module], "__spec__", None)
        file = Path(getattr(sys.modules[module], "__file__", None) or "").absolute()
        if not file.is_file() or not _is_guarded(file):
            return None
        module, script = (spec.name, "") if spec is not None else ("", str(file))
    return Reference(module, script, name, tuple(str(Path(entry).absolute()) for entry in sys.path))


def _inside(owner: Any, name: str) -> Any:
    """Resolve a dotted name, without the tuner around it."""
    for part in filter(None, name.split(".")):
        owner = vars(owner)[part] if isinstance(owner, type) else getattr(owner, part)
    return getattr(owner, "tuned_function", owner)


def _is_guarded(file: Path) -> bool:
    """Whether a script does its work under ``if __name__ == "__main__":``, so that loading it does not."""
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in body)
