# SPDX-License-Identifier: Apache-2.0
"""The command line: each example of `--help` runs, codes of exit, what is printed."""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from tests.sampling import sampled
from weft.backends.cuda.diagnostics import ASSEMBLER_CODES
from weft.cli import COMMANDS, doctor, main, make_parser
from weft.cli.completion import subparsers
from weft.cli.explain import explanations
from weft.cli.functions import find_function

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
KERNELS = """\
import weft


@weft.kernel
def scale_kernel(a: weft.Tensor, b: weft.Tensor, by):
    for i in weft.each(a.shape[0]):
        b[i] = a[i] * by


@weft.jit
def scale(a, b, by: weft.f32 = 2.0):
    scale_kernel(a, b, by).launch(over=a.shape[0])


@weft.jit
def fill(a: weft.Tensor[weft.f32, ("n",)]):
    scale_kernel(a, a, 0.0).launch(over=a.shape[0])
"""
PROGRAM = """\
import sys
import kernels, numpy
kernels.fill(numpy.ones(4, numpy.float32))
sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
"""
EXAMPLES = [
    line for name in COMMANDS for line in importlib.import_module(f"weft.cli.{name}").EXAMPLES
]
SCALE = "kernels.py::scale"
SPEC = ("--spec", "a:f32[n],b:f32[n]")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize("line", EXAMPLES)
def test_example_of_help_runs(line: str, folder: Path, capsys: pytest.CaptureFixture[str]):
    program, *words = shlex.split(line)
    assert program == "weft"
    assert main(words) == 0
    assert capsys.readouterr().err == ""
    if "sm_80,sm_90a" in line:
        assert ".target sm_80" in (folder / "out/sm_80/scale.ptx").read_text()
        assert ".target sm_90a" in (folder / "out/sm_90a/scale.ptx").read_text()


def test_page_has_every_command_and_option():
    for name, command in subparsers(make_parser()).items():
        assert f"## weft {name}" in PAGE
        for example in importlib.import_module(f"weft.cli.{name}").EXAMPLES:
            assert example in PAGE
        for action in command._actions:
            assert all(option in PAGE for option in action.option_strings if option != "-h")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["explain", "TYPE_NOT_NUMBER"],
            "there is no code TYPE_NOT_NUMBER; similar codes: TYPE_NOT",
        ),
        (["compile", "missing.py::f"], "there is no file missing.py"),
        (["inspect", "kernels.py::scal", *SPEC], "kernels.py has no scal; did you mean scale?"),
        (["inspect", "kernels.py", *SPEC], "kernels.py has the host functions scale, fill"),
        (
            ["inspect", "kernels.py::scale_kernel"],
            "scale_kernel(a, b, by).launch(grid=..., block=...)",
        ),
        (["inspect", "kernels.py::weft"], "weft is not a host function"),
        (
            ["inspect", SCALE, "--spec", "c:f32"],
            "--spec names 'c'; scale has the parameters a, b, by",
        ),
        (["run", SCALE, *SPEC, "--sizes", "n=9999999999"], "'a' would have 9,999,999,999 elements"),
        (["bench", SCALE, *SPEC, "--samples", "0"], "--samples is 0, expected at least 1"),
        (["inspect", SCALE, *SPEC, "--stage", "ptx"], "for a GPU: add --gpu-arch sm_90a"),
    ],
)
def test_wrong_command_says_what_to_write(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_function_that_does_not_compile_is_a_failure(capsys: pytest.CaptureFixture[str]):
    assert main(["compile", SCALE]) == 1
    assert "[ARGUMENT_MISSING] scale(a, b, by): missing argument 'a'" in capsys.readouterr().err


def test_every_stage_of_the_cpu_has_its_lines_of_python(capsys: pytest.CaptureFixture[str]):
    for stage in ("ir", "passes", "llvm", "asm", "wrapper"):
        assert main(["inspect", SCALE, *SPEC, "--stage", stage]) == 0
        shown = capsys.readouterr().out
        kernel, host = "  b[i] = a[i] * by", "  scale_kernel(a, b, by)"
        assert (kernel in shown) == (stage != "wrapper")
        assert (host in shown) == (stage in ("ir", "passes", "wrapper"))


def test_the_module_beside_its_lines_is_the_one_that_was_compiled(
    capsys: pytest.CaptureFixture[str],
):
    main(["inspect", SCALE, *SPEC, "--stage", "passes", "--options=--sanitize=bounds"])
    shown = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("# ")]
    vector = weft.fake_tensor(weft.f32, ("n",))
    options = "--sanitize=bounds --generate-line-info"
    compiled = weft.compile(find_function(SCALE), vector, vector, 2.0, options=options)
    stages = (f"// {name}\n{text}" for name, text in compiled.stages.items())
    assert shown == "\n".join(stages).splitlines()


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    sampled(
        [(["explain"], ""), (["explain"], "1"), (["--help"], ""), (["compile", "missing.py"], "")],
        4,
        several=True,
    ),
)
def test_a_reader_may_stop_early(words: list[str], unbuffered: str, folder: Path):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "weft", *words]
    variables = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    complains = words[0] == "compile"  # on the standard error
    kept = subprocess.PIPE
    streams = (kept, writing) if complains else (writing, kept)
    result = subprocess.run(command, env=variables, stdout=streams[0], stderr=streams[1])
    os.close(writing)
    assert result.returncode == 128 + signal.SIGPIPE
    assert not result.stdout
    assert not result.stderr


