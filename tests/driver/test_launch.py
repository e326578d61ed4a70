# SPDX-License-Identifier: Apache-2.0
"""Launching: configuration, hooks, hidden parameters, contexts, and failures explained in words."""

from __future__ import annotations

import struct

import pytest

from tests.native.fake_cuda.code import ADD_ONE, EMPTY, SHARED, assemble, parameter_kernel
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from weft.driver.binary import load_binary, unload
from weft.driver.device import device_properties, synchronize
from weft.driver.kernel_launch import (
    LazyMetadata,
    annotate_arguments,
    launch,
    launch_ex,
    make_kernel_signature,
)
from weft.driver.launch_attributes import Cluster, Cooperative, Priority, Raw
from weft.errors import CudaError

NOTHING = make_kernel_signature([])
ADD_SIGNATURE = ("*fp32", "*fp32", "i32", "i1")


def empty(device: int = 0) -> int:
    return load_binary("empty_kernel", assemble(EMPTY), 0, device)[1]


def add_one() -> int:
    return load_binary("add_one_kernel", assemble(ADD_ONE))[1]


def launch_add_one(function: int, *arguments: object, **changes: object) -> None:
    values: dict[str, object] = {
        "gridX": 4,
        "gridY": 1,
        "gridZ": 1,
        "stream": None,
        "function": function,
        "cooperative": False,
        "programmatic": False,
        "kernel_metadata": (4, 1, 0),
        "launch_metadata": None,
        "enter_hook": None,
        "exit_hook": None,
        "global_scratch": None,
        "profile_scratch": None,
        "arg_annotations": annotate_arguments(ADD_SIGNATURE),
        "signature": make_kernel_signature(ADD_SIGNATURE),
        "args": arguments,
    }
    launch(*{**values, **changes}.values())  # type: ignore[arg-type]


@on_fake()
def test_blocks_have_32_threads_per_warp_and_parameters_arrive(fake: FakeCuda):
    launch_add_one(add_one(), 0x1000, None, 10, True, kernel_metadata=(8, 1, 64))
    (text,) = fake.launches()
    assert text == (
        "add_one_kernel grid=4,1,1 block=256,1,1 shared=64 stream=(nil) attributes=[] "
        "parameters=[0010000000000000 0000000000000000 0a000000 01]"
    )


@on_fake()
def test_attributes_of_the_fixed_form(fake: FakeCuda):
    launch_add_one(
        add_one(),
        0,
        0,
        0,
        0,
        cooperative=True,
        programmatic=True,
        kernel_metadata=(1, 2, 0),
        gridX=4,
    )
    (text,) = fake.launches()
    assert "grid=8,1,1 block=32,1,1" in text
    assert "attributes=[2:1,0,0 6:1,0,0 4:2,1,1]" in text


@on_fake()
def test_a_zero_in_the_grid_is_a_no_op_with_hooks(fake: FakeCuda):
    called: list[str] = []
    launch_add_one(
        add_one(),
        0,
        0,
        0,
        0,
        gridY=0,
        enter_hook=lambda _: called.append("enter"),
        exit_hook=lambda _: called.append("exit"),
    )
    assert fake.count("cuLaunchKernelEx") == 0
    assert called == ["enter", "exit"]


@on_fake()
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"gridX": 2**31}, "grid.x is 2147483648, expected 0 to 2147483647"),
        ({"gridY": 65536}, "grid.y is 65536, expected 0 to 65535"),
        ({"gridZ": -1}, "grid.z is -1, expected 0 to 65535"),
        ({"gridX": 2**63}, "gridX is 9223372036854775808, which is out of range"),
        ({"gridX": 2**62, "kernel_metadata": (4, 4, 0)}, "gridX times num_ctas does not fit"),
        ({"kernel_metadata": (0, 1, 0)}, "expected 1 to 32 warps"),
        ({"kernel_metadata": (33, 1, 0)}, "expected 1 to 32 warps"),
        ({"kernel_metadata": (4, 1, -1)}, "shared_memory_bytes is -1"),
        ({"kernel_metadata": (4, 1, 2**40)}, "shared_memory_bytes is 1099511627776"),
    ],
)
def test_numbers_out_of_range_are_refused_with_both_numbers(
    fake: FakeCuda, changes: dict[str, object], text: str
):
    with pytest.raises(ValueError, match=text.replace("(", r"\(").replace(".", r"\.")):
        launch_add_one(add_one(), 0, 0, 0, 0, **changes)
    assert fake.count("cuLaunchKernelEx") == 0


