# SPDX-License-Identifier: Apache-2.0
"""Launches of kernels in host functions.

In: `kernel(args).launch(grid=, block=, ...)`, `kernel[grid, block](args)` and `kernel.over(iterations)(args)`. Out:
`simt.launch_ex`, checked as far as possible. ``launch(attributes=)`` takes attributes without an option of their own:
objects of `weft.driver.launch_attributes` become the driver's number and 64 bytes. ``kernel.max_clusters(blocks)`` is
an i32, how many clusters of a kernel the device holds at once, of kernels launched before or after.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.builtin import ArrayAttr, BytesAttr, IntAttr, i64

from weft.dialects.builder import source_location
from weft.dialects.flow import origins, walk
from weft.dialects.simt.kernel import UNIT, LaunchAttributeAttr, LaunchExOp, sizes_attribute
from weft.dialects.simt.memory import ScratchOp
from weft.dialects.simt.threads import MaxClustersOp
from weft.dialects.simt.types import StreamType
from weft.driver.launch_attributes import (
    Cluster,
    Cooperative,
    LaunchAttribute,
    PreferredCluster,
    ProgrammaticStreamSerialization,
)
from weft.errors import CompileError, TypeMismatchError, ValueRangeError, WeftError
from weft.frontend.context import FrontendCallable, OverIterations
from weft.frontend.functions.kernels import Question, launch_missing
from weft.frontend.structure import contains_staged
from weft.language.numbers.convert import convert, to_common
from weft.language.numbers.operators import binary
from weft.language.values import Scalar, Stream, describe
from weft.types import dtype as types
from weft.types.dtype import i64 as i64_dtype
from weft.types.launch_limits import BLOCK, CLUSTER, GRID, MAX_THREADS, padded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Attribute, Block, SSAValue

    from weft.frontend.context import Frame
    from weft.frontend.functions.kernels import KernelTable, TracedKernel
    from weft.language.functions import KernelFunction
    from weft.location import SourceLocation


_PARAMETERS: Final = {
    "grid": None,
    "block": None,
    "over": None,
    "cluster": None,
    "shared_memory_bytes": 0,
    "stream": None,
    "cooperative": False,
    "programmatic": False,
    "attributes": (),
}


def call_kernel(
    table: KernelTable,
    frame: Frame,
    kernel: KernelFunction,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
) -> PendingLaunch:
    """``kernel(arguments)``."""
    pending = PendingLaunch(table, frame, kernel, arguments, keywords, frame.builder.location)
    table.pending.append(pending)
    return pending


def configure(
    frame: Frame, kernel: KernelFunction, configuration: Any, leading: Sequence[Any] = ()
) -> Configured:
    """``kernel[grid, block]``, or ``kernel.over(iterations)``.

    Args:
        frame: where it is.
        kernel: to launch.
        configuration: in the brackets.
        leading: arguments before those of the call: a method's instance.

    Raises:
        TypeMismatchError: if the brackets do not hold two values.
    """
    if isinstance(configuration, OverIterations):
        return Configured(kernel, {"over": configuration.iterations}, ".over(iterations)", leading)
    if not isinstance(configuration, tuple) or len(configuration) not in (2, 3):  # pyright: ignore[reportUnknownArgumentType]
        raise TypeMismatchError(
            "LAUNCH_CONFIGURATION",
            f"{kernel.function.__name__}[...] takes a grid, a block and possibly a stream",
            hint=f"write {kernel.function.__name__}[grid, block](...)",
        )
    sizes: Any = configuration  # pyright: ignore[reportUnknownVariableType]
    given: dict[str, Any] = dict(zip(("grid", "block", "stream"), sizes, strict=False))
    return Configured(kernel, given, "[grid, block]", leading)


@dataclass(slots=True, eq=False)
class Configured(FrontendCallable):
    """``kernel[grid, block]``, to be called with the kernel's arguments.

    Attributes:
        given: arguments of the launch.
        written: how that is written.
        leading: the kernel's first arguments.
    """

    kernel: KernelFunction
    given: Mapping[str, Any]
    written: str
    leading: Sequence[Any]

    def call(self, frame: Frame, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Launches the kernel on these arguments."""
        given = [*self.leading, *arguments]
        options, code = dict(self.given), self.kernel.function.__code__
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if "stream" in keywords and "stream" not in own:
            if options.get("stream") is not None:
                raise _usage(f"{self.kernel.function.__name__} received 'stream' twice")
            options["stream"] = keywords["stream"]
            keywords = {name: value for name, value in keywords.items() if name != "stream"}
        pending = frame.context.call_kernel(frame, self.kernel, given, keywords)
        emit_launch(frame, pending, options)

    def check_used(self) -> None:
        """Raises, since brackets alone launch nothing."""
        name = self.kernel.function.__name__
        raise CompileError(
            "LAUNCH_MISSING",
            f"{name}{self.written.replace('grid, block', '...')} alone does nothing",
            hint=f"write {name}{self.written}(...)",
        )


