# SPDX-License-Identifier: Apache-2.0
"""Launches of a loaded kernel: with the parameters of Triton's bridge, or with any launch attributes.

In: a function handle, sizes, Python arguments, hooks. Out: the kernel queued on a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.driver.device import DeviceProperties
from weft.driver.launch_attributes import LaunchAttribute, LaunchShape
from weft.driver.library import driver_is_open, open_driver
from weft.driver.numbers import as_int
from weft.errors import brief
from weft.types.launch_limits import as_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.driver.signature import Annotation

    Hook = Callable[[Any], object]
    LaunchHook = Callable[[_native.LaunchMetadata], object]

LaunchMetadata = _native.LaunchMetadata

# How pointers are checked, by name.
POINTER_CHECKS: Final = {"off": 0, "device": 1, "driver": 2}


def launch(
    gridX: int,
    gridY: int,
    gridZ: int,
    stream: object,
    function: int,
    cooperative: bool,
    programmatic: bool,
    kernel_metadata: tuple[int, int, int],
    launch_metadata: object,
    enter_hook: Hook | None,
    exit_hook: Hook | None,
    global_scratch: object,
    profile_scratch: object,
    arg_annotations: Sequence[Annotation] | None,
    signature: bytes,
    args: tuple[object, ...],
    *,
    pointer_check: str = "device",
) -> None:
    """Launch a kernel with blocks of 32 x num_warps threads, in clusters of num_ctas blocks.

    A zero in the grid is a no-op. The exit hook also runs if the launch fails. The GIL is held while the
    driver's queue is known to have room (`launch_ex` has a switch).

    Args:
        gridX, gridY, gridZ: clusters of `num_ctas` blocks in x; blocks in y and z.
        stream: anything that `stream_handle` takes.
        function: a handle of `load_binary`.
        cooperative: make the whole grid resident at once.
        programmatic: may begin before the stream's preceding kernel has ended.
        kernel_metadata: ``(num_warps, num_ctas, shared)``, shared memory in bytes.
        launch_metadata: passed to the hooks, such as a `LazyMetadata`.
        enter_hook, exit_hook: called before and after with `launch_metadata`, or None.
        global_scratch, profile_scratch: hidden parameters after the arguments, for kernels that declare them:
            device memory, 0 if the kernel needs none, or ``(bytes per block, alignment)`` of memory that this launch
            allocates (`weft.set_allocator`) and frees. None: the kernel declares no such parameter.
        arg_annotations: the `annotations` of `parse_signature`; None passes everything.
        signature: the `metadata` of `parse_signature`.
        args: the arguments; borrowed: the caller keeps tensors alive until the kernel has run.
        pointer_check: as in `launch_ex`; ``"driver"`` is the behavior of Triton's bridge.

    Raises:
        TypeError, ValueError: an argument does not fit; the message names it.
        weft.CudaError: the driver refuses; the message names the limit with both numbers.
    """
    if not driver_is_open():
        open_driver()
    _native.launch(
        gridX,
        gridY,
        gridZ,
        stream,
        function,
        cooperative,
        programmatic,
        kernel_metadata,
        launch_metadata,
        enter_hook,
        exit_hook,
        global_scratch,
        profile_scratch,
        arg_annotations,
        signature,
        args,
        pointer_check_number(pointer_check),
    )


def pointer_check_number(name: str) -> int:
    """The native number of a key of `POINTER_CHECKS`, or a ValueError that lists them."""
    number = POINTER_CHECKS.get(name) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if number is None:
        raise ValueError(
            f"pointer_check is {brief(name)}, expected one of: {', '.join(POINTER_CHECKS)}"
        )
    return number


def launch_ex(
    function: int,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    signature: bytes,
    args: tuple[object, ...],
    *,
    shared_memory_bytes: int = 0,
    stream: object = None,
    attributes: Sequence[LaunchAttribute] = (),
    arg_annotations: Sequence[Annotation] | None = None,
    metadata: object = None,
    enter_hook: Hook | None = None,
    exit_hook: Hook | None = None,
    scratch: tuple[object, object] | None = None,
    pointer_check: str = "device",
    device: DeviceProperties | None = None,
    release_gil: bool = False,
) -> None:
    """Launch a kernel with any launch attributes.

    Args:
        function: a handle of `load_binary`.
        grid: blocks in x, y, z. A zero is a no-op.
        block: threads in x, y, z.
        signature: the `metadata` of `parse_signature`.
        args: the arguments; borrowed.
        shared_memory_bytes: dynamic shared memory per block.
        stream: anything that `stream_handle` takes.
        attributes: objects of `weft.driver.launch_attributes`.
        arg_annotations: the `annotations` of `parse_signature`; None passes everything.
        metadata, enter_hook, exit_hook: as in `launch`.
        scratch: ``(global_scratch, profile_scratch)`` as in `launch`, or None: the kernel declares neither.
        pointer_check: ``"off"``, ``"device"`` (against the object's own device, free;
            of an object with `data_ptr()` alone the driver checks the address) or ``"driver"``: the driver is
            asked about each address, ints too. Unknown addresses and those of other devices are refused; pinned host
            memory is passed at its device address. The driver does not know memory that a graph under capture
            allocates. device: properties that the attributes are first checked against, so that errors show both
            numbers; None leaves the check to the driver.
        release_gil: whether other Python threads may run meanwhile.

    Raises:
        TypeError, ValueError: an argument or attribute does not fit; the message names it.
        weft.CudaError: the driver refuses; the message names the limit with both numbers.
    """
    if not driver_is_open():
        open_driver()
    check = pointer_check_number(pointer_check)
    sizes = as_sizes(grid, "grid"), as_sizes(block, "block")
    checked = _checked_attributes(sizes, attributes, device)
    _native.launch_ex(
        function,
        *sizes,
        as_int(shared_memory_bytes, "shared_memory_bytes"),
        stream,
        [(attribute.id, attribute.pack()) for attribute in checked],
        signature,
        arg_annotations,
        args,
        metadata,
        enter_hook,
        exit_hook,
        scratch,
        check,
        release_gil,
    )


def _checked_attributes(
    sizes: tuple[tuple[int, int, int], tuple[int, int, int]],
    attributes: Sequence[LaunchAttribute],
    device: DeviceProperties | None,
) -> tuple[LaunchAttribute, ...]:
    if device is not None and not isinstance(device, DeviceProperties):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"device is {brief(device)}, expected the DeviceProperties of device_properties() or None"
        )
    try:
        given = tuple(attributes)
    except TypeError:
        raise TypeError(
            f"attributes is {brief(attributes)}, expected a list of weft.driver.launch_attributes"
        ) from None
    shape = LaunchShape(*sizes, given)
    for index, attribute in enumerate(shape.attributes):
        if not isinstance(attribute, LaunchAttribute):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"attributes[{index}] is {attribute!r}, expected one of weft.driver.launch_attributes"
            )
        attribute.check(shape, device)
    return shape.attributes


def set_launch_hooks(
    enter: LaunchHook | None = None,
    exit: LaunchHook | None = None,
    *,
    metadata: Callable[[_native.LaunchMetadata], dict[str, object]] | None = None,
) -> None:
    """Call functions around every launch of compiled functions, process-wide and on every target.

    Each replaces the previous one; None removes it. Without hooks a launch only tests a flag. A hook that launches is
    called for its own launch too. `launch` and `launch_ex` take hooks as arguments instead.

    Args:
        enter: called before the launch with its `LaunchMetadata`: `kernel`, `device`, `grid`, `block`,
            `shared_memory_bytes`, `stream` and `attributes`, each computed when read. An exception here is raised by
            the call, and nothing is launched.
        exit: called with the same object once the launch is queued or has failed; after a failure its exceptions are
            printed and the launch's own error is raised.
        metadata: called at most once per launch, with the `LaunchMetadata`, when a hook calls ``get()``; the returned
            dict is merged into the result of ``get()``.

    Raises:
        TypeError: one of them cannot be called.

    Example:
        >>> set_launch_hooks(lambda launch: print(launch.kernel, launch.grid))
        >>> set_launch_hooks()
    """
    for name, hook in (("enter", enter), ("exit", exit), ("metadata", metadata)):
        if hook is not None and not callable(hook):
            raise TypeError(
                f"{name}: expected a function of one argument or None, received {brief(hook)}"
            )
    _native.set_launch_hooks(enter, exit, metadata)


class LazyMetadata:
    """Launch metadata that is computed when a hook first asks for it.

    Args:
        initial: known at once.
        compute: called with `initial` at most once; its result is merged in.

    Example:
        >>> LazyMetadata({"name": "add_one"}, lambda data: {"flops": 128}).get()
        {'name': 'add_one', 'flops': 128}
    """

    __slots__ = ("_compute", "data")

    def __init__(
        self,
        initial: dict[str, object],
        compute: Callable[[dict[str, object]], dict[str, object]] | None = None,
    ) -> None:
        self.data = dict(initial)
        self._compute = compute

    def get(self) -> dict[str, object]:
        """The metadata, computed on the first call."""
        compute, self._compute = self._compute, None
        if compute is not None:
            self.data.update(compute(self.data))
        return self.data
