# SPDX-License-Identifier: Apache-2.0
"""Entries on disk: whole or absent, in folders that fail in every way, within the limit."""

import os
import warnings

import pytest

from weft.cache import store
from weft.cache.entry import MAGIC, decode, encode
from weft.config import override

KEY = "0" * 32
DATA = encode({"meta": b"{}", "host": bytes(range(256)) * 8})


@pytest.fixture
def folder(tmp_path):
    store._is_trusted.cache_clear()
    place = tmp_path / "cache"
    with override(cache_dir=str(place), no_cache=False):
        yield place


@pytest.mark.parametrize(
    "data",
    [
        b"",
        DATA[:7],
        DATA[:30],
        DATA[:-1],
        DATA + b"\0",
        b"\x7fELF" + DATA,
        MAGIC[:-1] + b"\0" + DATA[8:],  # an older version
        MAGIC[:-1] + b"\2" + DATA[8:],  # a newer one
        DATA[:100] + bytes([DATA[100] ^ 1]) + DATA[101:],
        DATA[:10] + bytes([DATA[10] ^ 1]) + DATA[11:],
    ],
    ids="empty magic head truncated longer foreign older newer flipped checksum".split(),
)
def test_a_damaged_entry_is_a_miss_and_is_removed(folder, data):
    assert store.write(KEY, "a-b.weft", DATA)
    file = folder / KEY / "a-b.weft"
    file.write_bytes(data)
    assert decode(data) is None
    assert store.read(*os.path.split(file)) is None
    assert not file.exists()
    assert store.write(KEY, "a-b.weft", DATA)
    assert store.read(*os.path.split(file)) == decode(DATA)


def _missing(place):
    pass


def _a_file(place):
    place.write_bytes(b"")


def _a_file_instead_of_a_key(place):
    place.mkdir(mode=0o700)
    (place / KEY).write_bytes(b"")


def _read_only(place):
    place.mkdir(mode=0o500)


@pytest.mark.parametrize("make", [_missing, _a_file, _a_file_instead_of_a_key, _read_only])
def test_a_folder_that_fails_holds_nothing(folder, make):
    make(folder)
    assert store.names(KEY) == []
    writable = make is _missing or (make is _read_only and os.geteuid() == 0)
    assert store.write(KEY, "a-b.weft", DATA) is writable
    assert len(store.names(KEY)) == int(writable)


@pytest.mark.parametrize("call", ["open", "replace", "makedirs"])
def test_a_full_or_vanishing_disk_leaves_nothing_half_written(folder, monkeypatch, call):
    def fail(*_arguments, **_keywords):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store.os, call, fail)
        assert not store.write(KEY, "a-b.weft", DATA)
    assert store.names(KEY) == []
    assert not [file for file in folder.rglob("*") if file.is_file()]


def test_a_world_writable_folder_is_refused_with_one_warning(folder):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="other users can write to: chmod go-w"):
        assert not store.write(KEY, "a-b.weft", DATA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.names(KEY) == []


def test_the_longest_unused_entries_go_first(folder):
    for number in range(4):
        assert store.write(KEY, f"a-{number}.weft", DATA)
        os.utime(folder / KEY / f"a-{number}.weft", (number, number))
    (folder / KEY / "killed.tmp").write_bytes(b"half")
    os.utime(folder / KEY / "killed.tmp", (0, 0))
    assert store.read(str(folder / KEY), "a-0.weft")  # now the last used
    assert store.sweep(str(folder), 2 * len(DATA)) == 2
    assert sorted(name for _, name in store.names(KEY)) == ["a-0.weft", "a-3.weft"]
    assert not (folder / KEY / "killed.tmp").exists()


@pytest.mark.parametrize("home", ["", "/nowhere/at/all"])
def test_without_a_home_directory_there_is_no_cache(monkeypatch, home):
    for name in ("WEFT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    assert store.user_folder() is None
    assert not store.write(KEY, "a-b.weft", DATA)
