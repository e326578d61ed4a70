# SPDX-License-Identifier: Apache-2.0
"""The assembler's log as data: sizes of each kernel, warnings at their line of Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weft
from weft.backends.cuda.diagnostics import (
    KernelResources,
    local_accesses,
    read_diagnostics,
    read_resources,
    source_line,
)

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 2 barriers, 16 bytes cumulative stack size, 1024 bytes smem, 552 bytes cmem[0]
ptxas info    : Compile time = 1.329 ms
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
info    : 0 bytes gmem
info    : Function properties for 'second':
info    : used 8 registers, used 5 barriers, 0 stack, 0 bytes smem, 536 bytes cmem[0], 12 bytes lmem
"""
PTX = """.version 8.0
.visible .entry first(
)
{
\t.loc\t1 12 5
\tadd.s32 \t%r1, %r2, %r3;
\twgmma.mma_async.sync;
}
\t.file\t1 "/home/user/kernels.py"
"""
WARNING = (
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized "
    "due to insufficient register resources in the function 'first'\n"
)
AT_LINE = "ptxas kernels.ptx, line 7; warning : Advanced instruction is not used well\n"


def test_each_kernel_has_its_sizes():
    found = read_resources(LOG)
    assert found["first"] == KernelResources(
        registers=40, stack_bytes=16, spill_store_bytes=4, spill_load_bytes=8, shared_memory_bytes=1024,
        barriers=2,
    )  # fmt: skip
    assert found["second"] == KernelResources(registers=8, local_memory_bytes=12)


def test_sizes_and_times_are_not_diagnostics():
    assert read_diagnostics(LOG, PTX) == []


@pytest.mark.parametrize("place", ["in the function 'first'", "for the function 'first'"])
def test_a_warning_without_a_line_names_the_first_instruction(place):
    (found,) = read_diagnostics(WARNING.replace("in the function 'first'", place), PTX)
    assert (found.code, found.kernel, found.line) == ("C7510", "first", 12)
    assert "due to insufficient register resources; " in str(found)


def test_a_warning_at_a_line_of_ptx_is_traced_to_python():
    (found,) = read_diagnostics(AT_LINE, PTX)
    assert (found.file, found.line, found.kernel) == ("/home/user/kernels.py", 12, "first")
    assert str(found).startswith("/home/user/kernels.py:12: ")


def test_a_line_without_a_location_has_none():
    assert source_line(PTX, 2) == ("", 0)


def test_code_without_a_line_has_that_of_the_code_before():
    assert source_line(PTX.replace("add.s32", ".loc 1 0 5\n"), 7) == ("/home/user/kernels.py", 12)


def test_registers_bound_the_threads_of_a_block():
    assert KernelResources(registers=32).max_threads(None) == 1024
    assert KernelResources(registers=64).max_threads(None) == 1024
    assert KernelResources(registers=65).max_threads(None) == 896
    assert KernelResources(registers=255).max_threads(None) == 256
    assert KernelResources(registers=255).max_threads(128) == 128


def tiles():
    shape = (64, 64)
    return weft.shared(shape, weft.bf16, swizzle=128), weft.shared(shape, weft.bf16, swizzle=128)


def write(c, fragment):
    values = fragment.values
    for number in weft.static_range(len(values)):
        c[weft.thread_idx.x, number] = values[number]


@weft.kernel
def printing(c: weft.Tensor, iterations: weft.i32):
    a, b = tiles()
    acc = weft.wgmma.accumulator((64, 64), weft.f32)
    for number in range(iterations):
        acc = weft.wgmma.mma(a, b.T, acc, accumulate=number > 0)
        weft.printf("%d", number)  # C7510
        acc = weft.wgmma.wait(acc)
    write(c, acc)


@weft.kernel
def packed_early(c: weft.Tensor, iterations: weft.i32):
    a, b = tiles()
    p = weft.wgmma.wait(weft.wgmma.mma(a, b.T)).to(weft.bf16).as_operand_a()
    acc = weft.wgmma.accumulator((64, 64), weft.f32)
    for number in range(iterations):
        acc = weft.wgmma.mma(p, b.T, acc, accumulate=number > 0)  # C7513
        p = p.map(lambda x: x * x)
    write(c, weft.wgmma.wait(acc))


