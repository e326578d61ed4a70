# SPDX-License-Identifier: Apache-2.0
"""Loading device code: opening the driver, one load per device, errors in words, unloading later."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.native.fake_cuda.code import ADD_ONE, EMPTY, SHARED, assemble
from tests.native.fake_cuda.fake import ROOT, FakeCuda, build, in_child, on_fake, start
from tests.sampling import sampled
from weft import _native
from weft.driver.binary import load_binary, unload
from weft.driver.kernel_launch import launch_ex
from weft.driver.library import driver_is_open, driver_version, open_driver
from weft.errors import CudaError
from weft.ffi.library import find_ffi_library

CONTEXT, LIBRARY = 0, 1


def program(
    body: str = ADD_ONE, kernels: tuple[str, ...] = ("add_one_kernel",)
) -> _native.DeviceProgram:
    return _native.DeviceProgram(assemble(body), kernels, "add_one", "sm_90")


def test_a_missing_driver_is_one_error_that_says_what_to_do():
    code = (
        "from weft.driver.library import open_driver\n"
        "try: open_driver()\n"
        "except Exception as error: print(type(error).__name__, error.code, error)"
    )
    environment = {**os.environ, "WEFT_LIBCUDA": "/nowhere/libcuda.so.1"}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert result.stdout.startswith(
        "CudaError -1 cannot open the CUDA driver: /nowhere/libcuda.so.1"
    )
    assert "install an NVIDIA driver, version 12.0 or newer" in result.stdout


@on_fake(version=11080)
def test_an_old_driver_is_refused_with_both_versions(fake: FakeCuda):
    with pytest.raises(CudaError, match=r"is version 11\.8, weft needs 12\.0 or newer"):
        open_driver()
    assert fake.count("cuInit") == 0


@on_fake(version=12000)
def test_the_oldest_supported_driver_loads(fake: FakeCuda):
    fake.lack("cuFuncLoad")
    handles = program().preload(0)
    assert set(handles) == {"add_one_kernel"}
    assert fake.count("cuFuncLoad") == 0
    assert driver_version() == (12, 0)


def functions(optional: bool) -> list[str]:
    """The rows of the table of driver functions that an older driver may lack, or the others."""
    rows = re.findall(
        r"ROW\((cu\w+), (\d+)", (ROOT / "native/driver/library/driver_functions.h").read_text()
    )
    return [name for name, version in rows if (int(version) > 12000) == optional]


@on_fake()
@pytest.mark.parametrize("function", functions(optional=True))
def test_each_function_that_is_optional_may_be_missing(fake: FakeCuda, function: str):
    fake.lack(function)
    assert set(program().preload(0)) == {"add_one_kernel"}
    module, kernel, *_ = load_binary("empty_kernel", assemble(EMPTY))
    launch_ex(kernel, 1, 32, b"", ())
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError, match="launching empty_kernel"):
        launch_ex(kernel, 1, 32, b"", ())
    unload(module)
    assert fake.count(function) == 0


@pytest.mark.parametrize("function", sampled(functions(optional=False), 3))
def test_each_function_that_is_needed_is_named_where_it_is_missing(function: str):
    def run() -> None:
        fake = start()
        fake.lack(function)
        with pytest.raises(
            CudaError, match=f"has no function {function}; reinstall the NVIDIA driver"
        ):
            open_driver()
        assert not driver_is_open()
        assert fake.calls() == []

    in_child(run)


@on_fake()
def test_a_driver_that_lacks_a_needed_function_is_refused_by_name(fake: FakeCuda):
    fake.lack("cuLibraryLoadData")
    with pytest.raises(CudaError, match="has no function cuLibraryLoadData"):
        open_driver()
    assert not driver_is_open()


@on_fake()
@pytest.mark.parametrize(
    ("result", "words"),
    [
        (100, "does CUDA_VISIBLE_DEVICES leave one visible"),
        (34, "the stub library of a CUDA toolkit"),
        (803, "restart the machine"),
        (999, "CUDA_ERROR_999"),
    ],
)
def test_a_failed_initialization_can_be_tried_again(fake: FakeCuda, result: int, words: str):
    fake.fail("cuInit", result)
    with pytest.raises(CudaError, match=words) as caught:
        open_driver()
    assert (caught.value.code, caught.value.function) == (result, "cuInit")
    open_driver()
    assert driver_is_open()


@on_fake(devices=0)
def test_a_machine_without_devices_is_reported(fake: FakeCuda):
    with pytest.raises(CudaError, match="the driver sees no device"):
        open_driver()


@on_fake()
def test_another_library_cannot_replace_one_in_use(fake: FakeCuda):
    open_driver()
    with pytest.raises(RuntimeError, match=r"libother\.so cannot take its place"):
        _native.set_driver_library("libother.so")
    _native.set_driver_library(str(fake.path))


@on_fake()
def test_making_a_program_calls_no_driver(fake: FakeCuda):
    program()
    assert fake.calls() == []
    assert not driver_is_open()


@on_fake(devices=2)
def test_a_library_is_loaded_once_for_all_devices_and_threads(fake: FakeCuda):
    fake.delay("cuLibraryLoadData", 2000)
    loaded = program()
    barrier = threading.Barrier(16)

    def load(device: int) -> None:
        barrier.wait()
        loaded.preload(device)

    threads = [threading.Thread(target=load, args=(index % 2,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fake.count("cuLibraryLoadData") == 1
    assert fake.count("cuKernelGetFunction") == 2
    assert fake.live("retain") == 2


@on_fake(devices=2)
def test_the_context_policy_loads_a_module_in_each_primary_context(fake: FakeCuda):
    loaded = program()
    first, second = loaded.preload(0, CONTEXT), loaded.preload(1, CONTEXT)
    assert first["add_one_kernel"] != second["add_one_kernel"]
    assert (fake.live("module"), fake.live("library")) == (2, 0)
    del loaded
    assert _native.pending_unloads() == 2
    assert _native.drain_unloads() == 2
    assert fake.live("module") == 0
    assert fake.current() is None


@on_fake(devices=2)
def test_loading_leaves_the_callers_context_as_it_was(fake: FakeCuda):
    loaded = program()
    loaded.preload(1)
    assert fake.current() is None
    own = fake.create_context(0)
    loaded.preload(0)
    assert fake.current() == own


@on_fake()
def test_unloading_waits_for_a_safe_point(fake: FakeCuda):
    loaded = program()
    loaded.preload(0)
    del loaded
    assert (fake.live("library"), _native.pending_unloads()) == (1, 1)
    program(EMPTY, ("empty_kernel",)).preload(0)
    assert fake.count("cuLibraryUnload") == 1


@on_fake()
def test_an_unload_that_fails_is_reported_and_not_raised(fake: FakeCuda):
    loaded = program()
    loaded.preload(0)
    del loaded
    fake.fail("cuLibraryUnload", 999)
    reader, writer = os.pipe()
    kept = os.dup(2)
    os.dup2(writer, 2)
    _native.drain_unloads()
    os.dup2(kept, 2)
    os.close(writer)
    assert os.read(reader, 1000) == (
        b"weft: unloading add_one: cuLibraryUnload returned CUDA_ERROR_999 (999)\n"
    )
    assert _native.pending_unloads() == 0


@on_fake()
def test_a_cubin_for_another_architecture_is_refused_with_both(fake: FakeCuda):
    fake.set_architecture(0, 8, 0)
    with pytest.raises(CudaError) as caught:
        program().preload(0)
    assert caught.value.name == "CUDA_ERROR_NO_BINARY_FOR_GPU"
    assert "it was assembled for sm_90, and cuda:0 (Fake GPU, sm_80) cannot run that" in str(
        caught.value
    )
    assert "--gpu-arch sm_80" in str(caught.value)


@on_fake()
@pytest.mark.parametrize(
    "function",
    [
        "cuDevicePrimaryCtxRetain",
        "cuCtxGetCurrent",
        "cuCtxSetCurrent",
        "cuLibraryLoadData",
        "cuLibraryGetKernel",
        "cuKernelGetFunction",
        "cuFuncLoad",
    ],
)
def test_a_failed_load_leaks_nothing_and_can_be_repeated(fake: FakeCuda, function: str):
    loaded = program()
    open_driver()
    fake.fail(function, 2)
    with pytest.raises(CudaError) as caught:
        loaded.preload(0)
    assert (caught.value.code, caught.value.function) == (2, function)
    assert not loaded.is_loaded(0)
    assert fake.current() is None
    loaded.preload(0)
    del loaded
    _native.drain_unloads()
    assert (fake.live("library"), fake.live("function"), fake.live("retain")) == (0, 0, 1)


@on_fake()
@pytest.mark.parametrize("function", ["cuModuleLoadData", "cuModuleGetFunction"])
def test_a_module_that_fails_to_load_is_unloaded_at_once(fake: FakeCuda, function: str):
    loaded = program()
    fake.fail(function, 2)
    with pytest.raises(CudaError, match=f"loading add_one on cuda:0.*{function} returned"):
        loaded.preload(0, CONTEXT)
    assert fake.live("module") == 0


@on_fake()
def test_a_kernel_that_is_not_in_the_cubin_is_named(fake: FakeCuda):
    with pytest.raises(
        CudaError, match="cuLibraryGetKernel returned CUDA_ERROR_NOT_FOUND"
    ) as caught:
        program(ADD_ONE, ("add_two_kernel",)).preload(0)
    assert caught.value.kernel == "add_two_kernel"


@on_fake()
def test_loading_under_a_capture_points_to_preload(fake: FakeCuda):
    context = fake.retain_primary(0)
    stream = fake.create_stream(context, blocking=True)
    fake.begin_capture(stream)
    with pytest.raises(CudaError, match=r"call the function's preload\(0\) before the capture"):
        program().preload(0)
    fake.end_capture(stream)
    program().preload(0)


@on_fake()
def test_loading_and_unloading_leave_other_captures_alone(fake: FakeCuda):
    loaded = program()
    loaded.preload(0)
    stream = fake.create_stream(fake.retain_primary(0))
    fake.begin_capture(stream)
    del loaded
    program(EMPTY, ("empty_kernel",)).preload(0)
    assert fake.count("cuLibraryUnload") == 1
    fake.end_capture(stream)


@on_fake()
def test_a_missing_device_is_refused_with_the_device_count(fake: FakeCuda):
    with pytest.raises(ValueError, match="there is no device cuda:3; the driver sees 1 device"):
        program().preload(3)
    with pytest.raises(ValueError, match="there is no device cuda:-1"):
        program().preload(-1)


@on_fake()
def test_a_forked_child_gets_an_error_and_unloads_nothing(fake: FakeCuda):
    loaded = program()
    loaded.preload(0)

    def child() -> None:
        nonlocal loaded
        assert not driver_is_open()
        with pytest.raises(CudaError, match='multiprocessing\'s "spawn" method'):
            loaded.preload(0)
        del loaded
        assert _native.pending_unloads() == 0
        assert _native.drain_unloads() == 0

    in_child(child)
    assert fake.live("library") == 1
    assert driver_is_open()


@on_fake()
def test_a_child_forked_before_use_is_free(fake: FakeCuda):
    in_child(lambda: program().preload(0) and None)
    assert not driver_is_open()
    program().preload(0)


@on_fake()
def test_threads_can_load_while_another_forks(fake: FakeCuda):
    open_driver()
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            program(SHARED, ("shared_kernel",)).preload(0)

    thread = threading.Thread(target=load)
    thread.start()
    for _ in range(20):
        in_child(
            lambda: None if not driver_is_open() else pytest.fail("the driver is open in a child")
        )
    stop.set()
    thread.join()


@on_fake()
def test_a_program_held_at_exit_is_left_to_the_system(fake: FakeCuda):
    code = (
        "import sys\n"
        "from weft import _native\n"
        "from weft.driver.library import open_driver\n"
        "open_driver()\n"
        "cubin = sys.stdin.buffer.read()\n"
        "program = _native.DeviceProgram(cubin, ['empty_kernel'], 'f', 'sm_90')\n"
        "program.preload(0)\n"
        "sys.modules['keeper'] = program\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], input=assemble(EMPTY), capture_output=True, check=True
    )
    assert (result.stdout, result.stderr) == (b"", b"")


OPENS_BOTH = """
from weft.driver.library import open_driver
from weft.errors import CudaError
from weft.ffi.library import open_ffi_library
for open_library, error in (open_driver, CudaError), (open_ffi_library, ImportError):
    try:
        open_library()
        print("opened")
    except error as refusal:
        print(ascii(refusal))
"""


@pytest.mark.parametrize("name", [os.fsdecode(b"caf\xe9"), "größe"], ids=["not UTF-8", "not ASCII"])
def test_a_missing_library_path_is_named(tmp_path, name):
    def run(folder: Path) -> list[str]:
        paths = {"WEFT_LIBCUDA": folder / "libcuda.so", "WEFT_LIBTVM_FFI": folder / "libtvm_ffi.so"}
        environment = os.environ | {variable: str(path) for variable, path in paths.items()}
        return subprocess.run(
            [sys.executable, "-c", OPENS_BOTH],
            env=environment, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip

    folder = tmp_path / name
    refusals = run(folder)
    for refusal, file in zip(refusals, ("libcuda.so", "libtvm_ffi.so"), strict=True):
        assert ascii(f"{folder}/{file}")[1:-1] in refusal
        assert "cannot open" in refusal
    folder.mkdir()
    shutil.copy(build(), folder / "libcuda.so")
    shutil.copy(find_ffi_library(), folder / "libtvm_ffi.so")
    assert run(folder) == ["opened", "opened"]
