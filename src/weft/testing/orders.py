# SPDX-License-Identifier: Apache-2.0
"""`check_orders`, `check_targets`: whether results depend on the order of threads, which no correct kernel's do.

In: a function that launches kernels on the CPU, and its arguments. Out: nothing, or an error that names the first
element that differs, the thread that wrote it, and the order, which reproduces it. The function gets
copies of its arguments, and copies share memory where the arguments did; torch's tensors are copied so anyway,
NumPy's views would each become an array of its own.
"""

from __future__ import annotations

import copy
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft import _native
from weft.blame import package_of
from weft.config import config, override
from weft.driver.device import device_count
from weft.driver.memory import copy as copy_array
from weft.driver.memory import empty
from weft.errors import CudaError, OptionError, UnavailableError, brief
from weft.sanitizer.checks import sanitize
from weft.sanitizer.report import ReportPlace, SanitizerError, location_of
from weft.types.dtype import dtype_of_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    import numpy as np


_NUMBERS: Final = {"forward": 0, "backward": 1}
_RANDOM: Final = 2
_SEEDED: Final = re.compile(r"random\((\d{1,9})\)")


class Order(NamedTuple):
    """Order of a block's threads and a launch's blocks, one after the other: the same each time.

    Attributes:
        threads: ``"forward"``, ``"backward"``, or ``"random(5)"`` with any seed: warps, and lanes of a warp. A thread
            runs until it waits.
        blocks: likewise. Those of a cluster, of a cooperative grid, and of kernels with a `while` loop, which may wait
            for an earlier block, run forward.

    Example:
        >>> import weft
        >>> weft.testing.Order("backward")
        Order(threads='backward', blocks='forward')
    """

    threads: str = "forward"
    blocks: str = "forward"


ORDERS: Final = (
    *(Order("backward"), Order("forward", "backward"), Order("backward", "backward")),
    *(Order(f"random({seed})", f"random({seed})") for seed in range(3)),
)
"""Those that `check_orders` compares with `Order()`."""


class OrderError(AssertionError):
    """A function's results depend on the order of threads or blocks.

    Attributes:
        order: in which `in_order` shows it again.
        argument: its number among the arrays of the arguments.
        index: of the first element that differs.
        values: of that element, in the order forward and in `order`.
        writer: the `weft.ReportPlace` where it was written last in `order`, or None if that is unknown.
        reports: races of that run, as `weft.Report` objects.
    """

    def __init__(
        self,
        order: Order,
        argument: int,
        index: tuple[int, ...],
        values: tuple[Any, Any],
        writer: ReportPlace | None,
        races: SanitizerError | None,
    ) -> None:
        self.order, self.argument, self.index, self.values = order, argument, index, values
        self.writer = writer
        self.reports = races.reports if races is not None else ()
        text = (
            f"array #{argument}: element {index} is {values[0]} forward, and {values[1]} with threads {order.threads} "
            f"and blocks {order.blocks}"
        )
        if writer is not None:
            text += f"\nblock {writer.block}, thread {writer.thread} wrote it: {writer.location.excerpt()}"
        if races is not None:
            text += f"\n{races}"
        super().__init__(text)


class TargetError(AssertionError):
    """A function's results on the CPU and on a GPU differ.

    Attributes:
        argument: its number among the arrays of the arguments.
        index: of the first element that differs.
        values: of that element, on the CPU and on the GPU.
        count: how many elements of that array differ.
    """

    def __init__(
        self, argument: int, index: tuple[int, ...], values: tuple[Any, Any], count: int
    ) -> None:
        self.argument, self.index, self.values, self.count = argument, index, values, count
        super().__init__(
            f"array #{argument}: element {index} is {values[0]} on the CPU, and {values[1]} on the GPU "
            f"({count} elements differ)"
        )


@contextmanager
def in_order(threads: str = "forward", blocks: str = "forward") -> Generator[None]:
    """Runs the launches inside in this `Order`, on one thread of the machine.

    Functions are compiled anew for that, with one coroutine per thread. It concerns the CPU and the running thread.

    Raises:
        OptionError: for anything else than ``forward``, ``backward`` and ``random(seed)``.

    Example:
        >>> import numpy, weft
        >>> @weft.kernel
        ... def last_kernel(a: weft.Tensor):
        ...     a[0] = weft.thread_idx.x
        >>> a = numpy.zeros(1, numpy.int32)
        >>> with weft.testing.in_order("backward"):
        ...     last_kernel[1, 32](a)
        >>> int(a[0])
        0
    """
    (first, seed), (second, other) = _number(threads), _number(blocks)
    with override(sanitize=",".join(filter(None, [config.sanitize, "orders"]))):
        _native.set_launch_order(first, second, seed or other)
        try:
            yield
        finally:
            _native.set_launch_order(0, 0, 0)


