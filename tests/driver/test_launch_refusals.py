# SPDX-License-Identifier: Apache-2.0
"""Launches that are refused: signatures made up by hand, modules unloaded meanwhile, arguments of a wrong kind."""

from __future__ import annotations

import pytest

from tests.native.fake_cuda.code import assemble, parameter_kernel
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from weft import driver

WIDE = parameter_kernel("wide", [".u64"])
PAIR = parameter_kernel("pair", [".u64", ".u32"])
PAIR_SIGNATURE = ("*fp32", "i32")
POINTER = driver.make_kernel_signature(["*fp32"])
STRUCT = driver.make_kernel_signature(["struct[12:4]"])
KIND, LOG2_ALIGNMENT, LOW_BYTES, HIGH_BYTES = range(4)
# Of i64, u64 and fp64; of a struct of eight bytes.
LIKE_A_POINTER = {driver.make_kernel_signature([name])[KIND] for name in ("i64", "u64", "fp64")}
A_STRUCT = STRUCT[KIND]


def pair() -> tuple[int, int]:
    module, function, *_ = driver.load_binary("pair", assemble(PAIR))
    return module, function


def values_that_pass(function: int, row: bytes, place: int, argument: object) -> set[int]:
    """The values of one byte of a signature that a launch of no blocks takes."""
    taken = set[int]()
    for value in range(256):
        signature = bytearray(row)
        signature[place] = value
        size = int.from_bytes(signature[2:], "little")
        given = bytes(size) if signature[KIND] == A_STRUCT else argument
        try:
            driver.launch_ex(function, 0, 32, bytes(signature), (given,))
        except TypeError as error:
            assert str(error).startswith("expected a signature from build_signature_metadata")
        else:
            taken.add(value)
    return taken


@on_fake(version=12000)  # which cannot tell the parameters: nothing else would refuse them
@pytest.mark.parametrize(
    ("row", "place", "expected"),
    [
        (POINTER, KIND, {POINTER[KIND], A_STRUCT} | LIKE_A_POINTER),
        (POINTER, LOG2_ALIGNMENT, {3}),
        (POINTER, LOW_BYTES, {8}),
        (POINTER, HIGH_BYTES, {0}),
        (STRUCT, KIND, {A_STRUCT}),
        (STRUCT, LOG2_ALIGNMENT, set(range(8))),
        (STRUCT, LOW_BYTES, set(range(1, 256))),
        (STRUCT, HIGH_BYTES, set(range(128))),
    ],
)
def test_only_rows_that_weft_makes_are_extracted(
    fake: FakeCuda, row: bytes, place: int, expected: set[int]
):
    _, function, *_ = driver.load_binary("wide", assemble(WIDE))
    assert values_that_pass(function, row, place, 1) == expected


@on_fake(version=12000)
def test_a_float_of_eight_bytes_is_not_written_into_four(fake: FakeCuda):
    _, function, *_ = driver.load_binary("wide", assemble(WIDE))
    double = driver.make_kernel_signature(["fp64"])
    with pytest.raises(TypeError, match="expected a signature"):
        driver.launch_ex(function, 0, 32, double[:2] + b"\4\0", (1.0,))


class Unloads:
    """An argument whose reading unloads the kernel."""

    def __init__(self, module: int) -> None:
        self.module = module

    def __index__(self) -> int:
        driver.unload(self.module)
        driver.drain_unloads()
        return 5

    def data_ptr(self) -> int:
        return self.__index__() - 5


@on_fake()
@pytest.mark.parametrize("position", [0, 1])
def test_an_argument_that_unloads_the_kernel_is_an_error(fake: FakeCuda, position: int):
    module, function = pair()
    arguments: list[object] = [0, 1]
    arguments[position] = Unloads(module)
    signature = driver.make_kernel_signature(PAIR_SIGNATURE)
    with pytest.raises(ValueError, match="launch of pair: its module was unloaded"):
        driver.launch_ex(function, 1, 32, signature, tuple(arguments))
    assert fake.count("cuLaunchKernelEx") == 0
    assert driver.drain_unloads() == 1 and fake.live("module") == 0


@on_fake()
def test_an_enter_hook_that_unloads_the_kernel_is_an_error(fake: FakeCuda):
    module, function = pair()
    called = list[str]()

    def enter(_: object) -> None:
        driver.unload(module)
        assert driver.drain_unloads() == 0  # the launch keeps it
        assert fake.live("module") == 1

    with pytest.raises(
        ValueError, match="unloaded by an argument, the allocator or the enter hook"
    ):
        driver.launch_ex(
            function, 1, 32, driver.make_kernel_signature(PAIR_SIGNATURE), (0, 1),
            enter_hook=enter, exit_hook=lambda _: called.append("exit"),
        )  # fmt: skip
    assert fake.count("cuLaunchKernelEx") == 0 and called == ["exit"]
    assert driver.drain_unloads() == 1 and fake.live("module") == 0


@on_fake()
def test_an_exit_hook_may_unload_the_kernel(fake: FakeCuda):
    module, function = pair()
    signature = driver.make_kernel_signature(PAIR_SIGNATURE)
    driver.launch_ex(
        function, 1, 32, signature, (0, 1), exit_hook=lambda _: driver.unload(module)
    )  # fmt: skip
    assert len(fake.launches()) == 1
    assert driver.drain_unloads() == 1 and fake.live("module") == 0
