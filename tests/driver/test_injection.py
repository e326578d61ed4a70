# SPDX-License-Identifier: Apache-2.0
"""Every driver call that weft makes fails once: it is reported, all is restored, nothing leaks, the next try works.

A scenario runs once to learn which calls it makes; then, for each of them, in a fresh process where that call
fails.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.code import assemble, parameter_kernel
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import ROOT, FakeCuda, build, in_child, start
from weft import driver
from weft.driver.launch_attributes import Cluster
from weft.driver.memory import empty
from weft.errors import CudaError
from weft.profiler import capture

pytestmark = pytest.mark.slow

OUT_OF_MEMORY = 2
# Read for a message or as a precaution: their failure goes unnoticed.
HARMLESS = frozenset(
    {
        "cuDeviceGetDefaultMemPool",
        "cuDeviceGetName",
        "cuDevicePrimaryCtxGetState",
        "cuFuncGetParamInfo",
        "cuKernelGetAttribute",
        "cuLogsRegisterCallback",
        "cuMemPoolGetAttribute",
        "cuMemPoolSetAttribute",
        "cuStreamIsCapturing",
        "cuStreamQuery",
        "cuThreadExchangeStreamCaptureMode",
    }
)
KINDS = (
    "allocation",
    "event",
    "executable",
    "function",
    "graph",
    "library",
    "module",
    "pinned",
    "stream",
)
# Limits of a loaded module's function are read again where they are needed, and of an address only what is
# known is compared; unknown host memory counts as not pinned.
HARMLESS_THERE = frozenset(
    {
        ("cuDeviceTotalMem", "load, launch, unload"),
        ("cuDeviceTotalMem", "capture"),
        ("cuFuncGetAttribute", "context executor"),
        ("cuFuncGetAttribute", "module"),
        ("cuFuncGetAttribute", "checked module"),
        ("cuPointerGetAttribute", "pointers"),
        ("cuPointerGetAttribute", "streams"),
        ("cuPointerGetAttribute", "copies"),
    }
)
CODE = parameter_kernel("injected", [".u64", ".u64", ".u64"])
# With the variable of kernels that check.
CHECKED = f".visible .global .align 8 .b8 weft_report[16];\n{CODE}"


@weft.kernel
def store_kernel(a: weft.Tensor):
    a[weft.thread_idx.x] = 1.0


@weft.jit
def store(a: weft.Tensor[weft.f32, ("n",)], shared: weft.i32):
    store_kernel(a).launch(grid=16, block=1, cluster=(16, 1, 1), shared_memory_bytes=shared)


@functools.cache
def compiled(executor: str) -> Compiled:
    vector = weft.fake_tensor(weft.f32, ("n",))
    return Compiled(store, vector, 0, options=f"--executor {executor}")


def open_the_driver(fake: FakeCuda) -> None:
    driver.open_driver()


def load_launch_unload(fake: FakeCuda) -> None:
    module, function, *_ = driver.load_binary("injected", assemble(CODE), 100_000, 1)
    try:
        signature = driver.build_signature_metadata(["*i8"])
        driver.launch_ex(
            function, 16, 32, signature, (None,), shared_memory_bytes=150_000, scratch=(0, 0),
            attributes=[Cluster(16)],
        )  # fmt: skip
        launcher = driver.Launcher(
            ["*i8"], driver.KernelMetadata(global_scratch_size=8, profile_scratch_size=0)
        )
        launcher(1, 1, 1, None, function, (1, 1, 0), None, None, None, 0)
    finally:
        driver.unload(module)
        driver.drain_unloads()


def call_compiled(executor: str, fake: FakeCuda) -> None:
    tensor = empty(8, weft.f32, 1)
    try:
        compiled(executor).function(tensor, 100_000)
        compiled(executor).function.preload(0)
    finally:
        del tensor
        driver.drain_unloads()


def call_in_a_context_of_the_callers_own(fake: FakeCuda) -> None:
    before = fake.current()
    context = fake.create_context(1)
    try:
        tensor = empty(8, weft.f32, 1)
        compiled("library").function(tensor, 0)
        assert fake.current() == context
    finally:
        tensor = None
        driver.drain_unloads()
        fake.set_current(before)
        fake.destroy_context(context)


def load_and_drop_a_program(policy: int, fake: FakeCuda, code: str = CODE) -> None:
    program = weft._native.DeviceProgram(assemble(code), ["injected"], "injected", "sm_90")
    try:
        program.preload(1, policy)
    finally:
        del program
        driver.drain_unloads()


def ask_about_devices(fake: FakeCuda) -> None:
    driver.device_properties(1)
    driver.memory_info(1)
    driver.set_printf_buffer(1 << 20, 1)
    driver.synchronize("cuda:1")


def ask_about_occupancy(fake: FakeCuda) -> None:
    module, function, *_ = driver.load_binary("injected", assemble(CODE), device=1)
    try:
        driver.occupancy_blocks(function, 64)
        driver.occupancy_clusters(function, (64, 1, 1), (2, 1, 1))
        driver.largest_cluster(function, (64, 1, 1))
        driver.static_shared_memory(function)
    finally:
        driver.unload(module)
        driver.drain_unloads()


def use_a_stream(fake: FakeCuda) -> None:
    before = fake.current()
    stream = fake.create_stream(fake.retain_primary(1))
    try:
        assert driver.stream_device(stream) == 1
        driver.is_capturing(stream)
        memory, numbers = empty(4, weft.f32, 1), np.zeros(4, np.float32)
        weft.copy(numbers, memory, stream=stream)
        weft.copy(memory, numbers, stream=stream)
    finally:
        driver.drain_unloads()
        fake.set_current(before)
        fake.destroy_stream(stream)


def switch_devices(fake: FakeCuda) -> None:
    before = fake.current()
    try:
        driver.set_current_device(1)
        assert driver.current_device() == 1
    finally:
        fake.set_current(before)


def describe_tensors(fake: FakeCuda) -> None:
    shape, strides = (64, 4, 4, 64), (1024, 256, 64, 1)
    driver.fill_tma_descriptor_tiled(
        driver.TensorMap(), 0x1000, "f16", shape, strides, (1, 1, 4, 8)
    )
    driver.fill_tma_descriptor_im2col(
        driver.TensorMap(), 0x1000, "f16", shape, strides, lower=(0, 0), upper=(0, 0),
        channels_per_pixel=8, pixels_per_column=4,
    )  # fmt: skip


def check_pointers(fake: FakeCuda) -> None:
    tensor = empty(4, weft.f32, 0)
    module, function, *_ = driver.load_binary("injected", assemble(CODE))
    try:
        signature = driver.build_signature_metadata(["*i8", "*i8", "*i8"])
        driver.launch_ex(
            function,
            1,
            1,
            signature,
            (tensor, fake.last_allocation(), None),
            pointer_check="driver",
        )
    finally:
        del tensor
        driver.unload(module)
        driver.drain_unloads()


def launch_under_capture(fake: FakeCuda) -> None:
    module, function, *_ = driver.load_binary("injected", assemble(CODE))
    stream = fake.create_stream(fake.retain_primary(0))
    fake.begin_capture(stream)
    try:
        launcher = driver.Launcher(
            ["*i8"], driver.KernelMetadata(global_scratch_size=8, profile_scratch_size=0)
        )
        launcher(1, 1, 1, stream, function, (1, 1, 0), None, None, None, 0)
    finally:
        fake.destroy_graph(fake.end_capture(stream))
        fake.destroy_stream(stream)
        driver.unload(module)
        driver.drain_unloads()


def observe_a_launch(fake: FakeCuda) -> None:
    module, function, *_ = driver.load_binary("injected", assemble(CODE))
    stream = fake.create_stream(fake.retain_primary(0))
    signature = driver.build_signature_metadata(["*i8"])
    try:
        with capture() as trace:
            driver.launch_ex(function, 1, 32, signature, (None,), scratch=(0, 0), stream=stream)
        assert trace.launches[0].device_ns is not None
    finally:
        fake.destroy_stream(stream)
        driver.unload(module)
        driver.drain_unloads()


def copy_and_fill(fake: FakeCuda) -> None:
    before = fake.current()
    try:
        for dtype in (weft.i8, weft.i16, weft.i64):
            there = weft.full((4, 4), 1, dtype, 1)
        weft.copy(weft.full(2, 2**40, weft.i64, 1), weft.zeros((2, 2), weft.i64, 1)[:, 0])
        weft.copy(weft.empty((4, 4), weft.i64, 0), there)
        there.__dlpack__(dl_device=(1, 0))
    finally:
        there = None
        driver.drain_unloads()
        fake.set_current(before)


Scenario = Callable[[FakeCuda], None]
SCENARIOS: dict[str, Scenario] = {
    "open": open_the_driver,
    "load, launch, unload": load_launch_unload,
    "context executor": functools.partial(call_compiled, "context"),
    "own context": call_in_a_context_of_the_callers_own,
    "library executor": functools.partial(call_compiled, "library"),
    "module": functools.partial(load_and_drop_a_program, 0),
    "library": functools.partial(load_and_drop_a_program, 1),
    "checked module": functools.partial(load_and_drop_a_program, 0, code=CHECKED),
    "checked library": functools.partial(load_and_drop_a_program, 1, code=CHECKED),
    "devices": ask_about_devices,
    "occupancy": ask_about_occupancy,
    "streams": use_a_stream,
    "switch": switch_devices,
    "tensor maps": describe_tensors,
    "pointers": check_pointers,
    "capture": launch_under_capture,
    "observed": observe_a_launch,
    "copies": copy_and_fill,
}


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    assemble(CODE)
    assemble(CHECKED)
    for executor in ("context", "library"):
        compiled(executor)


def living(fake: FakeCuda) -> dict[str, int]:
    return {kind: fake.live(kind) for kind in KINDS}


def recorded(scenario: Scenario) -> tuple[FakeCuda, list[str], dict[str, int]]:
    """In a fresh process: the names of the driver functions that a scenario calls, and what it leaves."""
    fake = start(devices=2)
    if scenario is not open_the_driver:
        driver.open_driver()
    fake.forget_calls()
    scenario(fake)
    names = [
        RESTORING if call.startswith("cuCtxSetCurrent((nil))") else call.split("(")[0]
        for call in fake.calls()
    ]
    scenario(fake)
    return fake, names, living(fake)


def fail_one(
    scenario: Scenario, name: str, nth: int, expected: dict[str, int], folder: Path
) -> None:
    """In a fresh process: the nth call of a function fails in the scenario, which then runs again."""
    fake = start(devices=2)
    if scenario is not open_the_driver:
        driver.open_driver()
    complaints = folder / "complaints"
    os.dup2(os.open(complaints, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    fake.fail(name, OUT_OF_MEMORY, nth)
    told = False
    try:
        scenario(fake)
    except CudaError as error:
        assert (error.function, error.code) == (name, OUT_OF_MEMORY)
        told = True
    except ValueError:
        assert name == "cuPointerGetAttribute"  # then it is an unknown address
        told = True
    except AssertionError as error:
        assert str(error) == f"{name} returned {OUT_OF_MEMORY}"
        return  # a call that the scenario makes itself, as the program around weft
    # What cannot be given back stays where it is, and standard error says so.
    is_kept = f"{name} returned CUDA_ERROR_OUT_OF_MEMORY" in complaints.read_text()
    is_harmless = name in HARMLESS or (name, scenario_name(scenario)) in HARMLESS_THERE
    assert told or is_kept or is_harmless, f"call {nth} of {name} failed silently"
    fake.forget_failures()
    driver.open_driver()
    assert fake.current() is None
    scenario(fake)
    assert fake.current() is None
    # Scratch that a launch cannot give back, for want of the right context or otherwise, is reported by the launch.
    has_scratch = scenario_name(scenario) in ("load, launch, unload", "capture")
    is_kept = is_kept or (has_scratch and name.startswith(("cuMemFreeAsync", "cuCtx")))
    for kind, count in living(fake).items():
        assert count <= expected[kind] + is_kept, f"{kind}: after call {nth} of {name} failed"


def scenario_name(scenario: Scenario) -> str:
    return next(name for name, found in SCENARIOS.items() if found is scenario)


# Restoring the caller's context, absent here, has its own test (test_device_guard.py).
RESTORING = "restoring"
RESTORED_BY = {RESTORING: "cuCtxSetCurrent"}
# The fake's own functions that a scenario calls as the program around weft.
NOT_WEFTS = frozenset(
    {
        "cuGraphDestroy",
        "cuStreamBeginCapture_v2",
        "cuStreamCreate",
        "cuStreamDestroy_v2",
        "cuStreamEndCapture",
    }
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_any_failed_call_is_undone_and_can_be_repeated(name: str, tmp_path: Path):
    scenario = SCENARIOS[name]
    names, expected = learn(scenario, tmp_path)
    assert names
    for index, called in enumerate(names):
        if called in NOT_WEFTS or called == RESTORING:
            continue
        before = [RESTORED_BY.get(name, name) for name in names[: index + 1]]
        nth = before.count(called)
        in_child(lambda called=called, nth=nth: fail_one(scenario, called, nth, expected, tmp_path))


def learn(scenario: Scenario, folder: Path) -> tuple[list[str], dict[str, int]]:
    file = folder / "calls"

    def write() -> None:
        _, names, alive = recorded(scenario)
        file.write_text("\n".join([*names, *(f"{kind} {count}" for kind, count in alive.items())]))

    in_child(write)
    lines = file.read_text().splitlines()
    counts = dict(line.split() for line in lines if " " in line)
    return [line for line in lines if " " not in line], {k: int(v) for k, v in counts.items()}


def test_the_scenarios_call_every_driver_function_that_weft_uses(tmp_path: Path):
    called: set[str] = set()
    for scenario in SCENARIOS.values():
        called |= set(learn(scenario, tmp_path)[0])
    table = (ROOT / "native/driver/library/driver_functions.h").read_text()
    used = set(re.findall(r"ROW\((cu\w+)", table))
    # Asked after a failure, or before the driver is chosen: these cannot fail in a way of their own.
    assert used - called == {"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"}