def _number(order: str) -> tuple[int, int]:
    """The runtime's number of an order, and its seed."""
    if order in _NUMBERS:
        return _NUMBERS[order], 0
    found = _SEEDED.fullmatch(order) if isinstance(order, str) else None
    if found is None:
        raise OptionError(
            "TESTING_ORDER",
            f"an order is forward, backward or random(seed), received {brief(order)}",
        )
    return _RANDOM, int(found[1])


def check_orders(
    fn: Callable[..., object], *args: Any, orders: Sequence[Order] = ORDERS, workers: int = 2
) -> None:
    """Calls a function in several orders of threads and blocks, on copies of its arguments, and compares the results.

    Args:
        fn: launches kernels on the CPU: a `weft.jit` function, or any Python function that calls some. What was
            compiled earlier by `weft.compile` keeps its order.
        *args: its arguments, in lists, tuples and dicts too; arrays of NumPy or torch in the CPU's memory are compared,
            bit by bit. They stay as they are.
        orders: compared with forward.
        workers: also on that many threads of the machine; 1: not.

    Raises:
        OrderError: for the first element that differs.
        OptionError: unless it is an order.

    Example:
        >>> import numpy, weft
        >>> @weft.kernel
        ... def last_kernel(a: weft.Tensor):
        ...     a[0] = weft.thread_idx.x
        >>> try:
        ...     weft.testing.check_orders(last_kernel[1, 32], numpy.zeros(1, numpy.int32))
        ... except weft.testing.OrderError as error:
        ...     error.order, error.index, [int(value) for value in error.values], error.writer.thread
        (Order(threads='backward', blocks='forward'), (0,), [31, 0], (0, 0, 0))
    """
    expected = copied(args)
    with in_order():
        fn(*expected)
    for order in orders:
        given = copied(args)
        with in_order(*order):
            fn(*given)
        _compare(fn, args, expected, given, order)
    if workers > 1:
        given = copied(args)
        with override(num_threads=workers):
            fn(*given)
        _compare(fn, args, expected, given, Order("forward", f"of {workers} workers"))


