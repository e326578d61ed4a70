# SPDX-License-Identifier: Apache-2.0
"""Code is compiled for the GPU that the first tensor is on: on every entry, alone and in mixed machines."""

from __future__ import annotations

import os

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.fake import FakeCuda, build, in_child, on_fake, start
from tests.sampling import sampled
from weft.compiler import pipeline
from weft.driver.device import find_architecture
from weft.driver.memory import empty
from weft.errors import CudaError

CAPABILITIES = {
    (7, 5): "sm_75",
    (8, 0): "sm_80",
    (8, 6): "sm_86",
    (8, 9): "sm_89",
    (9, 0): "sm_90a",
    (10, 0): "sm_100a",
    (10, 3): "sm_103a",
    (12, 0): "sm_120a",
    (12, 1): "sm_121a",
}


@weft.kernel
def double_kernel(a: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        a[i] *= 2


@weft.jit
def double(a: weft.Tensor):
    double_kernel(a).launch(grid=1, block=32)


@weft.jit
def double_items(scale: weft.i32, pair: tuple[weft.Tensor, weft.Tensor]):
    double_kernel(pair[0]).launch(grid=1, block=32)
    double_kernel(pair[1]).launch(grid=1, block=32)


@weft.jit(options="--gpu-arch sm_80")
def double_for_sm_80(a: weft.Tensor):
    double_kernel(a).launch(grid=1, block=32)


def machine(*capabilities: tuple[int, int]) -> FakeCuda:
    fake = start(len(capabilities))
    for device, (major, minor) in enumerate(capabilities):
        fake.set_architecture(device, major, minor)
    return fake


def compiled_architectures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The architectures that are compiled for from now on, in order."""
    found: list[str] = []
    compile_function = pipeline.compile_function

    def record(*arguments: object, **keywords: object) -> object:
        function = compile_function(*arguments, **keywords)
        found.append(function.ptx.partition(".target ")[2].split()[0] if function.ptx else "cpu")
        return function

    monkeypatch.setattr(pipeline, "compile_function", record)
    return found


def vector(device: int) -> object:
    return empty(8, weft.f32, device)


@pytest.mark.parametrize(
    ("capability", "architecture"), sampled(CAPABILITIES.items(), 3, several=True)
)
def test_every_entry_compiles_for_the_device_that_is_there(monkeypatch, capability, architecture):
    build()

    def child() -> None:
        fake = machine(capability)
        found = compiled_architectures(monkeypatch)
        a = vector(0)
        double(a)
        weft.compile(double, a)(a)
        double_kernel[1, 32](a)
        double_items(1, (a, a))
        weft.profiler.calibrate("--target cuda")
        assert found == [architecture] * 5
        assert len(fake.launches()) == 3 + 2 + 5
        assert weft.driver.device_properties(0).architecture == architecture

    in_child(child)


def test_each_device_of_a_mixed_machine_has_its_own_code(monkeypatch):
    build()

    def child() -> None:
        fake = machine(*CAPABILITIES, (8, 6))
        found = compiled_architectures(monkeypatch)
        devices = range(len(CAPABILITIES) + 1)
        for device in (*devices, *reversed(devices)):
            double(vector(device))
            double_kernel[1, 32](vector(device))
        # Two devices of one architecture share code.
        assert sorted(found) == sorted([*CAPABILITIES.values()] * 2)
        assert len(fake.launches()) == 4 * len(devices)
        for device, architecture in enumerate(CAPABILITIES.values()):
            function = weft.compile(double, vector(device))
            assert f".target {architecture}" in function.ptx
            # A signature remembers where its example was.
            assert f".target {architecture}" in weft.compile(double, function.signature).ptx

    in_child(child)


@on_fake(devices=2)
def test_a_function_that_met_the_cpu_first_compiles_once_for_a_gpu(fake: FakeCuda):
    monkeypatch = pytest.MonkeyPatch()
    found = compiled_architectures(monkeypatch)
    double(np.ones(8, np.float32))
    memory = np.ones(8, np.float32)  # the fake's device memory is the host's

    class OnDevice:
        @property
        def __cuda_array_interface__(self) -> dict[str, object]:
            own = memory.__array_interface__
            return {key: own[key] for key in ("version", "shape", "typestr", "data")}

    for _ in range(3):
        double(OnDevice())
    assert found == ["cpu", "sm_90a"]
    assert len(fake.launches()) == 3


def test_the_option_wins_over_the_device(monkeypatch):
    build()

    def child() -> None:
        fake = machine((8, 6), (9, 0))
        found = compiled_architectures(monkeypatch)
        double_for_sm_80(vector(0))
        assert ".target sm_75" in weft.compile(double, vector(1), options="--gpu-arch sm_75").ptx
        assert found == ["sm_80", "sm_75"] and len(fake.launches()) == 1
        with pytest.raises(
            CudaError, match=r"assembled for sm_80, and cuda:1 .*sm_90a. cannot run"
        ):
            double_for_sm_80(vector(1))

    in_child(child)


def test_without_a_tensor_the_current_device_decides():
    build()

    def child() -> None:
        machine((8, 0), (12, 0))
        fake = weft.fake_tensor(weft.f32, ("n",))

        def target(example: object) -> str:
            ptx = weft.compile(double, example, options="--target cuda").ptx
            return ptx.partition(".target ")[2].split()[0]

        assert target(fake) == "sm_80"
        weft.driver.set_current_device(1)
        assert target(fake) == "sm_120a"
        assert target(np.ones(4, np.float32)) == "sm_120a"
        on_first = weft.fake_tensor(weft.f32, ("n",), device="cuda:0")
        assert target(on_first) == "sm_80"
        on_another_machine = weft.fake_tensor(weft.f32, ("n",), device="cuda:7")
        assert target(on_another_machine) == "sm_120a"

    in_child(child)


def test_without_a_driver_the_default_is_sm_90a():
    def child() -> None:
        os.environ["WEFT_LIBCUDA"] = "/nowhere/libcuda.so.1"
        assert find_architecture() is None
        fake = weft.fake_tensor(weft.f32, ("n",))
        assert ".target sm_90a" in weft.compile(double, fake, options="--target cuda").ptx

    in_child(child)


@pytest.mark.parametrize("own", sampled([(9, 0), (8, 9), (10, 0)], 3))
def test_a_device_of_another_architecture_is_refused(own):
    build()

    def child() -> None:
        others = [other for other in CAPABILITIES if other > own or other[0] < own[0]]
        machine(own, *others)
        for executor in ("context", "library", "tvm-ffi"):
            function = weft.compile(double, vector(0), options=f"--executor {executor}")
            function(vector(0))
            for device, other in enumerate(others, 1):
                made_for, there = CAPABILITIES[own], CAPABILITIES[other]
                text = f"was assembled for {made_for}, and cuda:{device} (Fake GPU, {there}) cannot"
                for call in (function, function.to(device)):
                    with pytest.raises(CudaError) as caught:
                        call(vector(device))
                    assert text in str(caught.value)
                    assert f"--gpu-arch {there}" in str(caught.value)

    in_child(child)


@pytest.mark.parametrize("capability", [(3, 5), (13, 0)])
def test_a_gpu_that_weft_does_not_know_is_an_error_with_its_name(capability):
    build()

    def child() -> None:
        machine(capability)
        name = "sm_35" if capability == (3, 5) else "sm_130a"
        for call in (lambda: double(vector(0)), lambda: weft.compile(double, vector(0))):
            with pytest.raises(weft.OptionError) as caught:
                call()
            assert caught.value.code == "OPTION_GPU_ARCH"
            assert f"unknown GPU architecture '{name}'" in caught.value.message
            assert "sm_120a" in caught.value.message

    in_child(child)


def test_code_for_a_gpu_unknown_to_ptxas_is_ptx():
    build()

    def child() -> None:
        machine((7, 0))
        function = weft.compile(double, vector(0))
        assert ".target sm_70" in function.ptx
        assert "makes no code for sm_70" in str(function.remarks[0])
        with pytest.raises(weft.ToolchainError, match="makes no code for sm_70"):
            _ = function.cubin

    in_child(child)
