# SPDX-License-Identifier: Apache-2.0
"""`launch`, `launch_ex` and `Launcher` check alike: parameters, scratch memory, pointers, blocks of a cluster."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.native.fake_cuda.code import assemble, parameter_kernel
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from tests.sampling import sampled
from weft import driver
from weft.driver import launch_attributes

# Three pointers: one argument and two of scratch, or three arguments.
CODE = parameter_kernel("three", [".u64", ".u64", ".u64"])
Scratch = tuple[object, object]
Way = Callable[..., None]


def three() -> int:
    return driver.load_binary("three", assemble(CODE))[1]


def by_launch(
    function: int,
    args: tuple[object, ...],
    scratch: Scratch = (None, None),
    blocks: int = 1,
    **options: Any,
) -> None:
    signature = driver.make_kernel_signature(["*i8"] * len(args))
    driver.launch(
        2, 3, 1, None, function, False, False, (1, blocks, 0), None, None, None, *scratch, None, signature,
        args, **options,
    )  # fmt: skip


def by_launch_ex(
    function: int,
    args: tuple[object, ...],
    scratch: Scratch = (None, None),
    blocks: int = 1,
    **options: Any,
) -> None:
    signature = driver.make_kernel_signature(["*i8"] * len(args))
    attributes = [launch_attributes.Cluster(blocks)] if blocks > 1 else []
    driver.launch_ex(
        function,
        (2 * blocks, 3),
        32,
        signature,
        args,
        scratch=scratch,
        attributes=attributes,
        **options,
    )


def by_launcher(
    function: int,
    args: tuple[object, ...],
    scratch: Scratch = (None, None),
    blocks: int = 1,
    **options: Any,
) -> None:
    given: dict[str, Any] = {}
    for name, wanted in zip(("global", "profile"), scratch, strict=True):
        if isinstance(wanted, tuple):
            given[f"{name}_scratch_size"], given[f"{name}_scratch_align"] = wanted
        elif wanted is not None:
            assert wanted == 0
            given[f"{name}_scratch_size"] = wanted
    launcher = driver.Launcher(["*i8"] * len(args), driver.KernelMetadata(**given), **options)
    launcher(2, 3, 1, None, function, (1, blocks, 0), None, None, None, *args)


every_way = pytest.mark.parametrize("way", [by_launch, by_launch_ex, by_launcher])


def parameters(fake: FakeCuda) -> list[int]:
    text = fake.launches()[-1].split("parameters=[")[1].rstrip("]")
    return [int.from_bytes(bytes.fromhex(value), "little") for value in text.split(" ")]


def order(fake: FakeCuda) -> list[str]:
    calls = fake.calls("cuMemAllocAsync", "cuLaunchKernelEx", "cuMemFreeAsync")
    return [call.split("(")[0] for call in calls]


@on_fake()
@every_way
@pytest.mark.parametrize("args", [(), (1,), (1, 2), (1, 2, 3, 4)])
def test_missing_and_extra_arguments_are_refused_with_the_numbers(
    fake: FakeCuda, way: Way, args: tuple[int, ...]
):
    text = rf"three takes 3 parameters, the signature has {len(args)} and the launch gives 0 of scratch"
    with pytest.raises(TypeError, match=text):
        way(three(), args)
    assert order(fake) == []


@on_fake()
@every_way
@pytest.mark.parametrize(
    ("args", "scratch"),
    [
        ((1,), (0, None)),
        ((), (0, 0)),
        ((1, 2), (0, 0)),
        ((1, 2, 3), (0, None)),
        ((1,), (None, None)),
    ],
)
def test_scratch_of_other_parameters_is_refused(
    fake: FakeCuda, way: Way, args: tuple[int, ...], scratch: Scratch
):
    with pytest.raises(TypeError, match="three takes 3 parameters"):
        way(three(), args, scratch)
    assert order(fake) == []


@on_fake()
@every_way
def test_scratch_that_a_kernel_declares_and_does_not_need_is_null(fake: FakeCuda, way: Way):
    function = three()
    way(function, (7,), (0, 0))
    assert parameters(fake) == [7, 0, 0]
    way(function, (7, 8), (0, None))
    assert parameters(fake) == [7, 8, 0]
    assert order(fake) == ["cuLaunchKernelEx"] * 2


@on_fake()
@every_way
@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_scratch_is_as_large_as_the_grid_that_is_launched(fake: FakeCuda, way: Way, blocks: int):
    asked: list[int] = []

    def inside() -> None:
        driver.set_profile_allocator(lambda size, *_: asked.append(size) or 0x2000)
        way(three(), (7,), ((100, 4096), (16, 1)), blocks)

    contextvars.copy_context().run(inside)
    sizes = [call.split("(")[1].split(",")[0] for call in fake.calls("cuMemAllocAsync")]
    assert (sizes, asked) == ([str(600 * blocks + 4096)], [96 * blocks])
    assert f"grid={2 * blocks},3,1" in fake.launches()[0]
    _, first, second = parameters(fake)
    assert first % 4096 == 0
    assert second == 0x2000
    assert order(fake) == ["cuMemAllocAsync", "cuLaunchKernelEx", "cuMemFreeAsync"]
    assert fake.live("allocation") == 0


@on_fake()
@every_way
def test_profile_scratch_is_not_taken_from_the_pool(fake: FakeCuda, way: Way):
    with pytest.raises(RuntimeError, match="no allocator is set"):
        way(three(), (7,), (0, (16, 1)))
    assert order(fake) == []


class Memory:
    def __init__(self, address: object) -> None:
        self.address = address

    def data_ptr(self) -> object:
        return self.address


GIVEN = [
    (
        None,
        TypeError,
        r"the allocator returned None for \d+ bytes of scratch, expected an address or",
    ),
    (0, ValueError, r"the allocator returned the address 0, expected \d+ bytes"),
    (Memory(0), ValueError, "the allocator returned the address 0"),
    (0x1004, ValueError, "the allocator returned the address 0x1004, expected a multiple of 8"),
    (
        Memory(0x1004),
        ValueError,
        "the allocator returned the address 0x1004, expected a multiple of 8",
    ),
    (
        "memory",
        TypeError,
        r"expected a tensor, an address, None or an object with data_ptr\(\)",
    ),
    (weft.empty(600, weft.i8), ValueError, "expected memory of cuda:0.*, received host memory"),
    (2**64, ValueError, "expected an address from 0"),
]


@on_fake()
@pytest.mark.parametrize(
    ("given", "error", "text", "choose", "way"),
    sampled(
        [
            (*given, choose, way)
            for given in GIVEN
            for choose in (driver.set_allocator, driver.set_profile_allocator)
            for way in (by_launch, by_launch_ex, by_launcher)
        ],
        5,
        several=True,
    ),
)
def test_what_an_allocator_gives_is_checked(
    fake: FakeCuda,
    way: Way,
    choose: Callable[[Any], None],
    given: object,
    error: type[Exception],
    text: str,
):
    def inside() -> None:
        choose(lambda *_: given)
        with pytest.raises(error, match=text):
            way(three(), (7,), ((100, 8), (16, 8)))

    contextvars.copy_context().run(inside)
    assert "cuLaunchKernelEx" not in order(fake)
    assert fake.live("allocation") == 0


@on_fake()
@every_way
def test_an_allocator_is_believed_as_far_as_pointers_are(fake: FakeCuda, way: Way):
    function = three()

    def inside() -> None:
        driver.set_allocator(lambda *_: 0x1000)
        way(function, (None,), ((100, 8), 0))
        assert parameters(fake) == [0, 0x1000, 0]
        with pytest.raises(ValueError, match=r"0x1000, which CUDA does not know"):
            way(function, (None,), ((100, 8), 0), pointer_check="driver")

    contextvars.copy_context().run(inside)


@on_fake()
@every_way
def test_an_allocator_that_unloads_the_kernel_is_an_error(fake: FakeCuda, way: Way):
    module, function, *_ = driver.load_binary("three", assemble(CODE))

    def allocate(*_: int) -> int:
        driver.unload(module)
        return 0x1000

    def inside() -> None:
        driver.set_allocator(allocate)
        with pytest.raises(
            ValueError, match="module was unloaded by an argument, the allocator or"
        ):
            way(function, (None,), ((100, 8), 0))

    contextvars.copy_context().run(inside)
    assert order(fake) == []


@on_fake(devices=2)
@every_way
def test_pointers_are_verified_with_the_driver_where_it_is_asked(fake: FakeCuda, way: Way):
    function = three()
    here, there = weft.empty(4, weft.f32, 0), weft.empty(4, weft.f32, 1)
    check = functools.partial(way, function, pointer_check="driver")
    check((here, None, here))
    first, second, third = parameters(fake)
    assert (first, second) == (third, 0)
    check((first, Memory(first), 0))
    assert parameters(fake) == [first, first, 0]
    way(function, (0x1234, 0, 0))
    with pytest.raises(ValueError, match=r"argument #0: .*0x1234, which CUDA does not know"):
        way(function, (Memory(0x1234), 0, 0))  # nothing but the driver knows its device
    for wrong in (0x1234, Memory(0x1234)):
        with pytest.raises(ValueError, match=r"argument #1: .*0x1234, which CUDA does not know"):
            check((0, wrong, 0))
    with pytest.raises(ValueError, match="received memory of cuda:1"):
        check((0, 0, there))
    with pytest.raises(
        ValueError, match="pointer_check is 'x', expected one of: off, device, driver"
    ):
        way(function, (0, 0, 0), pointer_check="x")


@pytest.mark.parametrize("alignment", [3, 0, -8, 2**21, 12])
@pytest.mark.parametrize("name", ["global_scratch_align", "profile_scratch_align"])
def test_an_alignment_is_a_power_of_two(name: str, alignment: int):
    wrong: dict[str, Any] = {name: alignment}
    with pytest.raises(ValueError, match=f"{name} is {alignment}, expected"):
        driver.KernelMetadata(**wrong)


@on_fake()
@pytest.mark.parametrize("way", [by_launch, by_launch_ex])
@pytest.mark.parametrize(
    "wanted", sampled([(8, 3), (8, 0), (-1, 8), (8, 2**21), (8, 2**70), (1, 2, 3), ("x", 8)], 2)
)
def test_scratch_to_allocate_is_bytes_and_an_alignment(
    fake: FakeCuda, way: Way, wanted: tuple[object, ...]
):
    with pytest.raises((TypeError, ValueError), match=r"argument #1: global_scratch"):
        way(three(), (7,), (wanted, 0))
    assert order(fake) == []


@on_fake()
@every_way
def test_more_scratch_than_fits_is_refused_with_the_numbers(fake: FakeCuda, way: Way):
    for size in (2**62, 2**63 - 1):
        with pytest.raises(
            ValueError, match=rf"{size} bytes of scratch for each of 2 x 3 x 1 blocks"
        ):
            way(three(), (7,), ((size, 8), 0))
    assert order(fake) == []
