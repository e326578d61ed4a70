# SPDX-License-Identifier: Apache-2.0
"""A kernel's launcher: what does not change between launches, computed once.

In: a signature and the kernel's metadata. Out: an object that is called for each launch and brings the
scratch memory that the kernel needs. Next: runtime, or the user's own dispatch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft import _native
from weft.driver.device import current_device
from weft.driver.library import driver_is_open, open_driver
from weft.driver.memory import GLOBAL, PROFILE, Scratch
from weft.driver.numbers import as_int
from weft.driver.signature import annotate_arguments, make_kernel_signature
from weft.errors import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weft.driver.signature import TypeName


class KernelMetadata:
    """What a launcher must know of a kernel besides its signature. Sizes are bytes per block.

    Attributes:
        cooperative: the whole grid is resident at once.
        programmatic: it may begin before the kernel before it on the stream has ended.
        num_ctas: blocks of a cluster.
        global_scratch_size, global_scratch_align: memory that the kernel uses while it runs.
        profile_scratch_size, profile_scratch_align: memory that a profiler reads afterwards.
    """

    __slots__ = (
        "cooperative",
        "global_scratch_align",
        "global_scratch_size",
        "num_ctas",
        "profile_scratch_align",
        "profile_scratch_size",
        "programmatic",
    )

    def __init__(
        self,
        *,
        cooperative: bool = False,
        programmatic: bool = False,
        num_ctas: int = 1,
        global_scratch_size: int = 0,
        global_scratch_align: int = 1,
        profile_scratch_size: int = 0,
        profile_scratch_align: int = 1,
    ) -> None:
        self.cooperative = cooperative
        self.programmatic = programmatic
        self.num_ctas = num_ctas
        self.global_scratch_size = global_scratch_size
        self.global_scratch_align = global_scratch_align
        self.profile_scratch_size = profile_scratch_size
        self.profile_scratch_align = profile_scratch_align
        for name in self.__slots__:
            if as_int(getattr(self, name), name) < (
                1 if name.endswith("align") or name == "num_ctas" else 0
            ):
                raise ValueError(f"{name} is {getattr(self, name)}, which is too small")


class Launcher:
    """Launches one kernel.

    Args:
        signature: type names by parameter, as `annotate_arguments` takes them.
        metadata: the kernel's needs; None: none.

    Example:
        >>> launcher = Launcher({"a": "*fp32", "n": "i32", "BLOCK": "constexpr"})
        >>> launcher.annotations
        (1, 1, 0)
    """

    __slots__ = ("annotations", "metadata", "signature")

    def __init__(
        self,
        signature: Mapping[str, TypeName] | Sequence[TypeName],
        metadata: KernelMetadata | None = None,
    ) -> None:
        if metadata is not None and not isinstance(metadata, KernelMetadata):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"metadata is {brief(metadata)}, expected a KernelMetadata or None")
        self.annotations = annotate_arguments(signature)
        self.signature = make_kernel_signature(signature)
        self.metadata = metadata if metadata is not None else KernelMetadata()

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
        needs = self.metadata
        if needs.global_scratch_size == 0 and needs.profile_scratch_size == 0:
            self._launch(
                (gridX, gridY, gridZ), stream, function, kernel_metadata,
                (launch_metadata, enter_hook, exit_hook), (None, None), args,
            )  # fmt: skip
            return
        handle = _native.stream_handle(stream)
        device = _native.stream_device(handle)
        if device < 0:
            device = current_device()
        blocks = max(gridX, 0) * max(gridY, 0) * max(gridZ, 0) * needs.num_ctas
        global_scratch = Scratch(
            needs.global_scratch_size * blocks, needs.global_scratch_align, handle, device, GLOBAL
        )
        profile_scratch = Scratch(
            needs.profile_scratch_size * blocks,
            needs.profile_scratch_align,
            handle,
            device,
            PROFILE,
        )
        with global_scratch as first, profile_scratch as second:
            self._launch(
                (gridX, gridY, gridZ), handle, function, kernel_metadata,
                (launch_metadata, enter_hook, exit_hook), (first, second), args,
            )  # fmt: skip

    def _launch(
        self,
        grid: tuple[int, int, int],
        stream: object,
        function: int,
        kernel_metadata: tuple[int, int, int],
        hooks: tuple[object, Any, Any],
        scratch: tuple[object, object],
        args: tuple[object, ...],
    ) -> None:
        _native.launch(
            *grid,
            stream,
            function,
            self.metadata.cooperative,
            self.metadata.programmatic,
            kernel_metadata,
            *hooks,
            *scratch,
            self.annotations,
            self.signature,
            args,
        )