def test_a_pipe_of_the_program_that_breaks_is_its_own_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    (folder / "kernels.py").write_text("raise BrokenPipeError('a socket')")
    assert main(["inspect", SCALE]) == 1
    assert capsys.readouterr().err == "weft: a socket\n"


def test_sass_has_its_lines_of_python(capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", SCALE, *SPEC, "--stage", "sass", "--gpu-arch", "sm_90a"]) == 0
    shown = capsys.readouterr().out
    assert "#    7          b[i] = a[i] * by" in shown
    assert "FMUL" in shown


def test_doctor_names_what_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(doctor, "_NEEDED", ("no-such-package",))
    monkeypatch.setenv("WEFT_CACHE_DIRR", "x")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "broken  no-such-package" in shown
    assert "fix: pip install no-such-package" in shown
    assert "fix: write WEFT_CACHE_DIR" in shown


def test_doctor_sees_a_cache_that_others_can_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("WEFT_NO_CACHE")
    (folder / "cache").mkdir()
    (folder / "cache").chmod(0o777)
    assert main(["doctor"]) == 0
    assert "chmod go-w" in capsys.readouterr().out


def test_run_says_what_was_written(capsys: pytest.CaptureFixture[str]):
    spec = "a:bf16[n],b:bf16[n]"
    assert main(["run", SCALE, "--spec", spec, "--sizes", "n=8"]) == 0
    _, a, b = capsys.readouterr().out.splitlines()
    assert a.startswith("  a: bf16 (8,)  min -")
    assert not a.endswith("(written)")
    assert b.endswith("(written)")


def test_profile_has_each_launch_and_ends_as_the_program(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["profile", "-o", "trace", "program.py", "3"]) == 3
    assert "scale_kernel" in capsys.readouterr().out
    assert b"scale_kernel" in (folder / "trace").read_bytes()


def test_a_code_of_several_messages_has_all_of_them():
    assert len(explanations()["WGMMA_SHAPE"].messages) > 3


def test_completion_of_bash_knows_commands_options_and_choices(capsys: pytest.CaptureFixture[str]):
    main(["completion", "bash"])
    script = capsys.readouterr().out
    ask = "COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _weft; echo ${{COMPREPLY[*]}};"
    typed = ("weft in", "weft cache ve", "weft inspect f --stage p", "weft compile --gp")
    result = subprocess.run(
        ["bash", "-c", script + "".join(map(ask.format, typed))], capture_output=True, text=True
    )
    expected = ["inspect", "verify", "passes ptx", "--gpu-arch"]
    assert result.stdout.splitlines() == expected, result.stderr


@pytest.mark.parametrize("command", ["compile", "inspect", "run", "bench"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu-arch", "h100"], "OPTION_VALUE"),
        (["--gpu-arch", "sm_12"], "OPTION_GPU_ARCH"),
        (["--target", "nowhere"], "OPTION_TARGET"),
        (["--options=--no-such-option"], "OPTION_UNKNOWN"),
        (["--options=--opt-level 9"], "OPTION_VALUE"),
        (["--spec", "no_such_parameter:f32"], "--spec names"),
    ],
)
def test_a_wrong_option_is_a_wrong_command(command, words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = [] if "--spec" in words else SPEC
    assert main([command, SCALE, *spec, *words]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.startswith(f"weft {command}: ")


def test_explain_knows_the_assemblers_codes(capsys: pytest.CaptureFixture[str]):
    for code, words in (
        ("C7510", "printf"),
        ("C7511", "setmaxnreg"),
        ("c7513", "conversion"),
        ("C7514", "sums"),
    ):
        assert main(["explain", code]) == 0
        text = capsys.readouterr().out
        assert text.startswith(code.upper()) and words in text
    page = (Path(__file__).parents[2] / "docs" / "tensor-cores.md").read_text()
    assert [code for code in ASSEMBLER_CODES if code not in page] == []
