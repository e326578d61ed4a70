# SPDX-License-Identifier: Apache-2.0
"""``weft.target``: the machine that a kernel is compiled for, as compile-time values.

In: a feature's name. Out: a bool or a string, so that an ``if`` keeps one branch alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.errors import NameResolutionError, ValueRangeError
from weft.language.operation import operation
from weft.language.values import StagedNamespace, describe
from weft.types.capabilities import FEATURES, capabilities

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


@operation(name="target.has", on_host=True)
def has(builder: Builder, feature: str) -> bool:
    """Whether the target runs operations that need a feature; a compile-time value.

    In kernels, host functions and the functions that they call, so that one source serves several architectures. The
    CPU target runs all operations of the language, and so has what they need, such as ``"wgmma"``; it has no
    instructions of a GPU's own, such as ``"packed_f32x2"``. docs/architectures.md lists the features.

    Args:
        feature: a name known at compile time: ``"tma"``, ``"wgmma"``, ``"clusters"``.

    Raises:
        ValueRangeError: for an unknown name.

    Example:
        ``if weft.target.has("wgmma"): ...``
    """
    if not isinstance(feature, str) or feature not in FEATURES:
        from difflib import get_close_matches  # only a mistake needs it

        near = get_close_matches(feature, FEATURES, 1) if isinstance(feature, str) else ()
        raise ValueRangeError(
            "TARGET_FEATURE",
            f"target.has: expected the name of a feature, received {describe(feature)}",
            hint=f"{f'did you mean {near[0]!r}? ' if near else ''}there are: {', '.join(FEATURES)}",
        )
    return capabilities(builder.architecture).has(feature)


_HAS: Final = has


class Target(StagedNamespace):
    """The machine that a kernel is compiled for, as compile-time values.

    Attributes:
        arch: the architecture, such as ``"sm_90a"``; ``"cpu"``.
        is_cpu: whether it is the CPU target.

    Example:
        ``if weft.target.is_cpu or weft.target.has("wgmma"): ...``
    """

    name = "target"
    on_host = True

    if TYPE_CHECKING:  # the front end uses `attribute`
        arch: str
        is_cpu: bool
        has: Any

    def __repr__(self) -> str:
        return "weft.target"

    def attribute(self, builder: Builder, name: str) -> object:
        """``arch``, such as ``"sm_90a"`` or ``"cpu"``; ``is_cpu``; ``has``.

        Raises:
            NameResolutionError: for another name.
        """
        if name == "arch":
            return builder.architecture
        if name == "is_cpu":
            return builder.architecture == "cpu"
        if name == "has":
            return _HAS
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"weft.target has no attribute {name!r}",
            hint="write weft.target.arch, .is_cpu or .has(feature)",
        )


target: Final = Target()
