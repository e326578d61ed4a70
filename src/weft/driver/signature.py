# SPDX-License-Identifier: Apache-2.0
"""Kernel signatures for `launch`: which arguments are passed, and how.

In: type names, such as ``("*fp32", "i32", "constexpr", ("i32", "fp16"))``. Out: annotations of what is dropped or
flattened, and metadata that chooses each parameter's extractor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from weft import _native
from weft.errors import brief

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    TypeName: TypeAlias = str | tuple["TypeName", ...]
    Annotation: TypeAlias = int | tuple["Annotation", ...]

CONSTEXPR: Final = "constexpr"
ARG_CONSTEXPR: Final = 0
ARG_KERNEL: Final = 1


class ParsedSignature(NamedTuple):
    """What `launch` knows about a kernel's parameters.

    Attributes:
        annotations: for each argument `ARG_CONSTEXPR`, which drops it, `ARG_KERNEL`, which passes it, or a tuple of
            these, which flattens a tuple.
        metadata: four bytes for each passed parameter.
    """

    annotations: tuple[Annotation, ...]
    metadata: bytes


def parse_signature(signature: Mapping[str, TypeName] | Sequence[TypeName]) -> ParsedSignature:
    """Parse a kernel's signature for `launch`.

    Types: ``*<element>`` (a pointer), ``i1 i8 i16 i32 i64 u1 u8 u16 u32 u64``, ``fp16 bf16 fp32 fp64``,
    ``fp8e4m3`` (``fp8e4nv``) and ``fp8e5m2`` (``fp8e5``), weft's own names of these, ``nvTmaDesc``,
    ``struct[<bytes>:<alignment>]`` for buffer-protocol objects passed by value, and ``constexpr`` for arguments that
    are not passed.

    Args:
        signature: type names in the arguments' order, or a mapping from names to them. A tuple stands for
            a tuple argument.

    Raises:
        ValueError: a name is not one of these; the message lists them.
        TypeError: it is not a sequence or mapping, or one of its names is not a string.

    Example:
        >>> parse_signature(("*fp32", "constexpr", ("i32", "constexpr"))).annotations
        (1, 0, (1, 0))
    """
    if isinstance(signature, Mapping):
        signature = tuple(signature.values())
    if isinstance(signature, str | bytes) or not isinstance(signature, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"signature is {brief(signature)}, expected a list of type names, or a dict from names to them"
        )
    passed: list[str] = []

    def annotate(kind: TypeName) -> Annotation:
        if isinstance(kind, tuple):
            return tuple(annotate(item) for item in kind)
        if kind == CONSTEXPR:
            return ARG_CONSTEXPR
        passed.append(kind)
        return ARG_KERNEL

    annotations = tuple(annotate(kind) for kind in signature)
    return ParsedSignature(annotations, _native.build_signature_metadata(passed))


def annotate_arguments(
    signature: Mapping[str, TypeName] | Sequence[TypeName],
) -> tuple[Annotation, ...]:
    """The annotations of `parse_signature`, under Triton's name."""
    return parse_signature(signature).annotations


def make_kernel_signature(signature: Mapping[str, TypeName] | Sequence[TypeName]) -> bytes:
    """The metadata of `parse_signature`, under Triton's name; `build_signature_metadata` is the same."""
    return parse_signature(signature).metadata


build_signature_metadata = make_kernel_signature
