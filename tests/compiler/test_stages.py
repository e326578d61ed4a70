# SPDX-License-Identifier: Apache-2.0
"""The module after each pass: in `fn.stages`, in the files of a dump directory, and what each was compiled from."""

from __future__ import annotations

import itertools

import pytest
from xdsl.dialects.builtin import StringAttr

import weft
from examples.catalog import EXAMPLES
from tests.conformance.harness import define
from tests.sampling import sampled
from weft.arguments.signature import infer_signature
from weft.backends.registry import find_backend
from weft.compiler import pipeline
from weft.compiler.artifacts import Artifacts
from weft.compiler.module_text import module_text
from weft.compiler.options import CompileOptions
from weft.frontend.source import read_source

NAMES = ["trace", *pipeline.passes_for(None)]


@weft.kernel
def fill_kernel(a: weft.Tensor):
    a[weft.thread_idx.x] = 1


@weft.jit
def fill(a: weft.Tensor[weft.f32, ("n",)]):
    fill_kernel(a).launch(grid=1, block=64)


@pytest.mark.parametrize(
    ("example", "target"),
    sampled(zip(EXAMPLES, itertools.cycle(("cpu", "cuda"))), 6, several=True),
    ids=lambda one: getattr(one, "name", one),
)
def test_the_module_that_is_shown_is_the_one_that_was_compiled(example, target):
    source = read_source(example.function)
    signature = infer_signature(source.name, source.parameters, example.fake_arguments(), {})
    backend = find_backend(target)
    artifacts = Artifacts(source.name, CompileOptions())
    traced = pipeline.lower(source, signature.for_device(backend.device_type), backend, artifacts)
    assert artifacts.text("ir") == module_text(traced.module)


def test_there_is_a_stage_for_the_trace_and_for_each_pass_in_order():
    fn = weft.compile(fill)
    assert list(fn.stages) == NAMES
    assert "block_size" not in fn.stages["remove_unused_operations"]
    assert "block_size" in fn.stages["find_block_sizes"]
    assert fn.stages["attach_ffi_wrapper"] == fn.ir_module
    assert '"simt.kernel"' in fn.stages["trace"].generic()
    assert fn.to(0).stages == fn.stages


def test_a_dump_directory_has_a_sorted_file_per_stage(tmp_path):
    fn = weft.compile(fill, options=f"--dump-dir {tmp_path}")
    files = sorted(tmp_path.glob("fill.*.mlir"))
    assert [path.name for path in files] == [
        f"fill.{number:02}-{name}.mlir" for number, name in enumerate(NAMES, 1)
    ]
    assert [path.read_text() for path in files] == list(fn.stages.values())
    assert (tmp_path / "fill.mlir").read_text() == fn.ir_module


def test_keeping_the_ir_writes_the_last_module_alone(tmp_path):
    fn = weft.compile(fill, options=f"--keep-ir --dump-dir {tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == ["fill.mlir"]
    assert (tmp_path / "fill.mlir").read_text() == fn.ir_module


def test_a_pass_that_fails_leaves_the_files_of_those_before_it(tmp_path, monkeypatch):
    def fail_on_purpose(module):
        raise KeyError("here")

    monkeypatch.setattr(pipeline, "find_block_sizes", fail_on_purpose)
    with pytest.raises(KeyError, match="here"):
        weft.compile(fill, options=f"--dump-dir {tmp_path}")
    names = [f"fill.{number:02}-{name}.mlir" for number, name in enumerate(NAMES[:5], 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_pass_that_leaves_an_invalid_module_is_named(monkeypatch):
    def forget_the_end(module):
        block = next(iter(module.body.block.ops)).body.block
        block.erase_op(block.last_op)

    monkeypatch.setattr(pipeline, "lay_out_shared_memory", forget_the_end)
    with pytest.raises(weft.InternalCompilerError, match="is invalid after forget_the_end"):
        weft.compile(fill, options="--verify")


def test_what_a_hook_changed_is_in_the_module_and_in_no_stage():
    def mark(module):
        module.attributes["mine.mark"] = StringAttr("here")

    fn = weft.compile(fill, post_compile_hooks=[mark])
    assert "mine.mark" in fn.ir_module
    assert not any("mine.mark" in text for text in fn.stages.values())


def test_names_and_texts_in_any_language_are_read_again():
    source = r"""
@weft.kernel
def größe(ä: weft.Tensor):
    weft.printf("größe 日本 \\ %d\n\"", 1)
    assert ä.shape[0] > 0, "日本\n"
    ä[0] = float("nan")

@weft.jit
def hôte(ä: weft.Tensor[weft.f32, ("nß",)], t: tuple[weft.i32, tuple[weft.i32, weft.i32]], ñ: weft.i32 = 3):
    t_1 = t[0] + t[1][1]
    größe(ä).launch(grid=ñ + t[1][0], block=t_1)
"""
    fn = weft.compile(define(source)["hôte"])
    assert str(pipeline.parse_module(fn.ir_module)) == fn.ir_module
    assert pipeline.parse_module(fn.ir_module.generic()).is_structurally_equivalent(
        pipeline.parse_module(fn.ir_module)
    )
    assert r'simt.printf "gr\C3\B6\C3\9Fe' in fn.stages["trace"]
