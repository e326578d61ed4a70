# SPDX-License-Identifier: Apache-2.0
"""A GPU that weft has no driver for, as a package of its own: assembly and objects for three of AMD's architectures.

In: `amdgcn_backend`, which docs/recipes/add-a-backend.md walks through. What the target lacks is refused with its line.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import weft
from tests.architecture.source_tree import run_python
from tests.architecture.test_every_op_is_complete import EXPANDED, OPERATIONS
from tests.backends.amdgcn_site import MACHINES, WARP_SIZES, Elf, installed
from tests.conformance.harness import OF_INTEGERS, QUESTIONS, define, math_functions
from tests.sampling import sampled
from weft.backends.host import HOST_SYMBOLS
from weft.backends.registry import find_backend, find_backend_of, find_target
from weft.codegen.wrapper.function import WRAPPER
from weft.dialects.definition import DependsOnWarps
from weft.dialects.simt import SIMT
from weft.dialects.simt.kernel import KernelOp
from weft.types import dtype as types
from weft.types.dtype import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

F32 = weft.Tensor[weft.f32, ("n",)]
every_architecture = pytest.mark.parametrize("architecture", WARP_SIZES)


@pytest.fixture(scope="module", autouse=True)
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed(tmp_path_factory.mktemp("site")):
        yield


class Built:
    """A function compiled for one architecture, with the texts that it leaves."""

    def __init__(self, function: Any, architecture: str, folder: Path, options: str = "") -> None:
        options = f"--gpu-arch {architecture} --dump-dir {folder} {options}"
        self.function = weft.compile(function, options=options)
        stem = folder / function.function.__name__
        self.assembly = stem.with_suffix(".assembly").read_text()
        self.elf = Elf(stem.with_suffix(".elf").read_bytes())
        self.llvm = self.function.llvm_ir


@weft.kernel
def add_kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        c[i] = a[i] + b[i]


@weft.jit
def add(a: F32, b: F32, c: F32, threads: weft.i32):
    add_kernel(a, b, c).launch(grid=weft.ceil_div(a.shape[0], threads), block=threads)


@weft.kernel
def reverse_kernel(a: weft.Tensor, size: weft.i32):
    tile = weft.shared(128, weft.f32)
    more = weft.dynamic_shared((size,), weft.f32)
    i = weft.thread_idx.x
    tile[i] = a[i]
    more[i] = a[i]
    weft.sync_threads()
    a[i] = tile[127 - i] + more[127 - i]


@weft.jit
def reverse(a: F32):
    reverse_kernel(a, 128).launch(grid=1, block=128, shared_memory_bytes=512)


@weft.kernel
def count_kernel(a: weft.Tensor, out: weft.Tensor):
    own = weft.local(8, weft.f32)
    i = weft.block_idx.x + weft.grid_dim.x * weft.thread_idx.y
    for k in range(8):
        own[k] = a[i * 8 + k]
    steps = 0
    while own[steps % 8] > 1.0:
        own[steps % 8] /= 2.0
        if own[(steps + 3) % 8] < 0.5:
            break
        steps += 1
    weft.fence_device()
    weft.atomic_add(out, 0, steps)
    weft.atomic_max(out, 1, steps)


@weft.jit
def count(a: F32, out: weft.Tensor[weft.i32, (2,)], threads: weft.i32):
    count_kernel(a, out).launch(grid=4, block=(1, threads))


@weft.kernel
def waves_kernel(a: weft.Tensor, phase: weft.f32):
    i = weft.thread_idx.x
    a[i] = weft.math.sin(a[i] + phase) * weft.math.exp(-a[i]) + weft.math.sqrt(weft.math.abs(a[i]))


@weft.jit
def waves(a: F32, phase: weft.f32):
    waves_kernel(a, phase).launch(grid=1, block=256)


KERNELS = {"add": add, "reverse": reverse, "count": count, "waves": waves}


@pytest.mark.parametrize("name", sampled(KERNELS, 2))
@every_architecture
def test_a_kernel_becomes_assembly_and_a_relocatable_object(architecture, name, tmp_path):
    built = Built(KERNELS[name], architecture, tmp_path)
    kernel = f"{name}_kernel"
    assert f'.amdgcn_target "amdgcn-amd-amdhsa--{architecture}"' in built.assembly
    assert f".amdhsa_kernel {kernel}" in built.assembly
    assert re.search(rf"\.wavefront_size: +{WARP_SIZES[architecture]}\n", built.assembly)
    assert (built.elf.type, built.elf.machine) == (1, 224)  # ET_REL, EM_AMDGPU
    assert built.elf.flags & 0xFF == MACHINES[architecture]
    assert built.elf.symbols[kernel][0] == 2  # STT_FUNC
    assert built.elf.symbols[f"{kernel}.kd"] == (1, 64)  # a kernel descriptor
    (info,) = built.function.kernels.values()
    assert info.registers > 0


# What differs between them are names (GFX11 says b32 for dword) and what an i32's maximum is made of.
INSTRUCTIONS = {
    "add": ("global_load_(dword|b32)", "v_add_f32", "global_store_(dword|b32)"),
    "reverse": (
        *("global_load", "ds_(write|store)", r"s_waitcnt.* lgkmcnt\(0\)", "s_barrier"),
        *("ds_(read|load)", "v_add_f32", "global_store"),
    ),
    "count": (
        *("global_load", "buffer_(wbinvl1_vol|wbl2|gl0_inv)", "global_atomic_add"),
        "global_atomic_(smax|cmpswap)",
    ),
    "waves": ("global_load", "v_fma", "v_sqrt_f32", "global_store"),
}


@pytest.mark.parametrize("name", sampled(KERNELS, 2))
@every_architecture
def test_the_assembly_has_the_instructions_of_the_kernel_in_order(architecture, name, tmp_path):
    text = Built(KERNELS[name], architecture, tmp_path).assembly
    for instruction in (*INSTRUCTIONS[name], "s_endpgm"):
        found = re.search(rf"^\t{instruction}", text, re.MULTILINE)
        assert found, instruction
        text = text[found.end() :]


@pytest.mark.slow
@pytest.mark.parametrize("level", range(4))
@every_architecture
def test_every_level_of_optimization(architecture, level, tmp_path):
    for function in KERNELS.values():
        built = Built(function, architecture, tmp_path, f"--opt-level {level}")
        assert "s_endpgm" in built.assembly


@every_architecture
def test_the_kernel_takes_its_parameters_where_a_launch_puts_them(architecture, tmp_path):
    @weft.kernel
    def kernel(a: weft.Tensor, flag: weft.bool_, b: weft.Tensor, x: weft.f64, y: weft.i16):
        if flag:
            a[b.shape[0], weft.i32(y)] = weft.f32(x)
        b[0, 0] = 1.0

    @weft.jit
    def mixed(
        a: weft.Tensor[weft.f32, ("n", "m"), "strided"],
        flag: weft.bool_,
        b: weft.Tensor[weft.f32, ("k", "l")],
        x: weft.f64,
        y: weft.i16,
    ):
        kernel(a, flag, b, x, y).launch(grid=1, block=1)

    built = Built(mixed, architecture, tmp_path)
    (info,) = built.function.kernels.values()
    arguments = re.findall(
        r"\.offset: +(\d+)\n +\.size: +(\d+)\n +\.value_kind: +(global_buffer|by_value)\n",
        built.assembly,
    )
    assert tuple(int(size) for _, size, _ in arguments) == info.parameter_sizes
    end = 0
    for offset, size, kind in ((int(at), int(size), kind) for at, size, kind in arguments):
        end = (end + size - 1) // size * size
        assert (offset, size == 8 or kind == "by_value") == (end, True)
        end += size
    assert end == info.parameter_bytes


@every_architecture
def test_each_kind_of_memory_is_in_its_address_space(architecture, tmp_path):
    text = Built(count, architecture, tmp_path).llvm
    assert "define amdgpu_kernel void @count_kernel(ptr addrspace(1) %a.pointer" in text
    assert re.search(r"= alloca \[8 x float\], align 16, addrspace\(5\)", text)
    assert "call i32 @llvm.amdgcn.workitem.id.y()" in text
    assert "call i32 @llvm.amdgcn.workgroup.id.x()" in text
    assert "call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()" in text  # grid_dim
    built = Built(reverse, architecture, tmp_path)
    assert "external addrspace(3) global [0 x i8]" in built.llvm
    assert "s_barrier" in built.assembly
    assert re.search(r"ds_(read|load)", built.assembly)
    assert '"amdgpu-flat-work-group-size"="128,128"' in built.llvm
    assert "implicitarg" not in built.llvm  # the block is known


# ---- warps


WARP_PROGRAM = """
@weft.kernel
def kernel(a: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    {body}

@weft.jit
def host(a: weft.Tensor[weft.{dtype}, ("n",)], out: weft.Tensor[weft.{dtype}, ("n",)], threads: weft.i32):
    kernel(a, out).launch(grid=1, block={block})
"""
WARP_BODIES = {
    "shuffle": "out[i] = weft.shfl_down(a[i], 1)",
    "warp_reduce": "out[i] = weft.warp.sum(a[i])",
    "vote": "out[i] = a[i] if weft.warp.any(a[i] > 1) else weft.{dtype}(weft.ballot(a[i] > 1))",
    "lane_id": "out[i] = weft.{dtype}(weft.lane_id())",
    "warp_id": "out[i] = weft.{dtype}(weft.warp_id())",
    "warp_barrier": "weft.sync_warp(); out[i] = a[i]",
}


def warp_program(name: str, dtype: str = "f32", block: object = "threads") -> Any:
    body = WARP_BODIES[name].format(dtype=dtype)
    return define(WARP_PROGRAM.format(body=body, dtype=dtype, block=block))["host"]


def test_the_programs_have_every_operation_of_warps():
    of_warps = {op.name for op in SIMT.operations if DependsOnWarps() in op.traits}
    assert of_warps == {f"simt.{name}" for name in (*WARP_BODIES, "match")}


@pytest.mark.parametrize("name", WARP_BODIES)
@pytest.mark.parametrize("architecture", [a for a, size in WARP_SIZES.items() if size == 64])
def test_a_warp_of_64_threads_is_refused(architecture, name):
    with pytest.raises(weft.UnavailableError) as caught:
        weft.compile(warp_program(name), options=f"--gpu-arch {architecture}")
    error = caught.value
    assert (error.code, error.location.line) == ("TARGET_OPERATION", 5)
    assert error.message == (
        f"simt.{name}: a warp of {architecture} has 64 threads, and the language's have 32"
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "u64", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("block", ["threads", 64])
@pytest.mark.parametrize("name", WARP_BODIES)
def test_a_warp_of_32_threads_does_all_that_goes_lane_by_lane(name, dtype, block, tmp_path):
    built = Built(warp_program(name, dtype, block), "gfx1100", tmp_path)
    if name in ("shuffle", "warp_reduce"):
        assert "ds_bpermute_b32" in built.assembly


@pytest.mark.parametrize("kind", ["up", "down", "xor", "idx"])
@pytest.mark.parametrize("width", [1, 2, 8, 32])
def test_every_shuffle_reads_the_lane_that_the_language_says(kind, width):
    from weft_amdgcn.lowering import _AmdWarp

    for given in range(32):
        lanes = [_source(_AmdWarp, kind, given, width, own) for own in range(32)]
        assert lanes == [_expected(kind, given, width, own) for own in range(32)]


def _expected(kind: str, given: int, width: int, own: int) -> int:
    """The lane that a shuffle reads, as the pages of shfl_up and the others say it."""
    first = own // width * width
    if kind == "idx":
        return first + given % width
    lane = {"up": own - given, "down": own + given, "xor": own ^ given}[kind]
    inside = lane >= first if kind == "up" else lane < first + width
    return lane if inside else own


COMPUTED = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "add": operator.add,
    "sub": operator.sub,
    "shl": operator.lshift,
}


def _source(warp: Any, kind: str, given: int, width: int, own: int) -> int:
    """The lane that the printed instructions read, which are done here on one lane."""

    class Lines:
        module = type("Module", (), {"intrinsic": staticmethod(lambda name, suffix: name)})
        last = 0

        def let(self, text: str) -> str:
            words = re.split(r"[ ,()]+", text)
            numbers = [int(word) for word in words if re.fullmatch(r"-?\d+", word)]
            match words[0]:
                case "call" if "mbcnt" in text:
                    value = own
                case "call":
                    value = numbers[0] // 4  # the address of a lane's register
                case "icmp":
                    value = int(
                        numbers[0] >= numbers[1] if words[1] == "sge" else numbers[0] < numbers[1]
                    )
                case "select":
                    value = numbers[1] if numbers[0] else numbers[2]
                case name:
                    value = COMPUTED[name](*numbers)
            return str(value)

    one = object.__new__(warp)
    one.printer = Lines()
    return int(one.exchange(kind, "-1", "0", str(given), width))


# ---- what it does not have


LACKING = {
    "out[0] = weft.f32(weft.clock64())": "simt.timer: amdgcn has no clock",
    "out[0] = weft.f32(weft.sm_id())": "simt.sm_id: amdgcn does not number its multiprocessors",
    "weft.printf('%d', i)": "simt.printf: amdgcn cannot print",
    "weft.inline_ptx('bar.sync 0;')": "nvgpu.inline_ptx: PTX is for NVIDIA's GPUs",
    "out[0] = weft.f32(weft.sync_threads_count(i > 3))": "simt.barrier_reduce: amdgcn has no barrier",
}


def test_it_prints_or_refuses_every_operation():
    from weft_amdgcn.lowering import HOST_ROWS, KERNEL_ROWS, UNSUPPORTED

    for operation in set(OPERATIONS) - {*HOST_SYMBOLS, *WRAPPER, KernelOp}:
        places = operation in {*KERNEL_ROWS, *HOST_ROWS}, operation in UNSUPPORTED
        assert places.count(True) == (operation not in EXPANDED), operation.name


@pytest.mark.parametrize("body", LACKING)
@every_architecture
def test_an_operation_that_it_lacks_is_refused_with_its_line(architecture, body):
    host = define(WARP_PROGRAM.format(body=body, dtype="f32", block=32))["host"]
    with pytest.raises(weft.UnavailableError) as caught:
        weft.compile(host, options=f"--gpu-arch {architecture}")
    assert (caught.value.code, caught.value.location.line) == ("TARGET_OPERATION", 5)
    assert caught.value.message.startswith(LACKING[body])


def test_match_and_sync_grid_are_refused_without_warps():
    match = define(
        WARP_PROGRAM.format(body="out[i] = weft.f32(weft.match(i))", dtype="f32", block=32)
    )
    with pytest.raises(weft.UnavailableError, match=r"simt\.match: amdgcn has no instruction"):
        weft.compile(match["host"], options="--gpu-arch gfx1100")
    grid = WARP_PROGRAM.format(body="weft.sync_grid()", dtype="f32", block=32)
    grid = grid.replace("block=32)", "block=32, cooperative=True)")
    with pytest.raises(weft.UnavailableError, match="amdgcn has no barrier of the whole grid"):
        weft.compile(define(grid)["host"], options="--gpu-arch gfx1100")


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("cooperative=True", "cooperative=True"),
        ("programmatic=True", "programmatic=True"),
        ("attributes=weft_priority", "attributes of CUDA's driver"),
    ],
)
def test_a_launch_of_cudas_is_refused_with_its_line(argument, said):
    from weft.driver.launch_attributes import Priority

    text = WARP_PROGRAM.format(body="out[i] = a[i]", dtype="f32", block=f"32, {argument}")
    text = text.replace("grid=1", "grid=2")
    host = define(text, weft_priority=Priority(-1))["host"]
    with pytest.raises(weft.UnavailableError) as caught:
        weft.compile(host, options="--target amdgcn")
    assert (caught.value.code, caught.value.location.line) == ("TARGET_OPERATION", 9)
    assert f"a launch with {said} is for NVIDIA's GPUs" in caught.value.message


@pytest.mark.parametrize("bound", ["min_blocks=2", "cluster=2"])
def test_a_kernel_with_bounds_of_cudas_is_refused(bound):
    text = WARP_PROGRAM.format(body="out[i] = a[i]", dtype="f32", block=32)
    text = text.replace("grid=1", "grid=2")
    declared = text.replace("@weft.kernel", f"@weft.kernel({bound})")
    launched = text.replace("block=32", f"block=32, {bound}")
    for program in (declared, launched) if "cluster" in bound else (declared,):
        with pytest.raises(weft.UnavailableError, match=f"a kernel with {bound[:-1]} is for"):
            weft.compile(define(program)["host"], options="--target amdgcn")


def test_bounds_that_it_has_are_its_attributes(tmp_path):
    text = WARP_PROGRAM.format(body="out[i] = a[i]", dtype="f32", block="threads")
    text = text.replace("@weft.kernel", "@weft.kernel(max_threads=128, max_registers=32)")
    built = Built(define(text)["host"], "gfx942", tmp_path)
    assert '"amdgpu-flat-work-group-size"="1,128" ' in built.llvm
    assert '"amdgpu-num-vgpr"="32"' in built.llvm
    assert re.search(r"\.max_flat_workgroup_size: +128\n", built.assembly)


def test_an_assertion_that_is_kept_is_refused():
    host = define(WARP_PROGRAM.format(body="assert i < 8", dtype="f32", block=32))["host"]
    weft.compile(host, options="--target amdgcn")
    with pytest.raises(weft.UnavailableError, match="amdgcn cannot report") as caught:
        weft.compile(host, options="--target amdgcn --enable-assertions")
    assert caught.value.location.line == 5


def test_shared_arrays_that_are_too_large_are_refused():
    host = define(
        WARP_PROGRAM.format(
            body="t = weft.shared(20000, weft.f32); t[i] = a[i]; out[i] = t[i]",
            dtype="f32",
            block=32,
        )
    )["host"]
    with pytest.raises(
        weft.ValueRangeError, match="take 80000 bytes; a block has at most 65536 on gfx942"
    ):
        weft.compile(host, options="--target amdgcn")


# ---- every type, every function


COVERAGE = """
from pathlib import Path
import tempfile
import weft
from tests.backends.amdgcn_site import WARP_SIZES, installed
from tests.conformance.harness import OF_INTEGERS, QUESTIONS, define, math_functions

with installed(Path(tempfile.mkdtemp())):
    for architecture, level in zip(WARP_SIZES, (3, 0, 3), strict=True):
        options = f"--gpu-arch {architecture} --opt-level {level}"
        assert weft.compile(define(PROGRAM)["host"], options=options).kernels
print("done")
"""


def compile_everywhere(dtype: str, values: list[str], statements: Sequence[str] = ()) -> None:
    """A kernel that stores all these values, in a process of its own: LLVM ends it on what it cannot select."""
    stores = [f"out[i + {at}] = weft.{dtype}({value})" for at, value in enumerate(values)]
    body = "\n    ".join([*stores, *statements])
    program = WARP_PROGRAM.format(body=body, dtype=dtype, block=64)
    assert run_python(COVERAGE.replace("PROGRAM", repr(program))).strip() == "done"


FLOATS = [dtype.name for dtype in DTYPES if dtype.is_float]
INTEGERS = [dtype.name for dtype in DTYPES if dtype.is_integer]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool_"])
def test_every_type_is_loaded_converted_computed_with_and_stored(dtype):
    values = [f"weft.{other}(a[i])" for other in (*FLOATS, *INTEGERS, "bool_")]
    atomics = ["weft.atomic_exchange(out, 0, a[i])", "weft.atomic_cas(out, 0, a[0], a[1])"]
    if dtype != "bool_":
        values += ["a[i] + a[i + 1] * a[i + 2]", "-a[i]", "a[i] if a[i] < a[i + 1] else a[i + 2]"]
        values += ["a[i] // a[i + 1]", "a[i] % a[i + 1]"]
        atomics += [f"weft.atomic_{kind}(out, 0, a[i])" for kind in ("add", "max", "min")]
    if dtype in INTEGERS:
        values += ["(a[i] << 3) ^ (a[i + 1] >> 2)"]
        atomics += [f"weft.atomic_{kind}(out, 0, a[i])" for kind in ("and", "or", "xor")]
    compile_everywhere(dtype, values, atomics)


def calls(names: Iterable[str], count: int) -> list[str]:
    arguments = ", ".join(f"a[i + {at}]" for at in range(count))
    return [f"weft.math.{name}({arguments})" for name in sorted(names)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_every_function_of_the_library(dtype):
    values = [call for count in (1, 2, 3) for call in calls(math_functions(count), count)]
    compile_everywhere(dtype, values + calls(QUESTIONS, 1))


@pytest.mark.parametrize("dtype", sampled(["i32", "i64", "u32", "u64"], 3))
def test_every_function_of_integers(dtype):
    compile_everywhere(dtype, calls(OF_INTEGERS - {"mulhi"}, 1) + calls({"mulhi", "max", "min"}, 2))


# ---- what it is, and calls


def test_it_is_found_by_its_name_its_architectures_and_its_devices():
    backend = find_backend("amdgcn")
    assert find_backend_of(10) is backend  # kDLROCM
    assert {find_target(architecture) for architecture in WARP_SIZES} == {"amdgcn"}
    assert find_target("gfx900") is None
    assert backend.find_architecture(None) is None
    assert not backend.runs_on_host


def test_options_choose_it_and_its_default_architecture(tmp_path):
    weft.compile(add, options=f"--target amdgcn --dump-dir {tmp_path}")
    assert "amdhsa--gfx942" in (tmp_path / "add.assembly").read_text()
    on_device = weft.fake_tensor(weft.f32, ("n",), device="rocm:1")
    assert weft.compile(add, on_device, on_device, on_device, 32).kernels
    for options, said in {
        "--gpu-arch gfx906": "takes an architecture such as sm_90a, received 'gfx906'",
        "--target cuda --gpu-arch gfx90a": "implies --target amdgcn, but --target is cuda",
        "--target amdgcn --ptxas-options=-v": "the assembler of PTX, which the target amdgcn does not",
        "--target amdgcn --keep-ptx": "asks for a text that the target amdgcn does not have",
    }.items():
        with pytest.raises(weft.OptionError, match=said):
            weft.compile(add, options=options)


@every_architecture
def test_a_call_says_that_there_is_no_driver(architecture):
    function = weft.compile(add, options=f"--gpu-arch {architecture}")
    said = f"^add: there is no driver for amdgcn here, and its kernels are for {architecture}$"
    arrays = [np.zeros(4, np.float32)] * 3
    for call in (
        lambda: function(*arrays, 32),
        lambda: function.to(0)(*arrays, 32),
        lambda: function.preload(0),
    ):
        with pytest.raises(RuntimeError, match=said):
            call()
    assert set(function.kernels) == {"add_kernel"}
    assert "launch_device" in function.host_llvm_ir


def test_a_direct_call_says_where_its_tensors_would_have_to_be():
    host = weft.jit(options="--target amdgcn")(add.function)
    with pytest.raises(weft.OptionError, match="the target amdgcn, but argument 'a' is on the CPU"):
        host(*[np.zeros(4, np.float32)] * 3, 32)


def test_a_function_without_kernels_needs_no_driver():
    @weft.jit
    def double(x: weft.i32):
        return 2 * x

    assert weft.compile(double, options="--target amdgcn")(21) == 42


def test_the_types_that_are_tested_are_all():
    found = [value for value in vars(types).values() if isinstance(value, types.DType)]
    known = {dtype for dtype in found if not dtype.is_packed and not dtype.is_complex}
    assert {dtype for dtype in found if dtype.is_complex} == {weft.c64, weft.c128}
    scales = set(types.SCALE_DTYPES)  # converted by name alone
    assert {getattr(weft, name) for name in (*FLOATS, *INTEGERS, "bool_")} | scales == known
