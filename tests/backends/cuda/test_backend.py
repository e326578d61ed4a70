# SPDX-License-Identifier: Apache-2.0
"""Kernels become cubins for every architecture; what the assembler says becomes data."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.backends.recorder import Artifacts, Options
from tests.codegen.kernel_runner import INDEX, parse_module, tensor
from weft.backends.base import Job
from weft.backends.cuda import toolchain
from weft.backends.cuda.lowering.kernel import entry_name, launch_bounds
from weft.backends.cuda.lowering.tables import HOST_ROWS
from weft.backends.cuda.stages import emit_ptx, print_kernels
from weft.backends.cuda.target import cuda_machine
from weft.backends.host import host_machine, print_host
from weft.backends.registry import find_backend
from weft.codegen.operations.launch import kernels_of
from weft.config import override
from weft.errors import OptionError, ToolchainError
from weft.passes.remove_unused import remove_unused_parameters
from weft.types.capabilities import PTX_VERSIONS as ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Iterator

F32 = tensor("f32")


def kernel_text(body: str = "", attributes: str = "", name: str = "kernel") -> str:
    return f"""simt.kernel @{name}(%a : {F32}, %n : i32){attributes} {{
{INDEX}
  %value = simt.load %a[%i : i32] : {F32} -> f32
  {body}
  simt.store %value, %a[%n : i32] : f32, {F32}
  simt.return
}}"""


HOST = f"""
func.func @host(%a : {F32}, %n : i32, %stream : !simt.stream) {{
  %one = arith.constant 1 : i64
  %size = arith.constant 64 : i64
  simt.launch_ex @kernel grid(%one, %one, %one) block(%size, %one, %one) ATTRIBUTES
  func.return
}}"""


def passed(text: str):
    """A module whose kernels take what they use, as backends get it."""
    module = parse_module(text)
    remove_unused_parameters(module)
    return module


def compiled(text: str, architecture: str | None = None, **options: object):
    artifacts = Artifacts()
    backend = find_backend("cuda")
    architecture = architecture or backend.default_architecture
    code = backend.compile(Job(passed(text), architecture, Options(**options), artifacts))
    return code, artifacts


@pytest.fixture(params=["ptxas", "nvJitLink"])
def assembler(request: pytest.FixtureRequest) -> Iterator[str]:
    """What assembles: ptxas as long as nothing else is asked for."""
    library = toolchain.find_nvjitlink()
    assert library is not None
    with override(**({"nvjitlink": library.path} if request.param == "nvJitLink" else {})):
        yield request.param


def test_a_kernel_becomes_a_cubin_with_its_resources(assembler: str):
    code, artifacts = compiled(kernel_text())
    assert code.device_code.startswith(b"\x7fELF")
    assert (code.target, code.architecture) == ("cuda", "sm_90a")
    (kernel,) = code.kernels
    assert kernel.name == "kernel"
    assert kernel.parameter_sizes == (8, 4)
    assert 4 <= kernel.registers <= 32
    assert kernel.spill_store_bytes == kernel.spill_load_bytes == 0
    assert kernel.max_threads == 1024
    assert set(artifacts.contents) == {"llvm", "llvm-host", "ptx", "cubin"}


def test_the_host_object_does_not_wait_for_the_assembler():
    _, artifacts = compiled(
        kernel_text() + HOST.replace("ATTRIBUTES", f"args(%a, %n : {F32}, i32)")
    )
    assert set(artifacts.stages) == {
        "LLVM text",
        "LLVM to PTX",
        "assembling",
        "host: LLVM text",
        "host: LLVM to object",
    }


def test_ptxas_gives_the_same_resources_as_nvjitlink():
    beside, _ = compiled(kernel_text())
    with override(nvjitlink=toolchain.find_nvjitlink().path):
        in_process, _ = compiled(kernel_text())
    assert beside.kernels == in_process.kernels
    assert beside.kernels[0].registers > 0
    assert beside.kernels[0].constant_bytes >= 0x210 + 12  # what a launch says, and the parameters


def test_the_callers_configuration_reaches_the_assembler():
    with override(ptxas="/no/such/ptxas"), pytest.raises(ToolchainError, match="/no/such/ptxas"):
        compiled(kernel_text())


def test_sass_comes_from_the_recorded_cubin():
    _, artifacts = compiled(kernel_text())
    sass = find_backend("cuda").disassemble(artifacts)
    assert sass is not None
    assert "LDG.E" in sass
    assert "STG.E" in sass


def test_no_kernel_needs_no_assembler():
    code, artifacts = compiled("func.func @host() {\n  func.return\n}")
    assert code.device_code == b""
    assert "assembling" not in artifacts.stages


@pytest.mark.joined
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ptx_of_every_architecture_names_it(architecture: str):
    machine = cuda_machine(architecture)
    ptx = emit_ptx(print_kernels(parse_module(kernel_text()), machine), machine, 3)
    version = ARCHITECTURES[architecture]
    assert f".target {architecture}" in ptx
    assert f".version {version // 10}.{version % 10}" in ptx


def test_an_unknown_architecture_is_an_error_that_lists_all(capfd):
    with pytest.raises(OptionError, match=r"unknown GPU architecture 'sm_77'; there are: sm_50, "):
        compiled(kernel_text(), "sm_77")
    assert capfd.readouterr().err == ""


def test_an_architecture_dropped_by_ptxas_leaves_ptx(assembler: str):
    code, artifacts = compiled(kernel_text(), "sm_50")
    assert code.device_code == artifacts.contents["ptx"] + b"\0"
    assert code.kernels[0].parameter_sizes == (8, 4)
    (remark,) = code.remarks
    assert "the driver assembles the PTX when it loads it" in remark.message
    assert assembler in remark.message and "makes no code for sm_50" in remark.message
    refused = artifacts.refused["cubin"]
    assert refused.code == "ASSEMBLER_ARCHITECTURE"
    assert "--keep-ptx" in refused.hint


def test_options_for_an_assembler_that_there_is_not_are_an_error():
    with pytest.raises(ToolchainError, match="makes no code for sm_50"):
        compiled(kernel_text(), "sm_50", ptxas_options=("-dlcm=cg",))


def test_missing_tools_are_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    for finder in ("find_nvjitlink", "find_ptxas", "find_nvdisasm"):
        monkeypatch.setattr(toolchain, finder, lambda: None)
    missing = r"(?s)ptxas, which makes a cubin from PTX, is not installed.*weft-lang\[cuda\]"
    with pytest.raises(ToolchainError, match=missing):
        toolchain.assemble("", "sm_90a")
    with pytest.raises(ToolchainError, match=r"(?s)nvdisasm.*weft-lang\[cuda\]"):
        toolchain.disassemble(b"")
    code, artifacts = compiled(kernel_text())
    assert code.device_code.endswith(b"\0")
    assert "ptxas, which makes a cubin from PTX" in artifacts.refused["cubin"].message


@pytest.mark.parametrize("tool", ["ptxas", "nvjitlink", "nvdisasm"])
def test_a_tool_that_cannot_be_run_is_named(tool: str):
    from weft.backends.cuda.toolchain import assemble, disassemble

    with override(**{tool: "/no/such/file"}), pytest.raises(ToolchainError, match="/no/such/file"):
        if tool == "nvdisasm":
            disassemble(b"")
        else:
            assemble("", "sm_90a")


def test_options_for_ptxas_reach_it(assembler: str):
    free, _ = compiled(kernel_text(MANY_REGISTERS), math="portable")
    options = ("--maxrregcount=24",)
    bound, _ = compiled(kernel_text(MANY_REGISTERS), math="portable", ptxas_options=options)
    assert bound.kernels[0].registers <= 24 < free.kernels[0].registers
    refused = f"{assembler} refused the code for sm_90a:.*Unknown option.*no-such-option"
    with pytest.raises(ToolchainError, match=f"(?s){refused}"):
        compiled(kernel_text(), ptxas_options=("--no-such-option",))


MANY_REGISTERS = f"%w = math.powf %value, %value : f32\n  simt.store %w, %a[%i : i32] : f32, {F32}"
BLOCK_OF_64 = " attributes {block_size = array<i32: 64, 1, 1>}"


@pytest.mark.parametrize(
    "words",
    [
        ("-maxrregcount=24",),
        ("--maxrregcount", "24", "-dlcm=cg"),
        ("-maxrregcount=99", "-maxrregcount=24"),
    ],
)
def test_a_register_limit_option_holds_for_constant_blocks(words: tuple[str, ...], assembler: str):
    text = kernel_text(MANY_REGISTERS, BLOCK_OF_64)
    free, _ = compiled(text, math="portable")
    bound, artifacts = compiled(text, math="portable", ptxas_options=words)
    assert bound.kernels[0].registers <= 24 < free.kernels[0].registers
    assert b".maxnreg 24" in artifacts.contents["ptx"]


def test_a_kernels_register_limit_overrides_the_options():
    text = kernel_text(attributes=" attributes {max_registers = 40 : i32}")
    _, artifacts = compiled(text, ptxas_options=("-maxrregcount=64",))
    assert b".maxnreg 40" in artifacts.contents["ptx"]


def test_a_register_limit_needs_no_assembler():
    code, _ = compiled(kernel_text(), "sm_50", ptxas_options=("-maxrregcount=32",))
    assert b".maxnreg 32" in code.device_code


@pytest.mark.parametrize("word", ["-maxrregcount=8", "-maxrregcount=archmax", "-maxrregcount"])
def test_an_invalid_register_limit_is_refused(word: str):
    with pytest.raises(OptionError, match=r"-maxrregcount .* takes an integer from 16 to 255"):
        compiled(kernel_text(), ptxas_options=(word,))


def test_two_equal_register_limits_are_not_a_remark(assembler: str):
    text = kernel_text(attributes=" attributes {max_registers = 40 : i32}")
    code, _ = compiled(text, ptxas_options=("-maxrregcount=64",))
    assert len(code.remarks) == (assembler == "nvJitLink")  # which says what it costs


@pytest.mark.parametrize(
    ("attributes", "expected", "most"),
    [
        ("{block_size = array<i32: 128, 2, 1>}", {"nvvm.reqntid": "128,2,1"}, 256),
        ("{max_threads = 256 : i32}", {"nvvm.maxntid": "256"}, 256),
        (
            "{max_threads = 96 : i32, min_blocks = 2 : i32, max_registers = 40 : i32}",
            {"nvvm.maxntid": "96", "nvvm.minctasm": "2", "nvvm.maxnreg": "40"},
            96,
        ),
        ("{cluster = array<i32: 2, 1, 1>}", {"nvvm.cluster_dim": "2,1,1"}, 1024),
    ],
)
def test_launch_bounds_reach_ptx(attributes: str, expected: dict[str, str], most: int):
    text = kernel_text(attributes=f" attributes {attributes}")
    (kernel,) = kernels_of(parse_module(text))
    assert launch_bounds(kernel) == expected
    code, artifacts = compiled(text)
    ptx = artifacts.contents["ptx"].decode()
    directives = {
        "nvvm.reqntid": ".reqntid",
        "nvvm.maxntid": ".maxntid",
        "nvvm.minctasm": ".minnctapersm",
    }
    directives |= {"nvvm.maxnreg": ".maxnreg", "nvvm.cluster_dim": ".reqnctapercluster"}
    assert all(directives[name] in ptx for name in expected)
    assert code.kernels[0].max_threads == most


def test_a_constant_block_size_is_a_constant_in_the_code():
    text = kernel_text(attributes=" attributes {block_size = array<i32: 128, 1, 1>}")
    assert "sreg.ntid" not in print_kernels(parse_module(text), cuda_machine("sm_90a"))


def test_names_that_ptx_cannot_have_are_spelled_out():
    assert entry_name("größe") == "gr$F6$$DF$e"
    code, _ = compiled(kernel_text().replace("@kernel", '@"größe"'))
    assert code.kernels[0].name == "gr$F6$$DF$e"


def test_lines_are_directives_and_do_not_switch_optimization_off():
    text = kernel_text().replace(
        "simt.load %a[%i : i32] : " + F32 + " -> f32",
        "simt.load %a[%i : i32] : " + F32 + ' -> f32 loc("/home/user/kernels.py":7:3)',
    )
    module = parse_module(text)
    for kernel in kernels_of(module):
        kernel.location = next(iter(kernel.body.block.ops)).location
    (kernel,) = kernels_of(module)
    load = next(op for op in kernel.body.block.ops if op.name == "simt.load")
    kernel.location = load.location
    machine = cuda_machine("sm_90a")
    ptx = emit_ptx(print_kernels(module, machine), machine, 3)
    assert ".loc\t1 7 3" in ptx
    assert ", debug" not in ptx


def test_printf_goes_to_vprintf_with_aligned_arguments():
    text = kernel_text(
        '%x = arith.extf %value : f32 to f64\n  simt.printf "%d %g %d\\0A"(%i, %x, %n : i32, f64, i32)'
    )
    llvm = print_kernels(parse_module(text), cuda_machine("sm_90a"))
    assert "declare i32 @vprintf(ptr, ptr)" in llvm
    assert "alloca [20 x i8], align 8" in llvm
    code, _ = compiled(text)
    assert code.device_code


def test_assertions_are_off_unless_asked_for():
    text = kernel_text('%c = arith.cmpi slt, %i, %n : i32\n  simt.assert %c, "i < n"')
    module = parse_module(text)
    machine = cuda_machine("sm_90a")
    assert "weft_report" not in print_kernels(module, machine)
    assert "weft_report" in print_kernels(module, machine, enable_assertions=True)
    assert compiled(text, enable_assertions=True)[0].device_code


@pytest.mark.parametrize(("kind", "instruction"), [("max", "MAX"), ("min", "MIN")])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_float_extrema_are_atomics_without_a_loop(kind: str, instruction: str, element: str):
    tensor_type = tensor(element)
    text = f"""simt.kernel @kernel(%a : {tensor_type}, %v : {element}) {{
  %zero = arith.constant 0 : i32
  %r = simt.atomic_rmw "{kind}" "relaxed" "device" %v, %a[%zero : i32] : {element}, {tensor_type} -> {element}
  simt.return
}}"""
    _, artifacts = compiled(text)
    sass = find_backend("cuda").disassemble(artifacts)
    assert sass is not None
    assert instruction in sass
    assert "CAS" not in sass


ATOMICS = {
    ("relaxed", "block"): ["atom.global.add.u32"],
    ("relaxed", "device"): ["atom.global.add.u32"],
    ("relaxed", "system"): ["atom.relaxed.sys.global.add.u32"],
    ("acquire", "block"): ["atom.acquire.cta.global.add.u32"],
    ("release", "device"): ["atom.release.gpu.global.add.u32"],
    ("acq_rel", "system"): ["atom.acq_rel.sys.global.add.u32"],
    ("seq_cst", "device"): ["fence.sc.gpu", "atom.acquire.gpu.global.add.u32"],
}


def atomic_text(order: str, scope: str, kind: str = "add") -> str:
    i32 = tensor("i32")
    return f"""simt.kernel @kernel(%a : {i32}, %v : i32) {{
  %zero = arith.constant 0 : i32
  %r = simt.atomic_rmw "{kind}" "{order}" "{scope}" %v, %a[%zero : i32] : i32, {i32} -> i32
  simt.store %r, %a[%v : i32] : i32, {i32}
  simt.return
}}"""


def synchronization(ptx: str) -> list[str]:
    """The atomics and fences of a PTX text, in order."""
    words = [line.split()[0].rstrip(";") for line in ptx.splitlines() if line.strip()]
    return [word for word in words if word.startswith(("atom", "fence", "membar"))]


@pytest.mark.parametrize(("order", "scope"), ATOMICS)
def test_orders_and_scopes_of_atomics_reach_ptx(order: str, scope: str):
    _, artifacts = compiled(atomic_text(order, scope))
    assert synchronization(artifacts.contents["ptx"].decode()) == ATOMICS[order, scope]


@pytest.mark.parametrize(
    ("order", "scope", "expected"),
    [
        ("acquire", "device", ["atom.global.add.u32", "membar.gl"]),
        ("release", "block", ["membar.cta", "atom.global.add.u32"]),
        ("acq_rel", "system", ["membar.sys", "atom.sys.global.add.u32", "membar.sys"]),
    ],
)
def test_before_sm_70_orders_are_fences(order: str, scope: str, expected: list[str]):
    machine = cuda_machine("sm_61")
    ptx = emit_ptx(print_kernels(parse_module(atomic_text(order, scope)), machine), machine, 3)
    assert synchronization(ptx) == expected


@pytest.mark.parametrize(
    "kind", ["sub", "max", "min", "umax", "umin", "and", "or", "xor", "exchange"]
)
def test_every_kind_of_atomic_assembles_with_order_and_scope(kind: str):
    code, artifacts = compiled(atomic_text("acq_rel", "system", kind))
    assert "atom.acq_rel.sys.global." in artifacts.contents["ptx"].decode()
    assert code.device_code


def test_inline_assembly_is_convergent():
    text = print_kernels(parse_module(atomic_text("acquire", "device")), cuda_machine("sm_90a"))
    calls = [line for line in text.splitlines() if " asm " in line]
    assert calls
    assert all("convergent" in line for line in calls)


def test_warnings_are_logged_with_the_kernel(assembler: str, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, logger="weft"):
        compiled(kernel_text(), ptxas_options=("--warn-on-double-precision-use",))
    assert caplog.records == []
    f64 = tensor("f64")
    doubles = f"""simt.kernel @doubles(%a : {f64}) {{
  %zero = arith.constant 0 : i32
  %v = simt.load %a[%zero : i32] : {f64} -> f64
  %w = arith.addf %v, %v : f64
  simt.store %w, %a[%zero : i32] : f64, {f64}
  simt.return
}}"""
    with caplog.at_level(logging.WARNING, logger="weft"):
        compiled(doubles, ptxas_options=("--warn-on-double-precision-use",))
    assert any("doubles" in record.getMessage() for record in caplog.records)


def host_text(attributes: str) -> str:
    module = passed(kernel_text() + HOST.replace("ATTRIBUTES", attributes))
    return print_host(module, host_machine(), HOST_ROWS)


def test_a_launch_passes_pointers_to_its_parameters():
    text = host_text(f"args(%a, %n : {F32}, i32)")
    assert (
        "define internal i32 @weft.host.host(ptr %frame, ptr %a0_0, i32 %a0_1, i64 %a0_2, i32 %a1_0, ptr %a2_0)"
        in text
    )
    assert "alloca [2 x ptr]" in text
    assert "i32 (ptr" not in text  # called through the table


def test_launch_attributes_are_constant_data():
    text = host_text(
        f"args(%a, %n : {F32}, i32) {{cluster = array<i32: 2, 1, 1>, cooperative, "
        f'launch_attributes = [#simt.launch_attribute<9, "ff00">]}}'
    )
    assert "[3 x { i32, i32, [64 x i8] }]" in text
    assert r"{ i32 4, i32 0, [64 x i8] c\"\02\00\00\00\01\00\00\00\01".replace('\\"', '"') in text
    assert r"{ i32 2, i32 0, [64 x i8] c\"\01\00".replace('\\"', '"') in text
    assert r"{ i32 9, i32 0, [64 x i8] c\"\FF\00".replace('\\"', '"') in text


def test_a_launchs_own_stream_is_restored_afterwards():
    text = host_text(f"stream %stream args(%a, %n : {F32}, i32)")
    stores = [line for line in text.splitlines() if "store ptr" in line and "%a2_0" in line]
    assert len(stores) == 1
    after = text.split("call i32 %launch_device")[1]
    assert "store ptr %stream." in after


@pytest.mark.parametrize("element", ["f16", "bf16", "f32"])
def test_a_reciprocal_root_is_one_instruction(element: str):
    kind = tensor(element)
    text = f"""simt.kernel @kernel(%a : {kind}) {{
  %i = simt.thread_idx "x" : i32
  %v = simt.load %a[%i : i32] : {kind} -> {element}
  %r = math.rsqrt %v : {element}
  simt.store %r, %a[%i : i32] : {element}, {kind}
  simt.return
}}"""
    _, artifacts = compiled(text)
    ptx = artifacts.contents["ptx"].decode()
    assert "rsqrt.approx.f32" in ptx
    assert "div." not in ptx
