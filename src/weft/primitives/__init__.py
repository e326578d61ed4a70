# SPDX-License-Identifier: Apache-2.0
"""Cooperative primitives, written in weft's own language: ``weft.warp``, ``weft.block``, ``weft.random``.

Each of these packages names its functions here, which are imported on first use: naming them loads no compiler.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def resolver(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package (PEP 562).

    Args:
        package: its name.
        modules: public name → module of the package that defines it, or is it.
    """

    def find(name: str) -> object:
        if name not in modules:
            space = package.rpartition(".")[2]
            raise AttributeError(f"weft.{space} has no {name!r}; it has {', '.join(modules)}")
        from weft.imports import imported

        module = imported(f"{package}.{modules[name]}")
        return module if name == modules[name] else getattr(module, name)

    return find
