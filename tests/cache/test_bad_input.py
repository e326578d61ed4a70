# SPDX-License-Identifier: Apache-2.0
"""Folders, entries and packs that are not what weft wrote: right results without a warning."""

import importlib.util
import os
import resource
import subprocess
import sys
import warnings
from array import array
from pathlib import Path

import pytest

import weft
from tests.cache.test_processes import environment
from weft.cache import store
from weft.cache.entry import MAGIC, decode, encode
from weft.compiler import cached
from weft.config import override

ROOT = Path(__file__).parents[2]
PROGRAM = """
import weft
SIZE = 1.0

@weft.kernel
def work(a: weft.Tensor):
    a[weft.thread_idx.x] += SIZE

@weft.jit
def run(a: weft.Tensor[weft.f32, ("n",)]):
    work(a).launch(grid=1, block=4)
"""
MAIN = """
import weft.cache
from benchmarks import first_result
first_result.main()
stats = weft.cache.stats()
print(stats.hits, stats.misses, stats.stored, *stats.not_kept)
"""
HIT, STORED = "1 0 0", "0 1 1"
NOT_WRITTEN = "0 1 0 the folder cannot be written"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "program_b.py"
    path.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("program_b", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["program_b"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["program_b"]


@pytest.fixture
def started(program, monkeypatch):
    """A function that compiles as a new process does, and says what the cache did: hits, misses, stored, why not."""

    def started(folder, size=1.0, **fields):
        for memory in (store._is_trusted, store._is_trusted_pack, store.stats):
            memory.cache_clear()
        monkeypatch.setattr(program, "SIZE", size)
        a = array("f", [1.0] * 4)
        places = {"cache_dir": str(folder)} if folder else {}
        with override(no_cache=False, **places, **fields), warnings.catch_warnings():
            warnings.simplefilter("error")
            weft.compile(program.run, a)(a)
        assert a.tolist() == [1.0 + size] * 4
        stats = store.stats()
        return " ".join(map(str, (stats.hits, stats.misses, stats.stored, *stats.not_kept)))

    yield started
    store.stats.cache_clear()


@pytest.fixture
def copied(started, tmp_path):
    """The only entry of a cache."""
    assert started(tmp_path / "cache") == STORED
    return next((tmp_path / "cache").rglob("*.weft"))


def _foreign(file):
    file.write_bytes(encode({"x": b""}))


def _other_content(file):
    file.write_bytes(encode({**decode(file.read_bytes()), "meta": b"[1, 2]"}))


def _half_of_the_facts(file):
    sections = decode(file.read_bytes())
    file.write_bytes(encode({**sections, "meta": sections["meta"][:100]}))


def _truncated(file):
    file.write_bytes(file.read_bytes()[:1000])


def _empty(file):
    file.write_bytes(b"")


def _older(file):
    file.write_bytes(MAGIC[:-1] + b"\0" + file.read_bytes()[len(MAGIC) :])


def _a_folder(file):
    file.unlink()
    file.mkdir()


def _dangling(file):
    file.unlink()
    file.symlink_to("/nowhere/at/all")


@pytest.mark.parametrize(
    "spoil",
    [
        *(_foreign, _other_content, _half_of_the_facts, _truncated, _empty, _older, _a_folder),
        _dangling,
    ],
)
def test_an_entry_that_weft_did_not_write_is_a_miss(started, copied, spoil):
    spoil(copied)
    folder = copied.parents[1]
    assert started(folder) == (NOT_WRITTEN if spoil is _a_folder else STORED)
    if spoil is not _a_folder:
        assert started(folder) == HIT


@pytest.mark.parametrize("name", ["a.weft", "-.weft", "é-\udce9.weft", "x" * 200 + ".weft"])
def test_files_of_other_names_are_left_alone(started, copied, name):
    other = copied.with_name(name)
    other.write_bytes(encode({"x": b""}))
    assert started(copied.parents[1]) == HIT
    assert other.exists()


def test_a_clock_that_jumps(started, copied):
    folder = copied.parents[1]
    for seconds in (0, 1 << 33):
        os.utime(copied, (seconds, seconds))
        assert started(folder) == HIT
        assert 1 << 30 < copied.stat().st_mtime < 1 << 32
    (left := copied.with_name("killed.tmp")).write_bytes(b"")
    os.utime(left, (1 << 33, 1 << 33))
    store.sweep(str(folder), 1 << 30)
    assert copied.exists() and not left.exists()


def test_without_home(started, tmp_path, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "WEFT_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert started("") == NOT_WRITTEN
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    assert started("") == NOT_WRITTEN
    assert not (tmp_path / "nowhere").exists()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (started(""), started("")) == (STORED, HIT)
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    assert started("") == HIT
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # not allowed by its specification
    assert started("") == NOT_WRITTEN


def test_a_working_directory_that_is_gone(started, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert started("relative") == NOT_WRITTEN


def _small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_full_disk(tmp_path):
    folder = tmp_path / "cache"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", MAIN],
        # Python would keep half a module's bytecode, for everyone after it.
        env={**environment(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        preexec_fn=_small_files,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", NOT_WRITTEN + "\n")
    assert folder.is_dir()
    assert [file for file in folder.rglob("*") if file.is_file()] == []


def test_two_versions_of_weft_share_a_folder(started, copied, monkeypatch):
    folder = copied.parents[1]
    with monkeypatch.context() as patched:
        patched.setattr(cached, "compiler_version", lambda: "another")
        assert (started(folder), started(folder)) == (STORED, HIT)
    assert started(folder) == HIT
    older = copied.with_name("a-b.weft")
    older.write_bytes(MAGIC[:-1] + b"\0" + b"what an older version wrote")
    (damaged := copied.with_name("c-d.weft")).write_bytes(b"half")
    assert store.remove_damaged(str(folder)) == (3, 1)
    assert older.exists() and not damaged.exists()


def test_a_pack_is_not_written_to(started, copied, tmp_path):
    pack, own = copied.parents[1], tmp_path / "own"
    copied.write_bytes(copied.read_bytes()[:-1])
    was = copied.stat()
    assert started(own, cache_pack=str(pack)) == STORED
    assert started(own, cache_pack=f"{pack}:/nowhere:{sys.executable}") == HIT
    now = copied.stat()
    assert (now.st_mtime_ns, now.st_size) == (was.st_mtime_ns, was.st_size)


def test_a_value_of_another_entry_than_the_packs_is_found(started, tmp_path):
    pack, own = tmp_path / "pack", tmp_path / "own"
    assert started(pack, 1.0) == STORED
    assert started(own, 2.0, cache_pack=str(pack)) == STORED
    assert started(own, 2.0, cache_pack=str(pack)) == HIT
    assert started(own, 1.0, cache_pack=str(pack)) == HIT


def test_a_world_writable_pack_is_refused_with_a_warning(tmp_path):
    store._is_trusted_pack.cache_clear()
    pack = tmp_path / "pack"
    (pack / "key").mkdir(parents=True)
    (pack / "key" / "a-b.weft").write_bytes(encode({"x": b""}))
    with override(cache_pack=str(pack), cache_dir=str(tmp_path / "own")):
        assert len(store.names("key")) == 1
        pack.chmod(0o777)
        store._is_trusted_pack.cache_clear()
        with pytest.warns(RuntimeWarning, match=r"all users can write to: chmod o-w"):
            assert store.names("key") == []
        assert store.names("key") == []
