# SPDX-License-Identifier: Apache-2.0
"""Libraries are loaded, asked for functions, and kept."""

from __future__ import annotations

import gc
import shutil

import pytest

from tests.ffi.building import build
from weft import ffi


def test_functions_are_attributes_and_items(library):
    assert library.join(["a"], "") == "a"
    assert library["join"](["b"], "") == "b"
    assert library.get_function("join")(["c"], "") == "c"
    assert library.has_function("join")
    assert not library.has_function("no_such_function")


def test_a_function_that_is_not_there_is_named(library):
    with pytest.raises(AttributeError, match="has no function 'no_such_function'"):
        _ = library.no_such_function
    with pytest.raises(KeyError, match="has no function 'no_such_function'"):
        library["no_such_function"]


def test_a_module_shows_its_kind(library):
    assert library.kind == "library"
    assert library.imports == ()
    assert repr(library) == "<weft.ffi.Module of kind 'library'>"
    assert library.function_doc("join") == ""
    assert library.function_metadata("no_such_function") == {}
    assert isinstance(library.write_formats, tuple)


def test_imported_modules_are_searched_where_that_is_wanted(tmp_path):
    importer = ffi.load_module(shutil.copy(build("plain.cpp"), tmp_path / "importer.so"))
    importer.import_module(ffi.load_module(build("library.cpp")))
    assert [module.kind for module in importer.imports] == ["library"]
    assert not importer.has_function("join")
    assert importer.has_function("join", imports=True)
    assert importer.get_function("join", imports=True)(["x"], "") == "x"
    importer.clear_imports()
    assert importer.imports == ()


def test_a_library_that_is_not_there_is_a_file_not_found():
    with pytest.raises(FileNotFoundError, match=r"no library '/no/such/library\.so'"):
        ffi.load_module("/no/such/library.so")


def test_a_file_that_is_not_a_library_is_refused(tmp_path):
    path = tmp_path / "not_a_library.so"
    path.write_text("text")
    with pytest.raises(RuntimeError, match=r"not_a_library\.so"):
        ffi.load_module(path)


def mapped(path) -> bool:
    with open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123
        return str(path) in maps.read()


def test_a_library_is_kept_for_the_life_of_the_process(tmp_path):
    path = shutil.copy(build("plain.cpp"), tmp_path / "kept.so")
    ffi.load_module(path)
    gc.collect()
    assert mapped(path)


def test_a_library_that_is_not_kept_goes_with_its_last_function(tmp_path):
    # Its object types would stay registered, so this one has functions only.
    path = shutil.copy(build("plain.cpp"), tmp_path / "plain.so")
    module = ffi.load_module(path, keep_loaded=False)
    function = module.answer
    del module
    gc.collect()
    assert mapped(path)
    assert function() == 42
    del function
    gc.collect()
    assert not mapped(path)
