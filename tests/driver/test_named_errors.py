# SPDX-License-Identifier: Apache-2.0
"""Arguments of a wrong kind: every error of the bridge names the argument and shows what was received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.code import assemble, parameter_kernel
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from tests.sampling import sampled
from weft import driver
from weft.driver.device import ordinal_of
from weft.driver.launch_attributes import Cluster, Priority

PAIR = parameter_kernel("pair", [".u64", ".u32"])
HUGE = 1 << 70
ONE: Any = np.int64(1)  # a number of another library's
SHARED_BY = (("x", TypeError), (None, TypeError), (1.5, TypeError), (HUGE, ValueError))


def load() -> int:
    return driver.load_binary("pair", assemble(PAIR))[1]


def launch(function: object, **changes: Any) -> None:
    values: dict[str, Any] = {"grid": 1, "block": 32, "args": (0, 1)}
    values["signature"] = driver.make_kernel_signature(("*fp32", "i32"))
    driver.launch_ex(function, **{**values, **changes})  # type: ignore[arg-type]


@on_fake()
@pytest.mark.parametrize(
    ("changes", "text"),
    sampled(
        [
            ({"arg_annotations": "x"}, "arg_annotations is 'x', expected what annotate_arguments"),
            ({"arg_annotations": 5}, "arg_annotations is 5, expected what annotate_arguments"),
            ({"arg_annotations": (7, 1)}, r"arg_annotations\[0\] is 7, expected 0, 1 or a tuple"),
            ({"arg_annotations": (1, "a")}, r"arg_annotations\[1\] is 'a', expected 0, 1"),
            ({"arg_annotations": [1.0, 1]}, r"arg_annotations\[0\] is 1.0, expected 0, 1"),
            ({"arg_annotations": [1]}, "expected 1 arguments to match the signature, received 2"),
            ({"scratch": 5}, r"scratch is 5, expected \(global, profile\) or None"),
            ({"scratch": (1,)}, r"scratch is \(1,\), expected"),
            (
                {"enter_hook": 5},
                "enter_hook: expected a function of one argument or None, received int",
            ),
            (
                {"exit_hook": "x"},
                "exit_hook: expected a function of one argument or None, received str",
            ),
            ({"shared_memory_bytes": "x"}, "shared_memory_bytes is 'x', expected an int"),
            (
                {"attributes": 5},
                "attributes is 5, expected a list of weft.driver.launch_attributes",
            ),
            ({"device": 0}, "device is 0, expected the DeviceProperties of device_properties"),
            ({"grid": "a"}, "grid is 'a', expected an int or one to three of them"),
            ({"grid": (1, 1.5)}, r"grid is \(1, 1.5\), expected an int or one to three"),
            ({"block": ()}, r"block is \(\), expected an int or one to three"),
            ({"stream": "x"}, "expected a stream .* received str"),
        ],
        3,
        several=True,
    ),
)
def test_launch_ex_names_the_argument(fake: FakeCuda, changes: dict[str, Any], text: str):
    with pytest.raises(TypeError, match=text):
        launch(load(), **changes)
    assert fake.count("cuLaunchKernelEx") == 0


@on_fake()
def test_a_list_of_annotations_is_as_good_as_a_tuple(fake: FakeCuda):
    launch(load(), arg_annotations=[1, 0, 1], args=(0, "constant", 1))
    assert len(fake.launches()) == 1


@on_fake()
def test_numbers_of_numpy_are_sizes(fake: FakeCuda):
    launch(
        load(), grid=np.int64(3), block=(np.uint8(32), np.int32(2)),
        shared_memory_bytes=np.int64(64), attributes=[Cluster(ONE), Priority(-ONE)],
    )  # fmt: skip
    (text,) = fake.launches()
    assert text.startswith("pair grid=3,1,1 block=32,2,1 shared=64")


CALLS: dict[str, Callable[[int, Any], object]] = {
    "static_shared_memory.function": lambda _, bad: driver.static_shared_memory(bad),
    "parameter_sizes.function": lambda _, bad: driver.parameter_sizes(bad),
    "occupancy_blocks.function": lambda _, bad: driver.occupancy_blocks(bad, 32),
    "occupancy_blocks.threads": driver.occupancy_blocks,
    "occupancy_blocks.shared": lambda function, bad: driver.occupancy_blocks(function, 32, bad),
    "occupancy_clusters.function": lambda _, bad: driver.occupancy_clusters(
        bad, (1, 1, 1), (1, 1, 1)
    ),
    "occupancy_clusters.block": lambda function, bad: driver.occupancy_clusters(
        function, bad, (1, 1, 1)
    ),
    "occupancy_clusters.cluster": lambda function, bad: driver.occupancy_clusters(
        function, (1, 1, 1), bad
    ),
    "largest_cluster.block": driver.largest_cluster,
    "largest_cluster.shared": lambda function, bad: driver.largest_cluster(
        function, (1, 1, 1), bad
    ),
    "load_binary.shared": lambda _, bad: driver.load_binary("pair", assemble(PAIR), bad),
    "unload.module": lambda _, bad: driver.unload(bad),
    "launch_ex.function": lambda _, bad: launch(bad),
    "launch_ex.shared_memory_bytes": lambda function, bad: launch(
        function, shared_memory_bytes=bad
    ),
    "set_printf_buffer.size": lambda _, bad: driver.set_printf_buffer(bad),
}


@on_fake()
@pytest.mark.parametrize("call", sampled(CALLS, 3))
def test_a_non_number_is_refused_by_name(fake: FakeCuda, call: str):
    function, name = load(), call.partition(".")[2]
    for bad, exception in SHARED_BY:
        with pytest.raises(exception, match=rf"^{name}(\.x)?(:| is )"):
            CALLS[call](function, bad)


@on_fake()
@pytest.mark.parametrize("name", ["name", "data"])
@pytest.mark.parametrize("bad", [5, None, 1.5])
def test_load_binary_names_an_argument_that_is_not_code(fake: FakeCuda, name: str, bad: Any):
    values: dict[str, Any] = {"name": "pair", "data": assemble(PAIR), name: bad}
    with pytest.raises(TypeError, match=f"{name} is {bad}, expected (a kernel's name|the bytes)"):
        driver.load_binary(**values)


@on_fake()
def test_an_impossible_handle_does_not_reach_the_driver(fake: FakeCuda):
    fake.forget_calls()
    with pytest.raises(
        ValueError, match="the function handle 0x8 is not one that load_binary gave"
    ):
        driver.occupancy_blocks(8, 32)
    assert fake.count("cuFuncGetAttribute") == 0


@on_fake()
def test_a_number_beyond_every_device_and_stream_is_named(fake: FakeCuda):
    for ask in (driver.device_properties, driver.memory_info, driver.set_current_device):
        with pytest.raises(ValueError, match=f"device is {HUGE}, expected an ordinal from 0 to"):
            ask(HUGE)
    with pytest.raises(ValueError, match=f"device is {HUGE}, expected an ordinal from 0 to"):
        ordinal_of(f"cuda:{HUGE}")
    for ask in (driver.stream_handle, driver.stream_device, driver.is_capturing):
        with pytest.raises(ValueError, match=f"expected a stream's address, received {HUGE}"):
            ask(HUGE)


@pytest.mark.parametrize("bad", ["x", None, 5])
def test_a_signature_is_a_sequence_of_names(bad: Any):
    for make in (driver.annotate_arguments, driver.make_kernel_signature, driver.Launcher):
        with pytest.raises(TypeError, match=r"signature is .*, expected a list of type names"):
            make(bad)
    with pytest.raises(TypeError, match=r"types\[1\] is 5, expected a type name"):
        driver.build_signature_metadata(["i32", 5])  # type: ignore[list-item]


def test_a_launcher_takes_kernel_metadata_only():
    with pytest.raises(TypeError, match="metadata is 5, expected a KernelMetadata or None"):
        driver.Launcher(("i32",), 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="global_scratch_size is 'x', expected an int"):
        driver.KernelMetadata(global_scratch_size="x")  # type: ignore[arg-type]


def tiled(**changes: Any) -> object:
    values: dict[str, Any] = {
        "descriptor": driver.TensorMap(), "address": 1 << 20, "element": "f16",
        "shape": (64, 64), "strides": (64, 1), "box": (8, 8),
    }  # fmt: skip
    return driver.fill_tma_descriptor_tiled(**{**values, **changes})


@on_fake()
@pytest.mark.parametrize("name", ["address", "shape", "strides", "box", "element_strides"])
@pytest.mark.parametrize("bad", sampled(["x", "%s", 1.5, object()], 2))
def test_a_descriptor_names_an_argument_that_is_not_a_number(fake: FakeCuda, name: str, bad: Any):
    with pytest.raises(TypeError, match=rf"^{name} is .*, expected "):
        tiled(**{name: bad})
    with pytest.raises(TypeError, match=r"address is .*, expected an int"):
        tiled(address=driver.empty(4, weft.f32))
    with pytest.raises(TypeError, match="address is None, expected an int"):
        tiled(address=None)


@on_fake()
def test_a_descriptor_is_a_tensor_map(fake: FakeCuda):
    wrong: tuple[Any, ...] = ("x", None, 5)
    for bad in wrong:
        with pytest.raises(TypeError, match=r"descriptor is .*, expected a weft.driver.TensorMap"):
            tiled(descriptor=bad)
        with pytest.raises(TypeError, match=r"descriptor is .*, expected a weft.driver.TensorMap"):
            driver.fill_tma_descriptor_im2col(
                bad, 0, "f16", (1, 2, 3), (8, 8, 1), lower=(0,), upper=(0,),
                channels_per_pixel=8, pixels_per_column=1,
            )  # fmt: skip
    with pytest.raises(ValueError, match=r"element is \['f16'\], expected one of"):
        tiled(element=["f16"])
    assert "f16" in repr(tiled(address=np.int64(1 << 20)))
