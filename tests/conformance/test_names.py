# SPDX-License-Identifier: Apache-2.0
"""Every name that Python allows is one that weft compiles: of any letters, any length, and what LLVM and PTX keep.

In: one program under many names. Out: the same results on the CPU, and machine code for a GPU.
"""

from __future__ import annotations

import unicodedata
from dataclasses import make_dataclass
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.conformance.harness import define
from tests.conformance.test_cuda import why_no_cuda
from tests.sampling import sampled

# A variable called `{name}` everywhere: parameters, fields, locals, arrays, sizes.
PROGRAM = """
@weft.kernel
def {kernel}({name}: weft.Tensor, {name}c, {name}d):
    {name}e = weft.local(2, weft.i32)
    {name}s = weft.shared(2, weft.i32)
    {name}f = 0
    for {name}i in range({name}[0]):
        if {name}f > 100:
            break
        {name}f += {name}c.{field}[0] + {name}d.{field}
    {name}e[0] = {name}f
    {name}s[0] = {name}e[0]
    {name}[1] = {name}s[0] if {name}[0] > 0 else {name}c.{field}b

@weft.jit
def {host}({name}: weft.Tensor[weft.i32, ("{dim}",)], {name}c, {name}d):
    {kernel}({name}, Record({name}c[0], {name}c[1]), Pair({name}d)).launch(grid=1, block=1)
"""
LONG = "n" * 1022
NAMES = {
    "umlaut": "größe",
    "greek": "α",
    "cjk": "数",
    "beyond 16 bits": "𐤀",
    "two letters that LLVM cannot tell from one": "é_é",
    "ligature": "ﬁx",
    "long": LONG,
    "very long": "k" * 5000,
    "long and not ASCII": "ü" * 1022,
    "underscore": "_",
    "a name of PTX": "WARP_SZ",
}


def program(name: str, kernel: str = "kernel", host: str = "host"):
    field = unicodedata.normalize("NFKC", name).lstrip("_") or "x"  # as named tuples want them
    text = PROGRAM.format(name=name, field=field, kernel=kernel, host=host, dim=name)
    record = make_dataclass("Record", [field, f"{field}b"], frozen=True)
    names = {"Record": record, "Pair": NamedTuple("Pair", [(field, object)])}
    return define(text, **names)[unicodedata.normalize("NFKC", host)]  # as Python reads names


def check(host, architectures=("sm_90a",)) -> None:
    a = np.array([3, 0], np.int32)
    host(a, (np.array([5, 6], np.int32), 7), 2)
    assert a[1] == 3 * (5 + 2)
    if why_no_cuda():
        pytest.skip(why_no_cuda())
    fake = weft.fake_tensor(weft.i32, (None,))
    for architecture in architectures:
        assert weft.compile(host, fake, (fake, 7), 2, options=f"--gpu-arch {architecture}").cubin


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_variable_may_have_any_name(name):
    check(program(name))


@pytest.mark.parametrize("name", sampled(NAMES.values(), 3), ids=NAMES)
def test_a_kernel_and_its_host_function_may_have_any_name(name):
    check(program("x", kernel=f"{name}1", host=f"{name}2"))


# `_` alone, a constant of PTX, functions that kernels call or that LLVM knows, instructions, words of C.
TAKEN = [
    "_",
    "WARP_SZ",
    "vprintf",
    "weft_report",
    "__nvvm_reflect",
    "malloc",
    "main",
    "add",
    "entry",
]


@pytest.mark.parametrize("name", sampled(TAKEN, 3))
def test_a_kernel_may_have_a_name_that_ptx_or_llvm_knows(name):
    check(program("x", kernel=name), architectures=("sm_80", "sm_90a", "sm_120"))


def test_two_kernels_whose_names_differ_beyond_ascii_only_are_two():
    namespace = define("""
        @weft.kernel
        def ä(a: weft.Tensor):
            a[0] = 1

        @weft.kernel
        def ö(a: weft.Tensor):
            a[1] = 2

        @weft.jit
        def host(a: weft.Tensor):
            ä(a).launch(grid=1, block=1)
            ö(a).launch(grid=1, block=1)
        """)
    a = np.zeros(2, np.int32)
    namespace["host"](a)
    assert a.tolist() == [1, 2]


@pytest.mark.parametrize(
    "name", ["class", "None", "ﬁ", "a b", "1x", "", 'a"b', "a\nb", "é", "_kernel"]
)
def test_a_function_may_be_called_anything_afterwards(name):
    def kernel(a):
        a[1] = a[0] + 1

    def host(a):
        made(a).launch(grid=1, block=1)

    kernel.__name__ = host.__name__ = name
    made = weft.kernel(kernel)
    for launch in (weft.jit(host), made[1, 1]):
        a = np.array([7, 0], np.int32)
        launch(a)
        assert a[1] == 8
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
            launch()


@pytest.mark.parametrize("name", ["_kernel", "__kernel", "grid", "block"])
def test_a_bare_launch_knows_its_own_names_from_the_kernels(name):
    namespace = define(f"""
        @weft.kernel
        def {name}({name}: weft.Tensor, _kernel2):
            {name}[1] = {name}[0] + 1

        @weft.kernel
        def other(_kernel: weft.Tensor, {name}2):
            _kernel[1] = _kernel[0] + 1
        """)
    for kernel in (namespace[name], namespace["other"]):
        a = np.array([7, 0], np.int32)
        kernel[1, 1](a, 1)
        assert a[1] == 8


# What a printer calls the parts of parameters and results must not end like the number of a value.
NUMBERED = """
@weft.jit
def host(a: weft.Tensor, n: weft.i32):
    {name} = n
{lines}
    return {name}, n
"""


@pytest.mark.parametrize("name", sampled(["a0", "a1", "a2", "result", "frame", "entry", "v"], 3))
def test_a_variable_may_have_a_printers_name(name):
    for count in range(6):
        line = f"    while {name} > 100:\n        {name} -= 1\n"
        host = define(NUMBERED.format(name=name, lines=line * count))["host"]
        assert host(np.zeros((2, 3), np.int32), 103) == (100 if count else 103, 103)