@weft.kernel
def joined(c: weft.Tensor, iterations: weft.i32):
    a, b = tiles()
    x, y = weft.wgmma.mma(a, b.T), weft.wgmma.accumulator((64, 64), weft.f32)
    if iterations > 3:
        y = weft.wgmma.mma(a, b.T, y, accumulate=False)
    else:
        y = weft.wgmma.mma(b, a.T, x)  # C7517
        x = weft.wgmma.mma(b, a.T)
    x, y = weft.wgmma.wait(x, y)  # C7515
    write(c, x)
    write(c, y)


@weft.kernel(max_registers=24)
def spilling(c: weft.Tensor, iterations: weft.i32):
    row = weft.thread_idx.x
    values = [c[row, n] for n in weft.static_range(40)]
    weft.sync_threads()
    for n in weft.static_range(40):
        c[row, n] = values[39 - n] * values[n]  # registers spill


@weft.kernel
def searching(c: weft.Tensor, iterations: weft.i32):
    row = weft.thread_idx.x
    table = weft.local(40, weft.f32)
    for n in range(40):
        table[n] = c[row, n]
    for _ in range(iterations):
        place = weft.i32(table[0]) % 40
        table[place], table[39 - place] = table[39 - place], table[place]  # arrays of a thread
    c[row, 0] = table[iterations]


@weft.kernel(max_registers=64)
def starved(c: weft.Tensor, iterations: weft.i32):
    a, _ = tiles()
    b = weft.shared((128, 64), weft.bf16, swizzle=128)
    write(c, weft.wgmma.wait(weft.wgmma.mma(a, b.T)))  # C7602


IN_LOCAL_MEMORY = spilling, searching
WITH_PRODUCTS = printing, packed_early, joined


def remarks(architecture, *kernels):
    """The compiled function, and of each remark the kernel, the line's comment and the text."""

    @weft.jit(options=f"--gpu-arch {architecture}")
    def host(c: weft.Tensor, iterations: weft.i32):
        for number in weft.static_range(len(kernels)):
            kernels[number](c, iterations).launch(grid=1, block=128)

    function = weft.compile(host, weft.fake_tensor(weft.f32, (128, 64), device="cuda"), 3)
    lines = Path(__file__).read_text().splitlines()
    assert {remark.file for remark in function.remarks} <= {__file__}
    return function, [
        (remark.kernel, lines[remark.line - 1].partition("  # ")[2], remark.message)
        for remark in function.remarks
    ]


def test_what_costs_speed_is_remarked_on_at_its_line_of_python():
    function, found = remarks("sm_90a", *WITH_PRODUCTS, *IN_LOCAL_MEMORY)
    assert {(kernel, comment) for kernel, comment, _ in found} == {
        ("printing", "C7510"),
        ("packed_early", "C7513"),
        ("joined", "C7517"),
        ("joined", "C7515"),
        ("spilling", "registers spill"),
        ("searching", "arrays of a thread"),
    }
    assert all(comment in message for _, comment, message in found)
    assert not any(re.search(r"line \d|in (the )?function", message) for *_, message in found)
    accesses = sum(local_accesses(function.cubin, name).total() for name in function.kernels)
    assert accesses == len(re.findall(r"\b(?:LDL|STL)\b", function.sass)) > 0


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_100a", "sm_120a"])
def test_every_architecture_tells_its_accesses_to_local_memory(architecture):
    _, found = remarks(architecture, *IN_LOCAL_MEMORY)
    assert {(kernel, comment) for kernel, comment, _ in found} == {
        ("spilling", "registers spill"),
        ("searching", "arrays of a thread"),
    }


def test_a_product_with_too_few_registers_is_refused_at_its_line():
    with pytest.raises(weft.ToolchainError, match="C7602") as caught:
        remarks("sm_90a", starved)
    location = caught.value.location
    assert location is not None
    assert Path(__file__).read_text().splitlines()[location.line - 1].endswith("  # C7602")