def check_targets(
    fn: Callable[..., object], *args: Any, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Calls a function on the CPU and on the first GPU, on copies of its arguments, and compares each element.

    Args:
        fn: launches kernels: a `weft.jit` function, or any Python function that calls some.
        *args: its arguments, in lists, tuples and dicts too. NumPy's arrays are copied to the GPU for the second call.
            They stay as they are.
        rtol, atol: floats may differ by ``atol + rtol * abs(value on the CPU)``. By default elements are equal; NaN is
            equal to NaN.

    Raises:
        TargetError: for the first element that differs.
        UnavailableError: there is no GPU to compare with.
        OptionError: for an array of other elements than weft's.

    Example:
        ``weft.testing.check_targets(softmax, x, out, rtol=1e-6)``
    """
    _expect_gpu()
    expected, moved = copied(args), _on_gpu(args)
    fn(*expected)
    fn(*moved)
    for number, (one, there) in enumerate(zip(_arrays(expected), tensors_of(moved), strict=True)):
        _compare_targets(number, one, copy_array(one.copy(order="C"), there), rtol, atol)


def _expect_gpu() -> None:
    reason = ""
    try:
        if device_count() > 0:
            return
    except CudaError as error:
        reason = f": {error}"
    raise UnavailableError(
        "TESTING_GPU",
        f"check_targets compares the CPU with a GPU, and there is none{reason}",
        hint="skip the test on machines without one",
    )


def _compare_targets(number: int, one: Any, other: Any, rtol: float, atol: float) -> None:
    import numpy

    if one.dtype.kind in "biu":
        differs = one != other
    else:
        wide, found = one.astype(numpy.float64), other.astype(numpy.float64)
        differs = ~numpy.isclose(found, wide, rtol=rtol, atol=atol, equal_nan=True)
    places = numpy.argwhere(differs)
    if len(places):
        index = tuple(map(int, places[0]))
        raise TargetError(number, index, (one[index], other[index]), len(places))


def _on_gpu(value: Any) -> Any:
    """The same with NumPy's arrays as tensors on the first GPU."""
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {key: _on_gpu(item) for key, item in items}
    if isinstance(value, list | tuple):
        moved = list(map(_on_gpu, cast("Sequence[Any]", value)))
        return moved if isinstance(value, list) else tuple(moved)
    if not hasattr(value, "__array_interface__"):
        return value
    dtype = dtype_of_numpy(value.dtype.name)
    if dtype is None:
        raise OptionError(
            "TESTING_DTYPE",
            f"check_targets takes arrays of weft's element types, received {value.dtype}",
        )
    return copy_array(empty(value.shape, dtype, 0), value.copy(order="C"))


def _compare(fn: Callable[..., object], args: Any, expected: Any, given: Any, order: Order) -> None:
    """Raises OrderError if the arrays differ."""
    for number, (one, other) in enumerate(zip(_arrays(expected), _arrays(given), strict=True)):
        place = _first_difference(one, other)
        if place is None:
            continue
        index = tuple(int(axis) for axis in _unraveled(place, one.shape))
        values = _element(expected, number, index), _element(given, number, index)
        writer, races = None, None
        if order.blocks in _NUMBERS or _SEEDED.fullmatch(order.blocks):
            writer, races = _writer(fn, copied(args), number, index, order)
        raise OrderError(order, number, index, values, writer, races)


def _element(arrays: Any, number: int, index: tuple[int, ...]) -> Any:
    """An element of an array, as NumPy's number or as a float."""
    array = list(tensors_of(arrays))[number]
    if package_of(cast("type[Any]", type(array))) != "torch":
        return array[index]
    element = array.detach()[index]
    return float(element) if element.dtype.is_floating_point else element.item()


def _writer(
    fn: Callable[..., object], args: Any, number: int, index: tuple[int, ...], order: Order
) -> tuple[ReportPlace | None, SanitizerError | None]:
    """Thread that writes an element in an order, and the races of its launch."""
    array = list(_arrays(args))[number]
    offset = sum(place * stride for place, stride in zip(index, array.strides, strict=True))
    races = None
    _native.ask_writer(array.ctypes.data + offset)
    try:
        with in_order(*order), sanitize("races", continue_=True):
            fn(*args)
    except SanitizerError as error:
        races = error
    finally:
        found = _native.found_writer()
        _native.ask_writer(0)
    if found is None:
        return None, races
    block, thread, places = found
    return ReportPlace("written", block, thread, location_of(places)), races


def _arrays(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays in a value, as NumPy's over the same memory."""
    if isinstance(value, dict):
        value = list(cast("dict[Any, Any]", value).values())
    if isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from _arrays(item)
    elif hasattr(value, "__array_interface__"):
        import numpy

        yield numpy.asarray(value)
    elif hasattr(value, "__dlpack__") and hasattr(value, "numpy"):  # torch
        yield _numpy_of(value.detach())


def _numpy_of(tensor: Any) -> np.ndarray[Any, Any]:
    """A tensor of torch over the same memory; of a type that NumPy lacks, such as bf16, as integers."""
    try:
        return tensor.numpy()
    except TypeError:
        torch = sys.modules["torch"]
        integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
        return tensor.view(integers[tensor.element_size()]).numpy()


def _first_difference(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> int | None:
    """The number of the first element whose bits differ."""
    import numpy

    size = one.dtype.itemsize
    first, second = (
        numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8) for array in (one, other)
    )
    differs = numpy.flatnonzero(first != second)
    return int(differs[0]) // size if differs.size else None


def _unraveled(place: int, shape: Sequence[int]) -> Iterator[int]:
    import numpy

    return map(int, numpy.unravel_index(place, shape)) if shape else iter(())


def tensors_of(value: Any) -> Iterator[Any]:
    """The arrays of any library in a value."""
    if isinstance(value, dict):
        value = list(cast("dict[Any, Any]", value).values())
    if isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from tensors_of(item)
    elif hasattr(value, "__dlpack__"):
        yield value


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Deep copies of arguments."""
    copies: dict[int, Any] = {}
    if "numpy" in sys.modules:
        views: dict[int, list[np.ndarray[Any, Any]]] = {}
        kind: Any = sys.modules["numpy"].ndarray
        for array in {id(one): one for one in tensors_of(args) if type(one) is kind}.values():
            views.setdefault(id(_owner(array)), []).append(array)
        for sharing in views.values():
            if len(sharing) > 1:
                copies.update(_views_of_a_copy(sharing))
    return copy.deepcopy(args, copies)


def _owner(array: Any) -> Any:
    """The array whose memory another one is a view of."""
    while type(array.base) is type(array):
        array = array.base
    return array


def _views_of_a_copy(sharing: list[Any]) -> dict[int, Any]:
    """The same views of a copy of their owner's memory, by their numbers; none if that has gaps."""
    owner = _owner(sharing[0])
    if not owner.flags.c_contiguous and not owner.flags.f_contiguous:
        return {}
    memory = owner.copy(order="K").reshape(-1, order="A")
    begin = owner.__array_interface__["data"][0]
    made: dict[int, Any] = {}
    for array in sharing:
        place = array.__array_interface__["data"][0] - begin
        view = type(owner)(array.shape, array.dtype, memory, place, array.strides)
        view.flags.writeable = array.flags.writeable
        made[id(array)] = view
    return made