@dataclass(slots=True, eq=False)
class PendingLaunch(FrontendCallable):
    """``kernel(args)``, launched by ``.launch(...)``, which traces the kernel: its code depends on the cluster.

    Attributes:
        table: of the module's kernels.
        frame: where it is called.
        kernel: to launch.
        arguments, keywords: of the call.
        place: of the call.
        is_launched: whether a launch was traced, even if discarded.
    """

    table: KernelTable
    frame: Frame
    kernel: KernelFunction
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    place: SourceLocation
    is_launched: bool = False

    @property
    def launch(self) -> LaunchMethod:
        """``kernel(args).launch``, called with grid and block."""
        return LaunchMethod(self)

    def trace(self, cluster: tuple[int, ...] | None) -> tuple[TracedKernel, list[SSAValue]]:
        """The kernel in clusters of this size, and its run-time arguments."""
        self.is_launched = True
        builder = self.frame.builder
        here, builder.location = builder.location, self.place
        try:
            return self.table.find(self.frame, self.kernel, cluster, self.arguments, self.keywords)
        except WeftError as error:
            error.location = error.location or self.place
            raise
        finally:
            builder.location = here

    def check_used(self) -> None:
        """Raises, since calling a kernel alone launches nothing."""
        raise launch_missing(self.kernel)


