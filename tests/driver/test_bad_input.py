# SPDX-License-Identifier: Apache-2.0
"""Bad input: each is a typed error that names the function, the argument and the numbers."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.native.fake_cuda.code import ADD_ONE, EMPTY, assemble
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft import _native, driver
from weft.driver import launch_attributes as attributes
from weft.driver.memory import empty
from weft.errors import CudaError

MUTATIONS = 5000  # of each reader
NOTHING = b""


@weft.kernel
def touch_kernel(a: weft.Tensor):
    a[0] = 1.0


@weft.jit
def touch(
    a: weft.Tensor[weft.f32, ("n",)], x: weft.i64, y: weft.i64, threads: weft.i64, shared: weft.i64
):
    touch_kernel(a).launch(grid=(x, y, 1), block=threads, shared_memory_bytes=shared)


@functools.cache
def compiled() -> Compiled:
    return Compiled(touch, weft.fake_tensor(weft.f32, ("n",)), 1, 1, 1, 0)


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    assemble(ADD_ONE)
    assemble(EMPTY)
    compiled()


def mutations(code: bytes, count: int) -> Callable[[], bytes]:
    """Damaged copies of a cubin: bytes changed, cut, repeated, or moved; the same ones in every run."""
    generator = random.Random(count)

    def change() -> bytes:
        damaged = bytearray(code)
        kind = generator.randrange(4)
        if kind == 0:
            damaged = damaged[: generator.randrange(len(damaged))]
        elif kind == 1:
            start, size = generator.randrange(len(damaged)), generator.randrange(1, 200)
            damaged[start : start + size] = generator.randbytes(generator.randrange(200))
        else:
            for _ in range(generator.randrange(1, 9)):
                # The header and the section tables at the end are where a reader goes wrong.
                within = generator.choice([64, len(damaged), len(damaged)])
                place = (
                    generator.randrange(within) if kind == 2 else -generator.randrange(1, within)
                )
                damaged[place] = generator.choice(
                    [0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)]
                )
        return bytes(damaged)

    return change


@on_fake()
def test_no_damage_to_a_cubin_crashes_load_binary(fake: FakeCuda):
    make = mutations(assemble(ADD_ONE), MUTATIONS)
    loaded = 0
    for _ in range(MUTATIONS):
        try:
            module, *_ = driver.load_binary("add_one_kernel", make())
        except (CudaError, ValueError):
            continue
        loaded += 1
        driver.unload(module)
    driver.drain_unloads()
    assert 0 < loaded < MUTATIONS
    assert fake.live("module") == 0 and fake.current() is None


@on_fake()
def test_no_damage_to_a_cubin_crashes_a_program(fake: FakeCuda):
    make = mutations(assemble(ADD_ONE), MUTATIONS + 1)
    loaded = 0
    for _ in range(MUTATIONS):
        program = _native.DeviceProgram(make(), ["add_one_kernel"], "add_one", "sm_90")
        try:
            program.preload(0, random.Random(loaded).randrange(2))
            loaded += 1
        except (CudaError, ValueError):
            continue
        finally:
            del program
    driver.drain_unloads()
    assert 0 < loaded < MUTATIONS
    assert fake.live("module") == fake.live("library") == 0 and fake.current() is None


@on_fake()
@pytest.mark.parametrize(
    ("x", "y", "threads", "shared", "text"),
    [
        (1 << 40, 1, 32, 0, "grid.x is 1099511627776, expected 0 to 2147483647"),
        (1, 65536, 32, 0, "grid.y is 65536, expected 0 to 65535"),
        (-1, 1, 32, 0, "grid.x is -1, expected 0 to"),
        (1, 1, 0, 0, "block.x is 0, expected 1 to 1024"),
        (1, 1, 1025, 0, "block.x is 1025, expected 1 to 1024"),
        (1, 1, 32, -1, "shared_memory_bytes is -1, expected 0 to"),
        (1, 1, 32, 1 << 40, "shared_memory_bytes is 1099511627776, expected 0 to"),
    ],
)
def test_impossible_launch_sizes_name_the_kernel(
    fake: FakeCuda, x: int, y: int, threads: int, shared: int, text: str
):
    function = compiled().register(fake)
    with pytest.raises(ValueError, match=text) as error:
        function(empty(4, weft.f32, 0), x, y, threads, shared)
    assert "touch_kernel" in str(error.value)
    assert fake.launches() == [] and fake.current() is None


@on_fake()
@pytest.mark.parametrize(("x", "y"), [(0, 1), (1, 0), (0, 0), (0, 65535)])
def test_a_grid_without_blocks_is_a_no_op(fake: FakeCuda, x: int, y: int):
    compiled().register(fake)(empty(4, weft.f32, 0), x, y, 32, 0)
    assert fake.launches() == []


@on_fake()
def test_the_largest_grid_is_passed_on_in_64_bits(fake: FakeCuda):
    function = driver.load_binary("empty_kernel", assemble(EMPTY))[1]
    driver.launch_ex(function, (2147483647, 65535, 65535), 1, NOTHING, ())
    assert "grid=2147483647,65535,65535" in fake.launches()[0]


@on_fake(devices=2)
@pytest.mark.parametrize("device", [2, -1, 99, "cuda:2"])
def test_a_missing_device_is_named_by_every_function(fake: FakeCuda, device: object):
    uses: list[Callable[[], object]] = [
        lambda: driver.load_binary("empty_kernel", assemble(EMPTY), 0, device),
        lambda: driver.device_properties(device),
        lambda: driver.memory_info(device),
        lambda: driver.set_current_device(device),
        lambda: driver.synchronize(device),
        lambda: empty(4, weft.f32, device),
        lambda: compiled().function.preload(device),
    ]
    number = str(device).removeprefix("cuda:")
    texts = rf"there is no device cuda:{number}; the driver sees 2|is {number}, expected an ordinal"
    for use in uses:
        with pytest.raises(ValueError, match=texts):
            use()
    assert fake.current() is None


@on_fake()
@pytest.mark.parametrize("device", [None, 1.5, True, object(), b"cuda"])
def test_a_non_device_is_a_type_error(fake: FakeCuda, device: object):
    for use in (driver.device_properties, driver.set_current_device):
        with pytest.raises(TypeError, match="expected an ordinal, 'cuda:<ordinal>' or a device"):
            use(device)


@on_fake()
@pytest.mark.parametrize(
    ("stream", "error"),
    [
        ("0", TypeError),
        (1.5, TypeError),
        (True, TypeError),
        (-1, ValueError),
        (1 << 70, ValueError),
    ],
)
def test_a_non_stream_is_refused_before_the_driver_sees_it(
    fake: FakeCuda, stream: object, error: type[Exception]
):
    function = driver.load_binary("empty_kernel", assemble(EMPTY))[1]
    fake.forget_calls()
    for use in (
        lambda: driver.launch_ex(function, 1, 1, NOTHING, (), stream=stream),
        lambda: driver.stream_device(stream),
        lambda: driver.is_capturing(stream),
    ):
        with pytest.raises(error):
            use()
    assert fake.calls("cuStreamGetCtx", "cuLaunchKernelEx", "cuStreamIsCapturing") == []


@on_fake()
@pytest.mark.parametrize("function", [0, 1, 0x1001, 4095, -8, 1 << 70, "empty_kernel", None])
def test_invalid_kernel_handles_are_refused(fake: FakeCuda, function: Any):
    driver.open_driver()
    driver.set_current_device(0)
    fake.forget_calls()
    with pytest.raises((TypeError, ValueError)):
        driver.launch_ex(function, 1, 1, NOTHING, ())
    assert fake.calls("cuFuncGetAttribute", "cuLaunchKernelEx") == []


@on_fake()
def test_a_freed_modules_function_is_refused(fake: FakeCuda):
    module, function, *_ = driver.load_binary("empty_kernel", assemble(EMPTY))
    driver.unload(module)
    driver.drain_unloads()
    uses: list[Callable[[], object]] = [
        lambda: driver.launch_ex(function, 1, 1, NOTHING, ()),
        lambda: driver.occupancy_blocks(function, 32),
        lambda: driver.occupancy_clusters(function, (32, 1, 1), (1, 1, 1)),
        lambda: driver.largest_cluster(function, (32, 1, 1)),
        lambda: driver.static_shared_memory(function),
        lambda: driver.parameter_sizes(function),
        lambda: driver.unload(module),
    ]
    for use in uses:
        with pytest.raises(ValueError, match=r"unloaded|there is no loaded module"):
            use()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: attributes.Cluster("x"), TypeError, "cluster"),
        (lambda: attributes.Cluster((1.5, 1, 1)), TypeError, "cluster"),
        (lambda: attributes.Cluster(()), TypeError, "cluster is"),
        (lambda: attributes.Priority("high"), TypeError, "priority"),
        (lambda: attributes.AccessPolicyWindow("x", 1), TypeError, "address"),
        (lambda: attributes.SharedMemoryCarveout(None), TypeError, "percent"),
        (lambda: attributes.Raw(2, "text"), TypeError, "value"),
        (lambda: attributes.Raw("2", b""), TypeError, "id"),
    ],
)
def test_a_wrong_attribute_type_names_the_field(
    make: Callable[[], object], error: type[Exception], text: str
):
    with pytest.raises(error, match=text):
        make()


@on_fake()
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"attributes": [3]}, r"attributes\[0\]"),
        ({"grid": "1"}, "grid is '1'"),
        ({"grid": (1, 2, 3, 4)}, r"grid is \(1, 2, 3, 4\)"),
        ({"block": 1.0}, "block is 1.0"),
        ({"args": [1]}, "expected a tuple of arguments, received list"),
        ({"signature": "*fp32"}, "expected a signature from build_signature_metadata"),
        ({"enter_hook": 3}, "enter_hook: expected a function"),
        ({"shared_memory_bytes": "1"}, "int"),
    ],
)
def test_wrong_types_of_a_launch_are_type_errors_that_name_what(
    fake: FakeCuda, changes: dict[str, Any], text: str
):
    function = driver.load_binary("empty_kernel", assemble(EMPTY))[1]
    values: dict[str, Any] = {
        "function": function, "grid": 1, "block": 1, "signature": NOTHING, "args": (),
    }  # fmt: skip
    with pytest.raises(TypeError, match=text):
        driver.launch_ex(**{**values, **changes})
    assert fake.launches() == [] and fake.current() is None
