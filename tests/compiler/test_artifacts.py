# SPDX-License-Identifier: Apache-2.0
"""Artifacts of a compilation."""

from pathlib import Path

import pytest

import weft
from weft.compiler.artifacts import Artifacts
from weft.compiler.options import make_options


def test_a_text_comes_back_as_it_was_recorded():
    artifacts = Artifacts("f", make_options())
    artifacts.record("ptx", "text")
    artifacts.record("cubin", b"\x00bytes")
    assert artifacts.text("ptx") == "text"
    assert artifacts.data("cubin") == b"\x00bytes"
    assert artifacts.text("llvm") is None


def test_nothing_is_written_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Artifacts("f", make_options()).record("ptx", "text")
    assert list(tmp_path.iterdir()) == []


def test_keep_writes_that_stage_only(tmp_path):
    artifacts = Artifacts("f", make_options(f"--keep-ptx --dump-dir {tmp_path}"))
    artifacts.record("ptx", "text")
    artifacts.record("llvm", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["f.ptx"]
    assert (tmp_path / "f.ptx").read_text() == "text"


def test_dump_dir_alone_writes_every_stage_and_is_made(tmp_path):
    directory = tmp_path / "a" / "b"
    artifacts = Artifacts("f", make_options(f"--dump-dir {directory}"))
    for stage in ("llvm", "llvm-host", "ptx"):
        artifacts.record(stage, "text")
    assert sorted(p.name for p in directory.iterdir()) == ["f.host.ll", "f.ll", "f.ptx"]


def test_keep_without_a_directory_writes_into_the_default_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Artifacts("f", make_options("--keep-llvm")).record("llvm-host", "text")
    assert (tmp_path / "weft-dump" / "f.host.ll").read_text() == "text"


def test_report_names_each_stage_with_its_time():
    artifacts = Artifacts("f", make_options())
    with artifacts.stage("trace"):
        pass
    assert "trace" in artifacts.report()
    assert artifacts.times[0][1] >= 0


@pytest.mark.parametrize("inside", ["file", "file/deeper"])
def test_a_directory_that_cannot_be_made_is_an_option_error(tmp_path, inside):
    (tmp_path / "file").write_text("")
    artifacts = Artifacts("f", make_options(f"--dump-dir {tmp_path / inside}"))
    with pytest.raises(weft.OptionError, match=r"cannot write .*f\.ptx: ") as caught:
        artifacts.record("ptx", "text")
    assert caught.value.code == "OPTION_DUMP_DIR"
    assert "--dump-dir must name a writable directory" in caught.value.hint


def test_a_link_instead_of_a_file_is_replaced_and_not_followed(tmp_path):
    victim, directory = tmp_path / "victim", tmp_path / "dump"
    victim.write_text("precious")
    directory.mkdir()
    (directory / "f.ptx").symlink_to(victim)
    (directory / "f.ll").hardlink_to(victim)
    artifacts = Artifacts("f", make_options(f"--dump-dir {directory}"))
    artifacts.record("ptx", "text")
    artifacts.record("llvm", "text")
    assert victim.read_text() == "precious"
    assert sorted(p.name for p in directory.iterdir() if not p.is_symlink()) == ["f.ll", "f.ptx"]
    assert (directory / "f.ptx").read_text() == (directory / "f.ll").read_text() == "text"


def test_a_file_is_whole_or_as_it_was_and_everybody_may_read_it(tmp_path, monkeypatch):
    artifacts = Artifacts("f", make_options(f"--dump-dir {tmp_path}"))
    artifacts.record("ptx", "before")
    before = (tmp_path / "f.ptx").open()
    artifacts.record("ptx", "after")
    assert before.read() == "before"
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "f.ptx").stat().st_mode == (tmp_path / "plain").stat().st_mode

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(weft.OptionError, match="disk full"):
        artifacts.record("ptx", "never")
    assert (tmp_path / "f.ptx").read_text() == "after"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.ptx", "plain"]


@pytest.mark.parametrize("name", ["n" * 5000, "ü" * 1000, "caf\udce9", "a\0b"])
def test_a_function_of_any_name_has_files(tmp_path, name):
    Artifacts(name, make_options(f"--dump-dir {tmp_path}")).record("llvm-host", "text \udce9")
    (file,) = tmp_path.iterdir()
    assert file.name.endswith(".host.ll")
    assert file.read_text() == "text \\udce9"


def test_files_have_readable_names_whatever_the_function_is_called(tmp_path):
    artifacts = Artifacts("<lambda> of/x", make_options(f"--dump-dir {tmp_path}"))
    artifacts.record("ptx", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["_lambda_of_x.ptx"]


def test_a_stage_that_cannot_be_made_says_why_when_it_is_asked_for(tmp_path):
    missing = weft.ToolchainError("TOOL_MISSING", "no assembler", hint="install one")
    artifacts = Artifacts("f", make_options())
    artifacts.refuse("cubin", missing)
    for _ in range(2):
        with pytest.raises(weft.ToolchainError, match="no assembler") as caught:
            artifacts.data("cubin")
        assert caught.value.hint == "install one"
    with pytest.raises(weft.ToolchainError, match="no assembler"):
        Artifacts("f", make_options(f"--keep-cubin --dump-dir {tmp_path}")).refuse("cubin", missing)
