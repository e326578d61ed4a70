# SPDX-License-Identifier: Apache-2.0
"""What makes weft another weft: each file of a checkout, read again only after a change."""

import os

import pytest

from weft.cache import store, versions
from weft.config import override


@pytest.fixture
def package(tmp_path):
    store._is_trusted.cache_clear()
    for place, text in (("a.py", "x = 1\n"), ("inner/b.py", "y = 2\n"), ("inner/c.txt", "z")):
        path = tmp_path / "package" / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "cache").mkdir(mode=0o700)
    with override(cache_dir=str(tmp_path / "cache"), no_cache=False):
        yield tmp_path / "package"


def unread(path):
    raise AssertionError(f"{path} was read")


def test_files_are_read_again_only_after_a_change(package, monkeypatch):
    monkeypatch.setattr(versions, "_STEP_NS", -(10**18))
    first = versions._sources(str(package))
    with monkeypatch.context() as patched:
        patched.setattr(versions, "_content", unread)
        assert versions._sources(str(package)) == first
    file = package / "inner" / "b.py"
    was = file.stat()
    file.write_text("y = 3\n")  # as long as it was, and of the same time
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert versions._sources(str(package)) not in (first, None)
    file.write_text("y = 2\n")
    assert versions._sources(str(package)) == first
    file.rename(package / "inner" / "d.py")
    assert versions._sources(str(package)) != first


def test_files_that_were_just_changed_are_read_again(package, monkeypatch):
    first = versions._sources(str(package))
    (package / "a.py").write_text("x = 2\n")
    assert versions._sources(str(package)) != first
    monkeypatch.setattr(versions, "_content", unread)
    with pytest.raises(AssertionError, match=r"was read"):
        versions._sources(str(package))


def test_a_damaged_note_is_replaced(package, monkeypatch):
    monkeypatch.setattr(versions, "_STEP_NS", -(10**18))
    first = versions._sources(str(package))
    (note,) = (package.parent / "cache").iterdir()
    note.write_bytes(note.read_bytes()[:-1])
    assert versions._sources(str(package)) == first
    monkeypatch.setattr(versions, "_content", unread)
    assert versions._sources(str(package)) == first