@on_fake()
def test_wrong_types_are_type_errors_that_name_what(fake: FakeCuda):
    function = add_one()
    with pytest.raises(TypeError, match="gridX: expected an int, received str"):
        launch_add_one(function, 0, 0, 0, 0, gridX="4")
    with pytest.raises(TypeError, match="expected a stream"):
        launch_add_one(function, 0, 0, 0, 0, stream="s")
    with pytest.raises(TypeError, match="a tuple of three ints"):
        launch_add_one(function, 0, 0, 0, 0, kernel_metadata=(4, 1))
    with pytest.raises(TypeError, match="expected a tuple of arguments, received list"):
        launch_add_one(function, args=[0, 0, 0, 0])
    with pytest.raises(TypeError, match="expected 4 arguments to match the signature, received 3"):
        launch_add_one(function, 0, 0, 0)
    with pytest.raises(TypeError, match="from build_signature_metadata"):
        launch_add_one(function, 0, 0, 0, 0, signature=b"abc")
    with pytest.raises(ValueError, match="the function handle 0 is not one that load_binary gave"):
        launch_add_one(0, 0, 0, 0, 0)


@on_fake()
def test_the_signature_is_checked_against_the_kernel(fake: FakeCuda):
    function = add_one()
    for kinds, text in [
        (("*fp32", "*fp32", "i32"), "add_one_kernel takes 4 parameters, the signature has 3"),
        (("*fp32",) * 5, "add_one_kernel takes 4 parameters, the signature has 5"),
        (
            ("*fp32", "*fp32", "i64", "i1"),
            "parameter 2 of add_one_kernel has 4 bytes, the signature's i64 has 8",
        ),
    ]:
        with pytest.raises(TypeError, match=text):
            launch_add_one(
                function,
                *(0 for _ in kinds),
                arg_annotations=None,
                signature=make_kernel_signature(kinds),
            )
    assert fake.count("cuLaunchKernelEx") == 0


@on_fake()
def test_a_wrong_argument_is_named(fake: FakeCuda):
    function = add_one()
    with pytest.raises(
        ValueError, match="launch of add_one_kernel: argument #2: expected an int from"
    ):
        launch_add_one(function, 0, 0, 2**31, 0)
    with pytest.raises(TypeError, match="launch of add_one_kernel: argument #0: expected a tensor"):
        launch_add_one(function, "a", 0, 1, 0)


@on_fake()
def test_hidden_scratch_parameters_come_last_and_may_be_absent(fake: FakeCuda):
    code = assemble(parameter_kernel("with_scratch", [".u32", ".u64", ".u64"]))
    function = load_binary("with_scratch", code)[1]
    launch_add_one(
        function,
        7,
        arg_annotations=None,
        signature=make_kernel_signature(["i32"]),
        global_scratch=0x1000,
        profile_scratch=0x2000,
    )
    assert "parameters=[07000000 0010000000000000 0020000000000000]" in fake.launches()[0]


@on_fake()
def test_tuples_are_flattened_and_constants_dropped(fake: FakeCuda):
    code = assemble(parameter_kernel("nested", [".u32", ".u32", ".u64"]))
    function = load_binary("nested", code)[1]
    signature = ("i32", "constexpr", ("i32", ("constexpr", "i64")))
    launch_add_one(
        function,
        1,
        "a constant",
        (2, (None, 3)),
        arg_annotations=annotate_arguments(signature),
        signature=make_kernel_signature(signature),
    )
    assert "parameters=[01000000 02000000 0300000000000000]" in fake.launches()[0]


@on_fake()
def test_the_exit_hook_runs_when_the_launch_fails(fake: FakeCuda):
    function = add_one()
    called: list[object] = []
    fake.fail("cuLaunchKernelEx", 719)
    with pytest.raises(CudaError, match="CUDA_ERROR_LAUNCH_FAILED"):
        launch_add_one(function, 0, 0, 0, 0, exit_hook=called.append, launch_metadata="m")
    assert called == ["m"]

    def refuse(metadata: object) -> None:
        raise KeyError(metadata)

    with pytest.raises(KeyError):
        launch_add_one(function, 0, 0, 0, 0, enter_hook=refuse, exit_hook=called.append)
    assert called == ["m"]
    assert fake.count("cuLaunchKernelEx") == 1


