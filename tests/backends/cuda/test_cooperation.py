# SPDX-License-Identifier: Apache-2.0
"""What threads do together, by architecture: everything is printed where it exists, and refused by name where not."""

from __future__ import annotations

import pytest

from tests.architecture.source_tree import run_python
from tests.backends.cuda.test_backend import compiled
from tests.codegen.kernel_runner import parse_module
from weft.backends.cuda.stages import emit_ptx, print_kernels
from weft.backends.cuda.target import cuda_machine
from weft.errors import UnavailableError, ValueRangeError

VECTOR = "!simt.tensor<i32, [?], contiguous, global, dims 32, offsets 64, align 4>"
OLDEST = ("sm_50",)
SINCE_VOLTA = ("sm_70", "sm_90", "sm_120a")
KINDS = ("add", "min", "max", "umin", "umax", "and", "or", "xor")
TYPES = {"i32": "i32", "i64": "i64", "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}


def kernel(*lines: str, attributes: str = "") -> str:
    body = "\n  ".join(lines)
    return f"""simt.kernel @kernel(%a: {VECTOR}, %n: i32, %c: i1){attributes} {{
  %i = simt.thread_idx "x" : i32
  {body}
  simt.return
}}
"""


def every_operation() -> str:
    """A kernel with every operation that all architectures have, of every type."""
    lines = ["simt.barrier", "simt.warp_barrier %n"]
    lines += [f'simt.fence "{scope}"' for scope in ("block", "device", "system")]
    lines += [
        f'%b{k} = simt.barrier_reduce "{k}" %c : {t}'
        for k, t in {"count": "i32", "and": "i1", "or": "i1"}.items()
    ]
    lines += [
        f'%v{k} = simt.vote "{k}" %c mask %n : {t}'
        for k, t in {"ballot": "i32", "any": "i1", "all": "i1"}.items()
    ]
    lines += ["%lane = simt.lane_id : i32", "%warp = simt.warp_id : i32", "%sm = simt.sm_id : i32"]
    lines += ['%t0 = simt.timer "globaltimer" : i64', '%t1 = simt.timer "clock32" : i32']
    for name, text in TYPES.items():
        cast = "arith.constant 1 : " if name.startswith("i") else "arith.constant 1.0 : "
        lines.append(f"%x{name} = {cast}{text}")
        lines += [
            f'%s{name}{kind} = simt.shuffle "{kind}" %x{name}, %lane mask %n width 8 : {text}'
            for kind in ("up", "down", "xor", "idx")
        ]
        kinds = KINDS if name.startswith("i") else ("add", "min", "max")
        lines += [
            f'%r{name}{kind} = simt.warp_reduce "{kind}" %s{name}up mask %n : {text}'
            for kind in kinds
        ]
    return kernel(*lines)


@pytest.mark.slow
def test_every_architecture_selects_every_operation():
    # In a process of its own: LLVM ends the process on what it cannot select.
    code = (
        "from tests.backends.cuda.test_cooperation import *\n"
        "module = parse_module(every_operation())\n"
        "for name in (*OLDEST, *SINCE_VOLTA):\n"
        "    machine = cuda_machine(name)\n"
        "    assert 'bar.sync' in emit_ptx(print_kernels(module, machine), machine, 1)\n"
        "print('done')\n"
    )
    assert run_python(code).strip() == "done"


NEWER = {
    "weft.match": '%m = simt.match "any" %i mask %n : i32',
    "weft.match_all": '%m = simt.match "all" %i mask %n : i32',
    "weft.sync_grid": "simt.grid_barrier",
}


@pytest.mark.parametrize("name", NEWER)
def test_what_came_with_volta_is_refused_before_it(name):
    module = parse_module(kernel(f'{NEWER[name]} loc("k.py":7:5)'))
    with pytest.raises(UnavailableError) as caught:
        print_kernels(module, cuda_machine("sm_61"))
    assert caught.value.code == "ARCHITECTURE"
    assert caught.value.message == f"{name} needs sm_70 or later, but this is compiled for sm_61"
    assert str(caught.value.location) == "k.py:7"
    machine = cuda_machine("sm_70")
    emit_ptx(print_kernels(module, machine), machine, 1)


@pytest.mark.parametrize(
    ("architecture", "kilobytes"),
    [("sm_61", 48), ("sm_75", 64), ("sm_70", 96), ("sm_86", 99), ("sm_80", 163), ("sm_90a", 227)],
)
def test_shared_arrays_fit_the_architecture(architecture: str, kilobytes: int):
    most = 1024 * kilobytes
    text = kernel(attributes=f" attributes {{shared_memory_bytes = {most} : i64}}")
    print_kernels(parse_module(text), cuda_machine(architecture))
    with pytest.raises(ValueRangeError) as caught:
        print_kernels(
            parse_module(text.replace(str(most), str(most + 16))), cuda_machine(architecture)
        )
    assert caught.value.code == "SHARED_TOO_LARGE"
    assert caught.value.message == (
        f"the shared arrays of 'kernel' take {most + 16} bytes; "
        f"a block has at most {most} on {architecture}"
    )


def test_a_kernel_tells_the_bytes_of_its_shared_arrays():
    array = "!simt.tensor<i32, [30000], contiguous, shared, dims 32, offsets 32, align 16>"
    text = kernel(
        f"%s = simt.shared at 0 : {array}",
        f"simt.store %n, %s[%i : i32] : i32, {array}",
        attributes=" attributes {shared_memory_bytes = 120000 : i64}",
    )
    code, _ = compiled(text)
    assert [found.shared_memory_bytes for found in code.kernels] == [120000]


def reduced(attributes: str, before: str = "", after: str = "", architecture: str = "sm_75") -> str:
    operation = '%r = simt.warp_reduce "add" %i mask %full : i32'
    text = kernel(
        "%full = arith.constant -1 : i32", before, operation,
        f"simt.store %r, %a[%i : i32] : i32, {VECTOR}", after, attributes=attributes,
    )  # fmt: skip
    return print_kernels(parse_module(text), cuda_machine(architecture))


def test_a_butterfly_needs_all_lanes():
    full = " attributes {block_size = array<i32: 8, 8, 1>}"
    partial = " attributes {block_size = array<i32: 8, 7, 1>}"
    differs = "%d = arith.cmpi slt, %i, %n : i32\nscf.if %d {"
    assert "vote.ballot" not in reduced(full)
    assert "vote.ballot" not in reduced(full, "scf.if %c {", "}")  # all lanes have the same %c
    for text in (reduced(partial), reduced(""), reduced(full, differs, "}")):
        assert text.count("vote.ballot") == 1
        assert text.count("shfl.sync.bfly") == 5
        assert text.count("shfl.sync.idx") == 10
    assert "shfl" not in reduced(partial, architecture="sm_80")