@dataclass(slots=True, eq=False)
class LaunchMethod(FrontendCallable):
    """``kernel(args).launch``."""

    pending: PendingLaunch

    def call(self, frame: Frame, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """Emits the launch.

        Raises:
            TypeMismatchError: for an unknown argument, or a missing grid or block.
        """
        names = list(_PARAMETERS)
        if len(arguments) > 2:
            raise _usage("only grid and block are positional; pass the other arguments by name")
        given = dict(zip(names, arguments, strict=False))
        for name, value in keywords.items():
            if name not in _PARAMETERS:
                raise _usage(f"launch() has no argument '{name}'")
            if name in given:
                raise _usage(f"launch() received '{name}' twice")
            given[name] = value
        if "over" in given and "grid" in given:
            raise _usage("launch() received 'over' and 'grid'; over= chooses the grid")
        for name in ("grid", "block"):
            if name not in given and "over" not in given:
                raise _usage(f"launch() is missing '{name}'")
        emit_launch(frame, self.pending, given)

    def check_used(self) -> None:
        """Raises, since the method alone launches nothing."""
        self.pending.check_used()


def _usage(text: str) -> TypeMismatchError:
    return TypeMismatchError(
        "LAUNCH_ARGUMENTS", text, hint=f"launch({', '.join(f'{name}=' for name in _PARAMETERS)})"
    )


def emit_launch(frame: Frame, pending: PendingLaunch, given: Mapping[str, Any]) -> None:
    """Checks a launch's configuration as far as possible, and emits it.

    Raises:
        ValueRangeError: for a size that no device supports.
        TypeMismatchError: for a size that is not an integer, and for other wrong types.
    """
    options: dict[str, Any] = {**_PARAMETERS, **given}
    for name in ("grid", "block", "cluster", "shared_memory_bytes"):
        options[name] = _plain(options[name])
    cluster = _cluster(pending.kernel, options["cluster"])
    kernel, values = pending.trace(cluster)
    over = options["over"]
    iterations = None if over is None else _iterations(frame, kernel, over)
    grid = _sizes("grid", GRID, options["grid"]) if iterations is None else ()
    block = () if options["block"] is None else _sizes("block", BLOCK, options["block"])
    _check_block(kernel, block)
    stream = options["stream"]
    if stream is not None and not isinstance(stream, Stream):
        raise TypeMismatchError(
            "LAUNCH_STREAM",
            f"stream must be a weft.Stream parameter of the host function, received {describe(stream)}",
            hint="annotate a parameter with weft.Stream and pass it on",
        )
    properties = _properties(kernel, options, cluster)
    _check_grid(grid, cluster)
    if iterations is not None and cluster is not None:
        raise _usage("launch() chooses no grid for clusters; pass grid and block instead of over")
    builder = frame.builder
    shared = _shared_bytes(frame, kernel, options["shared_memory_bytes"])
    builder.emit(
        LaunchExOp(
            kernel.symbol,
            [_operand(frame, size) for size in grid],
            [_operand(frame, size) for size in block],
            values,
            shared,
            None if stream is None else stream.ssa,
            properties,
            iterations,
        )
    )


def _iterations(frame: Frame, kernel: TracedKernel, over: Any) -> SSAValue:
    """Number of iterations of a launch: an extent, or the product of several, as an i64."""
    name = kernel.function.function.__name__
    if not kernel.has_iterations:
        raise TypeMismatchError(
            "LAUNCH_OVER",
            f"'{name}' has no weft.each, whose iterations over= counts",
            hint="write grid= and block=",
        )
    builder = frame.builder
    found: Any = 1
    parts: Any = over if isinstance(over, tuple) else (over,)  # pyright: ignore[reportUnknownVariableType]
    for part in parts:
        number = _plain(part)
        if not (isinstance(number, Scalar) and number.dtype.is_integer) and type(number) is not int:
            raise TypeMismatchError(
                "LAUNCH_OVER",
                f"over is {describe(part)}; expected a number of iterations, or a tuple of them",
                hint="write over=n, or over=a.shape",
            )
        wide = to_common(builder, number, i64_dtype)
        found = binary(builder, "*", found, wide)
    return found.ssa


def check_scratch(host: Block) -> None:
    """Checks that arrays of `weft.scratch` are used in the order in which they are taken and given back.

    Raises:
        TypeMismatchError: for a launch on another stream than that of an array which it may be given.
    """
    passed = [one for one in host.args if isinstance(one.type, StreamType)]
    calls = passed[0] if len(passed) == 1 else None  # several: the call's may be any of them
    for launch in walk(host):
        if not isinstance(launch, LaunchExOp):
            continue
        arrays = [origin.owner for one in launch.args for origin in origins(one)]
        for array in arrays:
            if not isinstance(array, ScratchOp):
                continue
            if (launch.stream or calls) is (array.stream or calls):
                continue
            if array.kept is not None:
                raise TypeMismatchError(
                    "SCRATCH_STREAM",
                    "the launch is on another stream than the call's, in whose order weft.empty makes its tensor",
                    hint="launch on the call's stream, or pass the tensor as an argument",
                    location=source_location(launch.location),
                )
            raise TypeMismatchError(
                "SCRATCH_STREAM",
                "the launch is on another stream than its scratch memory, which may be given back before it runs",
                hint="give weft.scratch the stream of the launches that use the array: stream=...",
                location=source_location(launch.location),
            )


def _plain(value: Any) -> Any:
    """A size, or several, with NumPy's integers as Python's."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    return int(value) if is_integer else value


def _sizes(
    what: str, limits: tuple[int, tuple[int, ...], int], value: Any
) -> tuple[int | Scalar, ...]:
    """One to three sizes, padded with 1; known ones are checked."""
    parts = padded(value)
    if parts is None:
        raise ValueRangeError(
            "LAUNCH_DIMENSIONS",
            f"{what} has {len(value)} dimensions; expected 1 to 3",
            hint=f"{what}=(x, y, z), where y and z may be omitted",
        )
    for axis, part, most in zip("xyz", parts, limits[1], strict=True):
        _check_size(f"{what}.{axis}", part, limits[0], most)
    return parts


def _check_size(name: str, size: Any, least: int, limit: int) -> None:
    if isinstance(size, Scalar):
        if not size.dtype.is_integer:
            raise TypeMismatchError(
                "LAUNCH_SIZE",
                f"{name} is {size.dtype}; expected an integer",
                hint="divide integers and round up: weft.ceil_div(n, 128), or (n + 127) // 128",
            )
        return
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeMismatchError(
            "LAUNCH_SIZE",
            f"{name} is {describe(size)}; expected an integer",
            hint="use weft.ceil_div or // instead of /",
        )
    if not least <= size <= limit:
        raise ValueRangeError("LAUNCH_SIZE", f"{name} is {size}; expected {least} to {limit}")


def _check_block(kernel: TracedKernel, block: Sequence[int | Scalar]) -> None:
    """Checks a constant block.

    Raises:
        ValueRangeError: if it has more threads than a block or the kernel allows.
    """
    sizes = [size for size in block if isinstance(size, int)]
    if len(sizes) < 3:
        return
    threads = math.prod(sizes)
    allowed = kernel.function.max_threads or MAX_THREADS
    if threads > allowed:
        declared = kernel.function.max_threads is not None
        who = (
            f"'{kernel.function.function.__name__}' is declared with max_threads="
            if declared
            else ""
        )
        raise ValueRangeError(
            "LAUNCH_BLOCK_TOO_LARGE",
            f"block has {threads} threads ({' x '.join(map(str, sizes))}); "
            + (f"{who}{allowed}" if declared else f"at most {allowed} are allowed"),
            hint="use a smaller block and a larger grid",
        )


def _check_grid(grid: Sequence[int | Scalar], cluster: tuple[int, ...] | None) -> None:
    """Checks that a grid's constant sizes are whole clusters.

    Raises:
        ValueRangeError: with both numbers.
    """
    for axis, blocks, size in zip("xyz", grid, cluster or (), strict=False):
        if isinstance(blocks, int) and blocks % size:
            raise ValueRangeError(
                "LAUNCH_CLUSTER",
                f"grid.{axis} is {blocks}; expected a multiple of {size}, the blocks of a cluster along {axis}",
                hint="grid counts blocks, not clusters: round it up, and let extra blocks do nothing",
            )


def _properties(
    kernel: TracedKernel, options: Mapping[str, Any], cluster: tuple[int, ...] | None
) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for name in ("cooperative", "programmatic"):
        value = options[name]
        if not isinstance(value, bool):
            raise TypeMismatchError(
                "LAUNCH_FLAG",
                f"{name} must be True or False, known at compile time; received {describe(value)}",
            )
        if value:
            found[name] = UNIT
    if kernel.waits_for_grid and not options["cooperative"]:
        name = kernel.function.function.__name__
        raise CompileError(
            "LAUNCH_NOT_COOPERATIVE",
            f"'{name}' calls weft.sync_grid, but this launch is not cooperative",
            hint=f"write {name}(...).launch(grid=..., block=..., cooperative=True)",
        )
    if cluster is not None:
        found["cluster"] = sizes_attribute(cluster)
    others = attribute_rows(options["attributes"])
    if others:
        found["launch_attributes"] = ArrayAttr(others)
    return found


def _cluster(kernel: KernelFunction, value: Any) -> tuple[int, ...] | None:
    declared = kernel.cluster
    if value is None:
        return declared
    sizes = _sizes("cluster", CLUSTER, value)
    if contains_staged(sizes):
        raise TypeMismatchError(
            "LAUNCH_CLUSTER",
            "cluster must be known at compile time",
            hint="use a literal, a global or a weft.Constexpr parameter",
        )
    constant = tuple(size for size in sizes if isinstance(size, int))
    if math.prod(constant) > CLUSTER[2]:
        raise ValueRangeError(
            "LAUNCH_CLUSTER", f"cluster {constant} has more than {CLUSTER[2]} blocks"
        )
    if declared is not None and declared != constant:
        raise ValueRangeError(
            "LAUNCH_CLUSTER",
            f"cluster is {constant}; '{kernel.function.__name__}' is declared with {declared}",
        )
    return constant


def _shared_bytes(frame: Frame, kernel: TracedKernel, value: Any) -> SSAValue | None:
    if isinstance(value, Scalar) and value.dtype.is_integer:
        return _operand(frame, value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeMismatchError(
            "LAUNCH_SHARED_MEMORY",
            f"shared_memory_bytes must be an integer, received {describe(value)}",
        )
    if value < 0:
        raise ValueRangeError(
            "LAUNCH_SHARED_MEMORY", f"shared_memory_bytes is {value}; expected 0 or more"
        )
    if value < kernel.dynamic_bytes:
        raise ValueRangeError(
            "LAUNCH_SHARED_MEMORY",
            f"shared_memory_bytes is {value}, but the dynamic_shared arrays of "
            f"'{kernel.function.function.__name__}' end at byte {kernel.dynamic_bytes}",
            hint=f"write shared_memory_bytes={kernel.dynamic_bytes}",
        )
    return _operand(frame, value) if value else None


def _operand(frame: Frame, size: int | Scalar) -> SSAValue:
    if isinstance(size, Scalar):
        return convert(frame.builder, size, i64_dtype).ssa
    return frame.builder.constant(i64, size)


def max_clusters(
    table: KernelTable, frame: Frame, kernel: KernelFunction, blocks: object
) -> Scalar:
    """``kernel.max_clusters(blocks)``.

    Raises:
        TypeMismatchError: if the number of blocks is not a constant integer.
        ValueRangeError: if no cluster has that many.
    """
    if not isinstance(blocks, int) or isinstance(blocks, bool):
        raise TypeMismatchError(
            "MAX_CLUSTERS",
            f"max_clusters takes the number of blocks in a cluster, known at compile time; received {describe(blocks)}",
        )
    if not 1 <= blocks <= CLUSTER[2]:
        raise ValueRangeError(
            "MAX_CLUSTERS", f"max_clusters: a cluster has 1 to {CLUSTER[2]} blocks, not {blocks}"
        )
    key = MaxClustersOp, kernel, blocks
    found = frame.builder.shared_operation(key)
    if found is None:
        found = frame.builder.entry_operation(MaxClustersOp(), "max_clusters", key=key)
        table.questions.append(Question(found, kernel, blocks, frame.builder.location))
    return Scalar(found.results[0], types.i32)


# Launch attributes that the kernel is compiled for, or checked against → the option that says the same.
_OPTIONS: Final = {
    Cooperative.id: "cooperative=True",
    Cluster.id: "cluster=",
    ProgrammaticStreamSerialization.id: "programmatic=True",
    PreferredCluster.id: "cluster=, the only size",
}


def attribute_rows(value: Any) -> list[LaunchAttributeAttr]:
    """The attributes as data.

    Raises:
        TypeMismatchError: unless it is a tuple of them.
        ValueRangeError: for one that the kernel's code must know of, which an option of the launch says.
    """
    received = describe(value)
    is_sequence: bool = type(value) in (tuple, list)
    items: list[Any] = list(value) if is_sequence else [value]
    if not all(isinstance(item, LaunchAttribute) for item in items):
        raise TypeMismatchError(
            "LAUNCH_ATTRIBUTES",
            f"attributes is {received}; expected a tuple of launch attributes, known at compile time",
            hint="make them outside the host function, such as "
            "weft.driver.launch_attributes.Priority(-1)",
        )
    for item in items:
        option = _OPTIONS.get(item.id)
        if option is not None:
            raise ValueRangeError(
                "LAUNCH_ATTRIBUTES",
                f"attributes holds {item!r}, which the kernel's code does not know",
                hint=f"write {option} in the launch",
            )
    return [_attribute_row(item) for item in items]


def _attribute_row(attribute: LaunchAttribute) -> LaunchAttributeAttr:
    return LaunchAttributeAttr(IntAttr(attribute.id), BytesAttr(attribute.pack()))
