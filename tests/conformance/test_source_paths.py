# SPDX-License-Identifier: Apache-2.0
"""Wherever a program's file is and whatever it is called, the program compiles, and its errors say where it is.

In: one program in files of many names. Out: the same results, debug information, and machine code for a GPU.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.conformance.test_cuda import why_no_cuda
from tests.sampling import sampled
from weft.backends.cuda.diagnostics import source_line

PROGRAM = """
import weft

def root(x):
    return weft.math.sqrt(x)

@weft.kernel
def kernel(a: weft.Tensor):
    assert a[0] > 0
    a[0] = root(a[0]) + 1

@weft.jit
def host(a: weft.Tensor):
    kernel(a).launch(grid=1, block=1)
"""
PATHS = {
    "plain": "plain",
    "space": "a b",
    "quotation mark": 'a"b',
    "what looks like PTX": 'a"\n.visible .func f() { }\n.file 7 "b',
    "backslash": "a\\b",
    "backslash at the end": "a\\",
    "new line": "a\nb",
    "control character": "a\x01\x7fb",
    "not ASCII": "größe",
    "not UTF-8": os.fsdecode(b"caf\xe9"),
    "percent": "100%",
}


def written(folder: Path, name: str) -> tuple[weft.JitFunction, str]:
    path = folder / name / f"{name}.py"
    path.parent.mkdir()
    path.write_text(PROGRAM)
    names: dict = {"__name__": "program"}
    exec(compile(PROGRAM, str(path), "exec"), names)
    return names["host"], str(path)


@pytest.mark.parametrize("options", sampled(["", "--generate-line-info", "--verify --keep-ir"], 2))
@pytest.mark.parametrize("name", PATHS.values(), ids=PATHS)
def test_a_program_runs_from_a_file_of_any_name(tmp_path, name, options):
    host, path = written(tmp_path, name)
    if "keep" in options:
        options += f" --dump-dir {tmp_path}"
    a = np.array([4.0], np.float32)
    compiled = weft.compile(host, a, options=f"--target cpu {options}")
    compiled(a)
    assert a[0] == 3
    with pytest.raises(AssertionError) as caught:
        compiled(-a)
    assert f"{path}:9" in str(caught.value).replace("\\udce9", "\udce9")
    if "line-info" in options:
        *_, folder = re.findall(r'directory: "([^"]*)"', compiled.llvm_ir)
        literal = re.sub(
            rb"\\(..)", lambda found: bytes.fromhex(found[1].decode()), folder.encode()
        )
        assert literal == os.fsencode(Path(path).parent)


@pytest.mark.skipif(bool(why_no_cuda()), reason=why_no_cuda() or "")
@pytest.mark.parametrize("name", PATHS.values(), ids=PATHS)
def test_the_assembler_reads_the_files_path(tmp_path, name):
    host, path = written(tmp_path, name)
    options = "--gpu-arch sm_90a --generate-line-info --enable-assertions"
    compiled = weft.compile(host, weft.fake_tensor(weft.f32, (1,)), options=options)
    assert compiled.cubin
    assert compiled.ptx is not None
    assert compiled.ptx.isascii()
    lines = compiled.ptx.splitlines()
    (named,) = [line for line in lines if line.lstrip().startswith(".file")]
    if re.fullmatch(r"[ -~]+", path) and not set(path) & set('"\\'):
        assert f'"{path}"' in named
    assert (
        source_line(
            compiled.ptx,
            len(lines) - lines[::-1].index(next(line for line in lines[::-1] if ".loc" in line)),
        )[0]
        == path
    )


TEXTS = [("\udce9", "\\udce9"), ("\ud800", "\\ud800"), ('a"\\b', 'a"\\b'), ("a\0b", "a\\x00b")]


@pytest.mark.parametrize(("text", "shown"), TEXTS, ids=[shown for _, shown in TEXTS])
def test_texts_that_c_or_utf8_lack_are_shown_as_python_shows_them(capfd, text, shown):
    @weft.kernel
    def kernel(a: weft.Tensor):
        weft.printf("%s", text)
        assert a[0] > 0, text

    @weft.jit
    def host(a: weft.Tensor):
        kernel(a).launch(grid=1, block=1)

    with pytest.raises(AssertionError) as caught:
        host(np.zeros(1, np.float32))
    assert shown in str(caught.value)
    assert capfd.readouterr().out == shown
