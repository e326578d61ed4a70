# SPDX-License-Identifier: Apache-2.0
"""What a compilation leaves behind."""

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
