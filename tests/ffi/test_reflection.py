# SPDX-License-Identifier: Apache-2.0
"""Fields, methods and constructors that a library registered are attributes of its objects."""

from __future__ import annotations

import pytest

from weft import ffi


@pytest.fixture
def counter(library):
    return library.make_counter(5, "a counter")


def test_fields_are_read_and_written(counter):
    assert (counter.count, counter.name) == (5, "a counter")
    counter.count = 7
    assert counter.count == 7
    with pytest.raises(AttributeError, match="'name' is read-only"):
        counter.name = "other"
    with pytest.raises((TypeError, ValueError)):
        counter.count = "text"
    assert counter.count == 7


def test_methods_are_called(counter):
    assert counter.add(3) == 8
    assert counter.count == 8
    bound = counter.add
    assert bound(1) == 9
    assert counter.zero().count == 0  # static
    with pytest.raises(AttributeError, match="is a method"):
        counter.add = 1


def test_what_there_is_not_is_an_attribute_error(counter):
    with pytest.raises(AttributeError, match=r"'weft_test\.Counter' has no attribute 'nothing'"):
        _ = counter.nothing
    with pytest.raises(AttributeError):
        counter.nothing = 1
    assert {"count", "name", "add", "type_key"} <= set(dir(counter))
    assert not hasattr(counter, "__array__")


def test_a_derived_type_has_the_members_of_its_ancestors(library):
    named = library.make_named_counter(2)
    assert (named.count, named.add(1)) == (2, 3)
    assert named.is_instance("weft_test.Counter")
    assert named.is_instance("ffi.Object")
    assert not named.is_instance("ffi.Array")
    assert not named.is_instance("no.such.type")


def test_a_type_tells_what_it_has(library, counter):
    info = ffi.type_info("weft_test.Counter")
    assert info.key == "weft_test.Counter"
    assert info.index == counter.type_index == ffi.type_info(counter).index
    assert [field.name for field in info.fields] == ["count", "name"]
    count, name = info.fields
    assert (count.is_writable, name.is_writable, count.doc) == (True, False, "how often")
    methods = {method.name: method for method in info.methods}
    assert not methods["add"].is_static
    assert methods["zero"].is_static
    assert methods["add"].function()(counter, 1) == 6
    assert info.ancestors == (ffi.TypeIndex.OBJECT,)
    with pytest.raises(KeyError, match="no FFI type is registered"):
        ffi.type_info("no.such.type")


def test_objects_are_constructed(library):
    made = ffi.create_object("weft_test.Counter", 3, "made")
    assert (made.count, made.name) == (3, "made")
    with pytest.raises(TypeError):
        ffi.create_object("weft_test.Counter", "three")
    with pytest.raises(TypeError, match="has no constructor"):
        ffi.create_object("ffi.Function")


def test_numbers_that_are_no_type_index_do_not_end_the_process(counter):
    from weft import _native

    with pytest.raises(ValueError, match="no FFI type"):
        _native.type_info(-5)
    with pytest.raises(TypeError, match="has no field 9"):
        _native.get_field(counter, counter.type_index, 9)
    with pytest.raises(TypeError, match="has no field 0"):
        _native.get_field(ffi.Array([1]), counter.type_index, 0)
    with pytest.raises(TypeError, match="expected an FFI object"):
        _native.get_field(3, 64, 0)
    with pytest.raises(IndexError, match="methods, received number 99"):
        _native.get_method(counter.type_index, 99)