@on_fake()
def test_lazy_metadata_is_computed_once_and_only_when_asked_for(fake: FakeCuda):
    computed: list[object] = []

    def compute(data: dict[str, object]) -> dict[str, object]:
        computed.append(data["name"])
        return {"flops": 3}

    metadata = LazyMetadata({"name": "add_one"}, compute)
    launch_add_one(add_one(), 0, 0, 0, 0, launch_metadata=metadata, enter_hook=lambda _: None)
    assert computed == []
    seen: list[object] = []
    launch_add_one(
        add_one(),
        0,
        0,
        0,
        0,
        launch_metadata=metadata,
        enter_hook=lambda data: seen.append(data.get()),
        exit_hook=lambda data: seen.append(data.get()),
    )
    assert computed == ["add_one"]
    assert seen == [{"name": "add_one", "flops": 3}] * 2


@on_fake(devices=2)
def test_the_callers_context_is_restored(fake: FakeCuda):
    function = empty(device=1)
    own = fake.create_context(0)
    launch_ex(function, 1, 1, NOTHING, ())
    assert fake.current() == own
    fake.set_current(None)
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError):
        launch_ex(function, 1, 1, NOTHING, ())
    assert fake.current() is None


@on_fake(devices=2)
def test_a_stream_of_another_device_is_refused_with_both(fake: FakeCuda):
    stream = fake.create_stream(fake.retain_primary(0))
    function = empty(device=1)
    with pytest.raises(ValueError, match="is on cuda:0, expected one of cuda:1"):
        launch_ex(function, 1, 1, NOTHING, (), stream=stream)
    assert fake.count("cuLaunchKernelEx") == 0


@on_fake()
def test_a_destroyed_stream_is_reported(fake: FakeCuda):
    stream = fake.create_stream(fake.retain_primary(0))
    function = empty()
    fake.destroy_stream(stream)
    with pytest.raises(CudaError, match="the stream does not exist, or was destroyed"):
        launch_ex(function, 1, 1, NOTHING, (), stream=stream)


@on_fake()
def test_an_unloaded_function_is_refused_by_name(fake: FakeCuda):
    module, function, *_ = load_binary("empty_kernel", assemble(EMPTY))
    unload(module)
    with pytest.raises(ValueError, match="kernel empty_kernel was unloaded"):
        launch_ex(function, 1, 1, NOTHING, ())
    with pytest.raises(ValueError, match="the function handle is not one of cuda:0"):
        launch_ex(0xDEAD0000, 1, 1, NOTHING, ())


@on_fake()
def test_attributes_of_the_general_form_pass_through_as_bytes(fake: FakeCuda):
    launch_ex(
        empty(),
        (4, 2, 2),
        (8, 4, 2),
        NOTHING,
        (),
        attributes=[Cluster((2, 2, 1)), Priority(-3), Raw(10, struct.pack("i", 1))],
        device=device_properties(0),
        release_gil=True,
    )
    (text,) = fake.launches()
    assert "grid=4,2,2 block=8,4,2" in text
    assert "attributes=[4:2,2,1 8:4294967293,0,0 10:1,0,0]" in text


@on_fake()
def test_large_clusters_are_allowed_before_the_launch_once(fake: FakeCuda):
    function = empty()
    for _ in range(2):
        launch_ex(function, 16, 32, NOTHING, (), attributes=[Cluster(16)])
    assert len(fake.calls("cuFuncSetAttribute")) == 1
    assert len(fake.launches()) == 2


@on_fake()
def test_attributes_that_cannot_work_are_refused_with_both_numbers(fake: FakeCuda):
    with pytest.raises(ValueError, match=r"grid\.x is 5, expected a multiple of the cluster's 2"):
        launch_ex(empty(), 5, 1, NOTHING, (), attributes=[Cluster(2)])


