# SPDX-License-Identifier: Apache-2.0
"""The linker: damaged objects are refused with a sentence, and code never lies in memory that can be written."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codegen.test_object_loader import compiled
from weft.errors import InternalCompilerError
from weft.runtime.code_image import KNOWS_THIS_MACHINE, link_object

pytestmark = pytest.mark.skipif(
    not KNOWS_THIS_MACHINE, reason="the linker does not know this machine"
)

TEXT = """
@counter = global i32 7
@table = constant [2 x ptr] [ptr @first, ptr @second]
@big = global [5000 x i64] zeroinitializer
declare double @cos(double)
declare ptr @memset(ptr, i32, i64)
define i32 @first() { ret i32 1 }
define i32 @second() { ret i32 2 }
define i32 @call(i32 %index) {
  %place = getelementptr ptr, ptr @table, i32 %index
  %function = load ptr, ptr %place
  %result = call i32 %function()
  ret i32 %result
}
define i32 @count() {
  %before = load i32, ptr @counter
  %after = add i32 %before, 1
  store i32 %after, ptr @counter
  ret i32 %after
}
define double @cosine(double %x) {
  %y = call double @cos(double %x)
  ret double %y
}
define i64 @fill() {
  call ptr @memset(ptr @big, i32 1, i64 40000)
  %last = getelementptr i64, ptr @big, i64 4999
  %value = load i64, ptr %last
  ret i64 %value
}
"""
NAMES = ["call", "count", "cosine", "fill", "counter", "table", "first"]


def function(address: int, result: type, *arguments: type):
    return ctypes.CFUNCTYPE(result, *arguments)(address)


def test_code_constants_data_and_zeroed_memory_are_reached():
    linked = link_object(compiled(TEXT), NAMES)
    at = linked.addresses
    assert [function(at["call"], ctypes.c_int, ctypes.c_int)(i) for i in (0, 1)] == [1, 2]
    assert [function(at["count"], ctypes.c_int)() for _ in range(3)] == [8, 9, 10]
    assert function(at["cosine"], ctypes.c_double, ctypes.c_double)(0.0) == 1.0
    assert function(at["fill"], ctypes.c_int64)() == 0x0101010101010101


def test_two_images_of_an_object_have_variables_of_their_own():
    one, other = (link_object(compiled(TEXT), ["count"]) for _ in range(2))
    counts = [function(each.addresses["count"], ctypes.c_int) for each in (one, other)]
    assert [count() for count in counts] == [8, 8]


def protection(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last, kind = re.match(r"(\w+)-(\w+) (\S+)", line).groups()  # pyright: ignore
        if int(first, 16) <= address < int(last, 16):
            return kind
    return "none"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="there is no /proc")
def test_no_memory_is_both_writable_and_executable():
    at = link_object(compiled(TEXT), NAMES).addresses
    linked = link_object(compiled(TEXT), NAMES)
    at = linked.addresses
    found = {name: protection(at[name])[:3] for name in ("first", "counter", "table")}
    assert found == {"first": "r-x", "counter": "rw-", "table": "r--"}


def test_closing_gives_the_memory_back():
    linked = link_object(compiled(TEXT), ["first"])
    address = linked.addresses["first"]
    linked.close()
    linked.close()
    assert linked.addresses == {}
    assert protection(address) == "none" or not protection(address).startswith("r-x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "shorter than an ELF header"),
        (lambda data: b"\0" * 100, "not an ELF file"),
        (lambda data: data[:16] + struct.pack("<H", 3) + data[18:], "not a 64-bit little-endian"),
        (lambda data: data[:18] + struct.pack("<H", 8) + data[20:], "for ELF machine 8"),
        (lambda data: data[:-64], "section"),
        (lambda data: data[:200], "section headers lie outside"),
    ],
)
def test_an_incomplete_object_is_refused(change, message):
    with pytest.raises(InternalCompilerError, match=message):
        link_object(change(compiled(TEXT)), ["first"])


def test_a_missing_symbol_is_named():
    text = "declare void @no_such_function()\ndefine void @f() {\n call void @no_such_function()\n ret void\n}"
    with pytest.raises(
        InternalCompilerError,
        match="neither this process nor libm has the symbol 'no_such_function'",
    ):
        link_object(compiled(text), ["f"])
    with pytest.raises(InternalCompilerError, match="does not define the symbol 'nothing'"):
        link_object(compiled(TEXT), ["nothing"])


def test_objects_of_wrong_types_are_refused():
    with pytest.raises(TypeError):
        link_object("text", ["first"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        link_object(compiled(TEXT), 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        link_object(compiled(TEXT), [3])  # pyright: ignore[reportArgumentType]


DAMAGE = """
import random, sys
from weft import _native

data = open(sys.argv[1], "rb").read()
choose = random.Random(3)
refused = 0
for turn in range(3000):
    damaged = bytearray(data)
    for _ in range(choose.randint(1, 8)):
        damaged[choose.randrange(len(data))] = choose.randrange(256)
    if turn % 4 == 0:
        damaged = damaged[: choose.randrange(len(data))]
    try:
        _native.LinkedObject(bytes(damaged), ["first"], turn % 8 == 1)
    except ValueError:
        refused += 1
print(refused)
"""


def test_no_damage_ends_the_process(tmp_path):
    """The damaged objects are linked but never run; a child process is asked, since it would be the one to end."""
    (tmp_path / "object.o").write_bytes(compiled(TEXT))
    done = subprocess.run(
        [sys.executable, "-c", DAMAGE, str(tmp_path / "object.o")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 500
