# SPDX-License-Identifier: Apache-2.0
"""The assembler's log as data: sizes of each kernel, warnings at their line of Python."""

from __future__ import annotations

from weft.backends.cuda.diagnostics import (
    KernelResources,
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
\twgmma.fence;
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


def test_a_warning_has_its_code_and_kernel():
    (found,) = read_diagnostics(WARNING, PTX)
    assert (found.code, found.kernel) == ("C7510", "first")
    assert "serialized" in str(found)


def test_a_warning_at_a_line_of_ptx_is_traced_to_python():
    (found,) = read_diagnostics(AT_LINE, PTX)
    assert (found.file, found.line, found.kernel) == ("/home/user/kernels.py", 12, "first")
    assert str(found).startswith("/home/user/kernels.py:12: ")


def test_a_line_without_a_location_has_none():
    assert source_line(PTX, 2) == ("", 0)


def test_registers_bound_the_threads_of_a_block():
    assert KernelResources(registers=32).max_threads(None) == 1024
    assert KernelResources(registers=64).max_threads(None) == 1024
    assert KernelResources(registers=65).max_threads(None) == 896
    assert KernelResources(registers=255).max_threads(None) == 256
    assert KernelResources(registers=255).max_threads(128) == 128
