# SPDX-License-Identifier: Apache-2.0
"""Cooperative primitives, written in weft's own language: ``weft.warp``, ``weft.block``, ``weft.random``.

Each of these modules names functions of others, which are imported on first use: naming them loads no compiler.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def resolver(space: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a module of names (PEP 562).

    Args:
        space: its name.
        modules: public name → module of this package that defines it, or is it.
    """

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(
                f"weft.{space.rpartition('.')[2]} has no {name!r}; it has {', '.join(modules)}"
            )
        from weft.imports import imported

        module = imported(f"{__name__}.{modules[name]}")
        return module if name == modules[name] else getattr(module, name)

    return find
