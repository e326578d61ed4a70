# SPDX-License-Identifier: Apache-2.0
"""Kernel signatures for `launch`: which arguments are passed, and as what.

In: type names, such as ``("*fp32", "i32", "constexpr", ("i32", "fp16"))``. Out: annotations that say what is
dropped or flattened, and metadata that chooses an extractor per parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from weft import _native
from weft.errors import brief

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    TypeName: TypeAlias = str | tuple["TypeName", ...]
    Annotation: TypeAlias = int | tuple["Annotation", ...]

CONSTEXPR: Final = "constexpr"
ARG_CONSTEXPR: Final = 0
ARG_KERNEL: Final = 1


def _types_of(signature: Mapping[str, TypeName] | Sequence[TypeName]) -> Sequence[TypeName]:
    if isinstance(signature, Mapping):
        return list(signature.values())
    if isinstance(signature, str | bytes) or not isinstance(signature, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"signature is {brief(signature)}, expected a list of type names, or a dict from names to them"
        )
    return list(signature)


def annotate_arguments(
    signature: Mapping[str, TypeName] | Sequence[TypeName],
) -> tuple[Annotation, ...]:
    """What `launch` does with each argument.

    `ARG_CONSTEXPR` drops it, `ARG_KERNEL` passes it, a tuple of these flattens a tuple.

    Args:
        signature: type names in the arguments' order, or a mapping from names to them. A tuple stands for
            a tuple argument.

    Raises:
        TypeError: it is no sequence or mapping.

    Example:
        >>> annotate_arguments(("*fp32", "constexpr", ("i32", "constexpr")))
        (1, 0, (1, 0))
    """

    def annotate(kind: TypeName) -> Annotation:
        if isinstance(kind, tuple):
            return tuple(annotate(item) for item in kind)
        return ARG_CONSTEXPR if kind == CONSTEXPR else ARG_KERNEL

    return tuple(annotate(kind) for kind in _types_of(signature))


def build_signature_metadata(types: Sequence[str]) -> bytes:
    """The metadata of flat type names without constants: four bytes per parameter.

    Types: ``*<element>`` (a pointer), ``i1 i8 i16 i32 i64 u1 u8 u16 u32 u64``, ``fp16 bf16 fp32 fp64``,
    ``fp8e4m3`` (``fp8e4nv``) and ``fp8e5m2`` (``fp8e5``), weft's own names of these, ``nvTmaDesc``, and
    ``struct[<bytes>:<alignment>]`` for anything with the buffer protocol that is passed by value.

    Raises:
        ValueError: a name is none of these; the message lists them.
        TypeError: a name is no string.

    Example:
        >>> len(build_signature_metadata(["*fp32", "i32", "struct[12:4]"]))
        12
    """
    return _native.build_signature_metadata(types)


def make_kernel_signature(signature: Mapping[str, TypeName] | Sequence[TypeName]) -> bytes:
    """The metadata of a signature: tuples flattened, constants dropped.

    Raises:
        ValueError: a type name is unknown.
        TypeError: it is no sequence or mapping, or one of its names is no string.

    Example:
        >>> make_kernel_signature(("*fp32", "constexpr", ("i32",))) == build_signature_metadata(["*fp32", "i32"])
        True
    """

    def flatten(kinds: Iterable[TypeName]) -> Iterator[str]:
        for kind in kinds:
            if isinstance(kind, tuple):
                yield from flatten(kind)
            elif kind != CONSTEXPR:
                yield kind

    return build_signature_metadata(list(flatten(_types_of(signature))))
