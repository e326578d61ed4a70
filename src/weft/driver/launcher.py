# SPDX-License-Identifier: Apache-2.0
"""A kernel's launcher, with everything that launches share computed once.

In: a signature and the kernel's metadata. Out: an object to call for each launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.driver.kernel_launch import pointer_check_number
from weft.driver.library import driver_is_open, open_driver
from weft.driver.numbers import as_int
from weft.driver.signature import parse_signature
from weft.errors import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weft.driver.signature import TypeName

_MOST_ALIGNMENT: Final = 1 << 20


class KernelMetadata:
    """Facts of a kernel besides its signature.

    Each launch gives the blocks per cluster, in its `kernel_metadata`.

    Attributes:
        cooperative: make the whole grid resident at once.
        programmatic: may begin before the stream's preceding kernel has ended.
        global_scratch_size: bytes per block of memory for the kernel's run; 0: it declares the parameter (Triton's
            kernels always do) but needs no memory; None: it declares none.
        profile_scratch_size: the same for memory that a profiler reads later.
        global_scratch_align, profile_scratch_align: in bytes, a power of two.

    Raises:
        TypeError: a size or an alignment is not an int.
        ValueError: it is out of range, or an alignment is not a power of two.
    """

    __slots__ = (
        "cooperative",
        "global_scratch_align",
        "global_scratch_size",
        "profile_scratch_align",
        "profile_scratch_size",
        "programmatic",
    )

    def __init__(
        self,
        *,
        cooperative: bool = False,
        programmatic: bool = False,
        global_scratch_size: int | None = None,
        global_scratch_align: int = 1,
        profile_scratch_size: int | None = None,
        profile_scratch_align: int = 1,
    ) -> None:
        self.cooperative = bool(cooperative)
        self.programmatic = bool(programmatic)
        self.global_scratch_size = _size(global_scratch_size, "global_scratch_size")
        self.global_scratch_align = _alignment(global_scratch_align, "global_scratch_align")
        self.profile_scratch_size = _size(profile_scratch_size, "profile_scratch_size")
        self.profile_scratch_align = _alignment(profile_scratch_align, "profile_scratch_align")


def _size(value: int | None, name: str) -> int | None:
    return None if value is None else as_int(value, name, 0)


def _alignment(value: int, name: str) -> int:
    alignment = as_int(value, name, 1, _MOST_ALIGNMENT)
    if alignment & (alignment - 1):
        raise ValueError(f"{name} is {alignment}, expected a power of two")
    return alignment


class Launcher:
    """Launches one kernel.

    Args:
        signature: type names by parameter, as `parse_signature` takes them.
        metadata: the kernel's needs; None: none.
        pointer_check: as in `weft.driver.launch`.

    Example:
        >>> launcher = Launcher({"a": "*fp32", "n": "i32", "BLOCK": "constexpr"})
        >>> launcher.annotations
        (1, 1, 0)
    """

    __slots__ = ("_pointer_check", "_scratch", "annotations", "metadata", "signature")

    def __init__(
        self,
        signature: Mapping[str, TypeName] | Sequence[TypeName],
        metadata: KernelMetadata | None = None,
        *,
        pointer_check: str = "device",
    ) -> None:
        if metadata is not None and not isinstance(metadata, KernelMetadata):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"metadata is {brief(metadata)}, expected a KernelMetadata or None")
        self.annotations, self.signature = parse_signature(signature)
        self.metadata = needs = metadata if metadata is not None else KernelMetadata()
        self._pointer_check = pointer_check_number(pointer_check)
        self._scratch = (
            _wanted(needs.global_scratch_size, needs.global_scratch_align),
            _wanted(needs.profile_scratch_size, needs.profile_scratch_align),
        )

    def __call__(
        self,
        gridX: int,
        gridY: int,
        gridZ: int,
        stream: object,
        function: int,
        kernel_metadata: tuple[int, int, int],
        launch_metadata: object,
        enter_hook: Callable[[Any], object] | None,
        exit_hook: Callable[[Any], object] | None,
        *args: object,
    ) -> None:
        """Launch the kernel; the parameters are those of `weft.driver.launch`.

        Raises:
            TypeError, ValueError: an argument does not fit; the message names it.
            weft.CudaError: the driver refuses, or has no memory for the scratch.
        """
        if not driver_is_open():
            open_driver()
        _native.launch(
            gridX,
            gridY,
            gridZ,
            stream,
            function,
            self.metadata.cooperative,
            self.metadata.programmatic,
            kernel_metadata,
            launch_metadata,
            enter_hook,
            exit_hook,
            *self._scratch,
            self.annotations,
            self.signature,
            args,
            self._pointer_check,
        )


def _wanted(size: int | None, alignment: int) -> tuple[int, int] | None:
    return None if size is None else (size, alignment)