@on_fake()
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("threads", "the block has 512 threads, this kernel allows 256"),
        (
            "shared",
            r"needs 400000 bytes of shared memory \(0 static, 400000 dynamic\), the device allows 232448",
        ),
        ("grid of clusters", r"grid\.x is 3, expected a multiple of the cluster's 2"),
        ("cluster", "the cluster has 32 blocks, the device allows 16"),
        (
            "cooperative",
            r"it has 1000 blocks, the device holds 64 \(16 on each of 4 multiprocessors\)",
        ),
    ],
)
def test_a_failed_launch_says_which_limit_with_both_numbers(fake: FakeCuda, case: str, words: str):
    function = add_one()
    signature = make_kernel_signature(ADD_SIGNATURE)
    grid, block, shared, attributes = {
        "threads": (1, 512, 0, []),
        "shared": (1, 128, 400_000, []),
        "grid of clusters": (3, 128, 0, [Raw(4, struct.pack("3I", 2, 1, 1))]),
        "cluster": (64, 128, 0, [Raw(4, struct.pack("3I", 32, 1, 1))]),
        "cooperative": (1000, 128, 0, [Cooperative()]),
    }[case]
    with pytest.raises(CudaError, match=words) as caught:
        launch_ex(
            function,
            grid,
            block,
            signature,
            (0, 0, 0, 0),
            shared_memory_bytes=shared,
            attributes=attributes,
        )
    error = caught.value
    assert (error.kernel, error.function) == ("add_one_kernel", "cuLaunchKernelEx")
    assert error.configuration.startswith(f"grid=({grid}, 1, 1), block=({block}, 1, 1)")
    assert error.configuration in str(error)


@on_fake()
def test_clusters_on_an_older_device_are_explained(fake: FakeCuda):
    fake.set_architecture(0, 8, 6)
    function = load_binary("empty_kernel", assemble(EMPTY, "sm_86"))[1]
    with pytest.raises(
        CudaError, match=r"clusters need compute capability 9\.0, the device is sm_86"
    ):
        launch_ex(function, 2, 32, NOTHING, (), attributes=[Raw(4, struct.pack("3I", 2, 1, 1))])


@on_fake()
def test_too_many_registers_name_the_block_that_fits(fake: FakeCuda):
    function = load_binary("shared_kernel", assemble(SHARED))[1]
    fake.fail("cuLaunchKernelEx", 701)
    with pytest.raises(CudaError, match="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES") as caught:
        launch_ex(function, 1, 1024, make_kernel_signature(["*i8"]), (0,))
    assert caught.value.code == 701


@on_fake()
def test_an_illegal_access_tells_the_last_launches(fake: FakeCuda):
    function = add_one()
    for size in (1, 2, 3):
        launch_add_one(function, 0, 0, size, 0, gridX=size)
    fake.poison(700)
    with pytest.raises(CudaError) as caught:
        synchronize(0)
    text = str(caught.value)
    assert "the process must be restarted" in text
    assert (
        text.index("grid=(3, 1, 1)") < text.index("grid=(2, 1, 1)") < text.index("grid=(1, 1, 1)")
    )
    with pytest.raises(CudaError, match="the last launches, newest first"):
        launch_add_one(function, 0, 0, 0, 0)


@on_fake()
def test_an_error_unknown_to_the_driver_is_reported_by_number(fake: FakeCuda):
    function = empty()
    fake.fail("cuLaunchKernelEx", 4242)
    with pytest.raises(CudaError, match=r"returned CUDA_ERROR_4242 \(4242\)") as caught:
        launch_ex(function, 1, 1, NOTHING, ())
    assert (caught.value.code, caught.value.name) == (4242, "CUDA_ERROR_4242")


@on_fake()
def test_a_foreign_function_is_launched_in_the_current_context(fake: FakeCuda):
    function = add_one()
    import ctypes

    module, foreign = ctypes.c_void_p(), ctypes.c_void_p()
    fake.create_context(0)
    fake.call("cuModuleLoadData", ctypes.byref(module), assemble(ADD_ONE))
    fake.call("cuModuleGetFunction", ctypes.byref(foreign), module, b"add_one_kernel")
    assert foreign.value != function
    launch_add_one(foreign.value, 0, 0, 3, 1)
    with pytest.raises(TypeError, match="takes 4 parameters"):
        launch_add_one(
            foreign.value, 0, arg_annotations=None, signature=make_kernel_signature(["i32"])
        )
    assert len(fake.launches()) == 1


@on_fake()
def test_a_launch_under_capture_is_recorded_and_replayed(fake: FakeCuda):
    stream = fake.create_stream(fake.retain_primary(0), blocking=True)
    function = empty()
    fake.begin_capture(stream)
    launch_ex(function, 1, 1, NOTHING, (), stream=stream)
    with pytest.raises(CudaError, match="a stream is being captured into a graph; load before"):
        load_binary("empty_kernel", assemble(EMPTY))
    fake.replay(fake.end_capture(stream), stream)
