# SPDX-License-Identifier: Apache-2.0
"""Results on disk: found by source, types, key and device; shipped; damaged files are errors with their place."""

from __future__ import annotations

import json

import pytest

import weft
from tests.autotune.kernels import plain_scale, scale_kernel, tuned, vectors
from weft.autotuner import tuned as tuned_module
from weft.autotuner.space import source_digest, without_comments
from weft.config import override


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_NO_CACHE", "0")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "autotune"


def kept(folder):
    return sorted(folder.glob("*.json"))


def never(*_):
    raise AssertionError("it measured")


def test_a_result_is_found_by_an_equal_function(folder, monkeypatch):
    first = tuned().tune(**vectors(10))
    monkeypatch.setattr(tuned_module.Tuned, "_measured", never)
    again = tuned()
    with override(autotune="cached"):
        assert again.best(**vectors(10)) == first.best
    assert again.results == [
        first._replace(trials=again.results[0].trials, seconds=again.results[0].seconds)
    ]
    assert again.results[0].trials[0].median == pytest.approx(first.trials[0].median, rel=1e-3)
    with pytest.raises(AssertionError):
        again(**vectors(20))
    (path,) = kept(folder)
    document = json.loads(path.read_text())
    assert document["function"] == "tests.autotune.kernels.plain_scale"
    entry = document["entries"][0]
    assert (entry["key"], entry["best"]) == ({"n": 10}, dict(first.best))
    assert entry["signature"] == (
        "plain_scale(a: Tensor[f32, (n,), alignment_bytes=16], "
        "out: Tensor[f32, (n,), alignment_bytes=16])"
    )


@pytest.mark.parametrize("other", [{"space": {"threads": [32], "items": [1]}}, {"key": ()}])
def test_another_space_or_key_is_another_result(folder, other):
    tuned().tune(**vectors(10))
    tuned(**other)(**vectors(10))
    assert len(kept(folder)) == 2


def test_another_device_is_another_result(folder, monkeypatch):
    tuned().tune(**vectors(10))
    monkeypatch.setattr(tuned_module, "describe_device", lambda *_: "another")
    tuned()(**vectors(10))
    assert len(kept(folder)) == 2


def test_a_shipped_file_is_read_first_and_only_then_the_users(folder, tmp_path):
    shipped = tmp_path / "package" / "results.json"
    first = tuned(file=shipped)
    for n in (10, 20):
        first(**vectors(n))
    assert first.save() == shipped
    assert len(json.loads(shipped.read_text())["entries"]) == 2
    for path in kept(folder):
        path.unlink()
    with override(autotune="cached"):
        second = tuned(file=shipped)
        assert second.best(**vectors(20)) == first.best(**vectors(20))
        assert len(second.results) == 1
    assert kept(folder) == []


def test_saving_needs_a_path():
    with pytest.raises(weft.UnavailableError, match="AUTOTUNE_NO_FILE"):
        tuned().save()


def changed(**values):
    def change(document):
        document["entries"][0].update(values)

    return change


def trial(**values):
    return lambda document: document["entries"][0]["trials"][0].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.pop("format"), "has the format None"),
        (lambda document: document.update(format="weft autotune 99"), "weft autotune 99"),
        (lambda document: document.update(entries={}), "has {} at entries, expected a list"),
        (lambda document: document.update(entries=[3]), "has 3 at entries[0]"),
        (changed(best=3), "has 3 at entries[0].best, expected an object"),
        (changed(trials=[]), "has no entries[0].trials"),
        (changed(refused=True), "has True at entries[0].refused"),
        (trial(state="won"), "entries[0].trials[0].state 'won', expected one of measured"),
        (trial(microseconds="fast"), "has 'fast' at entries[0].trials[0].microseconds"),
        (trial(microseconds=float("nan")), "trials[0].microseconds nan"),
    ],
)
def test_a_damaged_file_is_an_error_with_its_place(tmp_path, change, message):
    path = tmp_path / "results.json"
    scale = tuned(file=path)
    scale(**vectors(10))
    document = json.loads(scale.save().read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(weft.TuningError) as caught:
        tuned(file=path)(**vectors(10))
    assert caught.value.code == "AUTOTUNE_FILE"
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff\xfe\x00", b"[" * 100_000])
def test_other_texts_than_json_are_an_error(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_bytes(text)
    with pytest.raises(weft.TuningError, match="AUTOTUNE_FILE"):
        tuned(file=path)(**vectors(10))


def test_a_configuration_that_the_space_does_not_have_is_not_taken(tmp_path):
    path = tmp_path / "results.json"
    scale = tuned(file=path)
    scale(**vectors(10))
    document = json.loads(scale.save().read_text())
    document["entries"][0]["best"] = {"threads": 1 << 20, "items": 1}
    path.write_text(json.dumps(document))
    assert tuned(file=path).best(**vectors(10)) in scale.space


def test_a_damaged_file_of_the_users_own_is_a_warning_and_replaced(folder):
    tuned()(**vectors(10))
    (path,) = kept(folder)
    path.write_text("{")
    with pytest.warns(UserWarning, match="is not JSON"):
        tuned()(**vectors(10))
    json.loads(path.read_text())


def test_without_the_cache_nothing_is_kept(folder, monkeypatch):
    monkeypatch.setenv("WEFT_NO_CACHE", "1")
    tuned()(**vectors(10))
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_a_warning(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("a file")
    with pytest.warns(UserWarning, match="cannot keep"):
        tuned().tune(**vectors(10))


PROGRAM = """
import weft
SIZE = {size}
def helper(x):
    {comment}
    return x * {factor}
@weft.kernel
def kernel(a: weft.Tensor):
    a[0] = helper(SIZE)
@weft.autotune(space={{"threads": {threads}}})
@weft.jit
def host(a: weft.Tensor, threads):

    kernel(a).launch(grid=1, block=threads)
"""


def digest(tmp_path, **values):
    import linecache

    text = PROGRAM.format(**{"size": 3, "factor": 2, "comment": "", "threads": "[32]", **values})
    path = str(tmp_path / f"{abs(hash(text))}.py")
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    names = {"__name__": "program"}
    exec(compile(text, path, "exec"), names)
    return source_digest(names["host"].function)


def test_the_source_is_all_that_the_function_reaches(tmp_path):
    first = digest(tmp_path)
    assert digest(tmp_path, comment="# a note") == first
    assert digest(tmp_path, threads="[64]") == first
    assert digest(tmp_path, size=4) != first
    assert digest(tmp_path, factor=3) != first


def test_a_hash_in_a_text_is_not_a_comment():
    assert without_comments('def f():\n    return "#"  # x\n') == 'def f():\n    return "#"'


def test_bounds_of_a_kernel_count():
    before = source_digest(plain_scale)
    scale_kernel.max_registers = 64
    try:
        assert source_digest(plain_scale) != before
    finally:
        scale_kernel.max_registers = None
