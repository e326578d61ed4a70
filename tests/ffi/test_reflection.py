# SPDX-License-Identifier: Apache-2.0
"""Fields, methods and constructors that a library registered are attributes of its objects."""

from __future__ import annotations

import ctypes

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


def test_numbers_that_are_not_a_type_index_do_not_end_the_process(counter):
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


@pytest.mark.parametrize("index", [63, 14, 127, 100_000, -1, 2**31, 2**40, 2**40 + 71, -(2**70)])
def test_an_unregistered_index_is_refused(index):
    with pytest.raises(ValueError, match=rf"no FFI type has the index {index}$"):
        ffi.type_info(index)


def test_every_registered_type_has_a_description():
    keys = [str(key) for key in ffi.get_global("ffi.GetRegisteredTypeKeys")()]
    assert len(keys) > 20
    for key in keys:
        info = ffi.type_info(key)
        assert (info.key, ffi.type_info(info.index).key) == (key, key)


def test_an_object_is_created_by_its_type_s_key():
    with pytest.raises(TypeError, match="create_object: expected a type's key as str, received 63"):
        ffi.create_object(63)  # type: ignore[arg-type]


class RawObject(ctypes.Structure):
    _fields_ = (
        ("references", ctypes.c_uint64),
        ("type_index", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("deleter", ctypes.c_void_p),
    )


@pytest.mark.parametrize("index", [63, 127, 1_000_000])
def test_an_unregistered_types_object_is_harmless(library, index):
    raw = RawObject((1 << 32) | 1, index, 0, None)
    made = ffi.Object(ctypes.addressof(raw), borrowed=True)
    assert made.type_key == f"type {index}"
    assert f"type {index}" in repr(made)
    assert "release" in dir(made)
    assert not hasattr(made, "nothing")
    assert not made.is_instance("ffi.Object")
    for use in (library.add_one, ffi.Any, lambda value: ffi.Array([value]), library.describe):
        with pytest.raises(ValueError, match=f"no FFI type has the index {index}"):
            use(made)
    assert raw.references == (1 << 32) | 2  # the one of `made`
    del made, use  # before the memory


def test_a_value_of_an_unregistered_type_does_not_end_the_process(library):
    held = ffi.Any()
    ctypes.c_int32.from_address(held.address).value = 63
    assert held.type_key == "type 63"
    assert "type 63" in repr(held)
    view = held.view()
    for use in (
        lambda: library.add_one(held),
        lambda: library.add_one(view),
        lambda: ffi.Array([held]),
        view.to_any,
    ):
        with pytest.raises(ValueError, match="no FFI type has the index 63"):
            use()
    ctypes.c_int32.from_address(held.address).value = 0
