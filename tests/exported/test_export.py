# SPDX-License-Identifier: Apache-2.0
"""What `weft.export` writes, and what it refuses."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

import weft
from tests.exported.functions import compiled, folder, library, scale
from weft.cache.entry import decode
from weft.compiler.exported.load import records
from weft.errors import ExportError, ToolchainError

GPU = "--gpu-arch sm_80"


def test_a_header_has_each_function_with_its_contract():
    text = library().with_suffix(".h").read_text()
    assert " * b = factor * a.\n" in text
    assert " * arguments[1]: b: Tensor[f32, (n,)], written\n" in text
    assert "factor: f32 = 2.0 (from Python 2.0)" in text
    assert text.count("int32_t __tvm_ffi_") == 3


def test_an_export_is_the_same_bytes_each_time(tmp_path: Path):
    paths = [tmp_path / "a.o", tmp_path / "b.o"]
    for path in paths:
        compiled("scale").export(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_texts_of_kernels_are_written(tmp_path: Path):
    gpu = compiled("scale", GPU)
    for suffix, content in (
        (".ptx", gpu.ptx.encode()),
        (".cubin", gpu.cubin),
        (".ll", gpu.llvm_ir.encode()),
    ):
        assert gpu.export(tmp_path / f"scale{suffix}") == (tmp_path / f"scale{suffix}",)
        assert (tmp_path / f"scale{suffix}").read_bytes() == content
    gpu.export(tmp_path / "other.ptx", gpu_arch="sm_90")
    assert ".target sm_90" in (tmp_path / "other.ptx").read_text()


def images(fatbin: bytes) -> list[tuple[str, int]]:
    """Entries of a fatbin: PTX or a cubin of each architecture."""
    magic, start = struct.unpack_from("<I2xH", fatbin)
    assert magic == 0xBA55ED50
    found = []
    while start < len(fatbin):
        kind, header, size = struct.unpack_from("<H2xIQ", fatbin, start)
        found.append(
            ({1: "ptx", 2: "cubin"}[kind], struct.unpack_from("<I", fatbin, start + 28)[0])
        )
        start += header + size
    return found


def test_one_file_has_code_for_several_architectures(tmp_path: Path):
    path = tmp_path / "several.o"
    compiled("scale", GPU).export(path, gpu_arch="sm_80,sm_90a,sm_120")
    assert weft.load(path).details.architecture == "sm_80, sm_90a, sm_120"
    record = decode(*records(path.read_bytes()))
    assert record is not None
    cubins = [("cubin", number) for number in (80, 90, 120)]
    assert images(record["device"]) == [*cubins, ("ptx", 120)]
    assert record["device"] in path.read_bytes()  # once, for weft.load and for the loader


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_an_object_is_made_for_any_cpu(cpu: str, tmp_path: Path):
    for name in ("scale", "block_sum"):
        path, _ = compiled(name).export(tmp_path / f"{name}.o", cpu=cpu)
        (machine,) = struct.unpack_from("<H", path.read_bytes(), 18)
        assert machine == (183 if cpu == "aarch64" else 62)


@pytest.mark.parametrize(
    ("path", "keywords", "message"),
    [
        ("a.dll", {}, "a.dll ends with .dll, expected one of .so, .a, .o, .ptx, .cubin, .ll"),
        ("a", {}, "a ends with no suffix"),
        ("a.ptx", {}, "scale has no ptx: it was compiled for cpu"),
        ("a.so", {"cpu": "pentium"}, "cpu is 'pentium', expected one of x86-64-v2"),
        ("a.so", {"cpu": "aarch64"}, "a.so needs a linker and weft's runtime for aarch64"),
        (
            "a.so",
            {"gpu_arch": "sm_90"},
            "scale was compiled for cpu, which has no architecture 'sm_90'",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(path: str, keywords: dict[str, str], message: str):
    with pytest.raises(ExportError, match=re.escape(message)):
        compiled("scale").export(folder() / path, **keywords)
    assert not (folder() / path).exists()


def test_what_is_not_a_compiled_function_is_refused():
    for value in (scale, len, None):
        with pytest.raises(TypeError, match="expected a compiled function, received"):
            weft.export(folder() / "a.so", [value])
    with pytest.raises(ExportError, match="no function was given for"):
        weft.export(folder() / "a.so", [])


def test_two_functions_of_a_name_are_refused():
    with pytest.raises(ExportError, match="two of the functions are called scale"):
        weft.export(folder() / "a.so", [compiled("scale"), compiled("scale", GPU)])
    with pytest.raises(ExportError, match=r"a\.o holds one function, received 2"):
        weft.export(folder() / "a.o", [compiled("scale"), compiled("sums")])


def test_a_name_that_c_has_not_is_refused():
    @weft.jit
    def größe(a: weft.Tensor[weft.f32, ("n",)]):  # noqa: PLC2401
        return a.shape[0]

    with pytest.raises(ExportError, match="'größe' is not a name for other languages"):
        weft.compile(größe).export(folder() / "a.so")


def test_a_folder_that_cannot_be_made_is_an_error():
    (folder() / "file").write_text("")
    with pytest.raises(ExportError, match=r"cannot write .*: "):
        compiled("scale").export(folder() / "file" / "a.so")


def test_a_place_where_a_folder_is_is_an_error(tmp_path: Path):
    (tmp_path / "a.o").mkdir()
    with pytest.raises(ExportError, match=r"cannot write .*a\.o: "):
        compiled("scale").export(tmp_path / "a.o")


def test_a_missing_linker_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ToolchainError, match=r"a shared library needs c\+\+, which is not on the search path"
    ):
        compiled("scale").export(tmp_path / "a.so")
    assert list(tmp_path.iterdir()) == []
