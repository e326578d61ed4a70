# SPDX-License-Identifier: Apache-2.0
"""The driver's own log of a failed call stands in weft's error."""

from __future__ import annotations

import time

import pytest

from tests.native.fake_cuda.code import EMPTY, assemble
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from weft.driver import device_count, launch_ex, load_binary
from weft.driver.memory import empty
from weft.errors import CudaError
from weft.types.dtype import f32

NOTHING = b""


def empty_kernel() -> int:
    return load_binary("empty_kernel", assemble(EMPTY))[1]


@pytest.fixture(autouse=True, scope="module")
def code_is_assembled_before_the_first_fork():
    assemble(EMPTY)


@on_fake()
def test_a_failed_launch_has_its_own_driver_log(fake: FakeCuda):
    function = empty_kernel()
    fake.log("[CUDA][E] the cake is a lie\n")
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError) as error:
        launch_ex(function, 1, 32, NOTHING, ())
    assert str(error.value).endswith("\n  the driver's log: [CUDA][E] the cake is a lie")
    assert "configuration: grid=(1, 1, 1)" in str(error.value)
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError) as error:
        launch_ex(function, 1, 32, NOTHING, ())
    assert "log" not in str(error.value)


@on_fake()
def test_only_the_reported_failure_has_its_log(fake: FakeCuda):
    function = empty_kernel()
    fake.log(
        "paramIndex 0 outside of kernel parameter count 0\n"
        "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuFuncGetParamInfo\n"
        "too much memory\nby far\n"
        "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLaunchKernelEx\n"
        "unknown pointer\n"
        "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuPointerGetAttribute\n"
    )
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError) as error:
        launch_ex(function, 1, 32, NOTHING, ())
    assert str(error.value).endswith("\n  the driver's log: too much memory\n    by far")
    fake.log("no pointer\nReturning 1 (CUDA_ERROR_INVALID_VALUE) from cuPointerGetAttribute")
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError) as error:
        launch_ex(function, 1, 32, NOTHING, ())
    assert "log" not in str(error.value)


@on_fake()
def test_a_functions_variant_is_the_function(fake: FakeCuda):
    device_count()
    fake.log("out of cake\nReturning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAlloc_v2")
    fake.fail("cuMemAlloc", 2)
    with pytest.raises(CudaError, match=r"the driver.s log: out of cake$"):
        empty(100, f32, "cuda:0")


@on_fake()
def test_any_failing_call_has_its_log(fake: FakeCuda):
    device_count()
    fake.log("out of cake")
    fake.fail("cuMemAlloc", 2)
    with pytest.raises(CudaError, match="the driver's log: out of cake"):
        empty(100, f32, "cuda:0")


@on_fake()
def test_the_log_of_an_older_call_is_not_shown(fake: FakeCuda):
    function = empty_kernel()
    fake.log("of another library")
    fake.library.cuCtxSetCurrent(12345)  # fails, and is nothing to weft
    time.sleep(1.1)
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError) as error:
        launch_ex(function, 1, 32, NOTHING, ())
    assert "another library" not in str(error.value)


@on_fake()
def test_a_log_that_is_too_long_is_left_out_and_nothing_overflows(fake: FakeCuda):
    function = empty_kernel()
    fake.log("x" * 5000)
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError) as error:
        launch_ex(function, 1, 32, NOTHING, ())
    assert "xxx" not in str(error.value)


@on_fake(version=12080)
def test_an_older_driver_has_complete_errors_without_a_log(fake: FakeCuda):
    function = empty_kernel()
    fake.log("never heard")
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_VALUE") as error:
        launch_ex(function, 1, 32, NOTHING, ())
    assert fake.count("cuLogsRegisterCallback") == 0
    assert "log" not in str(error.value)


@on_fake()
def test_a_driver_that_does_not_want_to_tell_is_used_all_the_same(fake: FakeCuda):
    fake.fail("cuLogsRegisterCallback", 801)
    launch_ex(empty_kernel(), 1, 32, NOTHING, ())
    assert fake.count("cuLogsRegisterCallback") == 1
