# SPDX-License-Identifier: Apache-2.0
"""Launches of a loaded kernel: with the parameters of Triton's bridge, or with any launch attributes.

In: a function handle, sizes, Python arguments, hooks; type names, such as ``("*fp32", "i32", "constexpr", ("i32",
"fp16"))``, which list dropped and flattened parameters, and the extractor of each. Out: the kernel queued on a
stream; an object to call for each launch, with everything that launches share computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft import _native
from weft.driver.device import DeviceProperties
from weft.driver.launch_attributes import LaunchAttribute, LaunchShape
from weft.driver.library import as_int, driver_is_open, open_driver
from weft.errors import brief
from weft.types.launch_limits import as_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

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


if TYPE_CHECKING:
    TypeName: TypeAlias = str | tuple["TypeName", ...]
    Annotation: TypeAlias = int | tuple["Annotation", ...]

CONSTEXPR: Final = "constexpr"
ARG_CONSTEXPR: Final = 0
ARG_KERNEL: Final = 1


class ParsedSignature(NamedTuple):
    """Facts about a kernel's parameters for `launch`.

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
