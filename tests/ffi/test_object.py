# SPDX-License-Identifier: Apache-2.0
"""A wrapper owns one reference; whose it was must be said; an empty one says so."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref

import pytest

import weft.ffi
from weft import _native, ffi


def test_borrowed_has_no_default():
    array = ffi.Array([1])
    with pytest.raises(TypeError, match="borrowed"):
        ffi.Object(array.address)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ffi.Object(array.address, True)  # type: ignore[misc]


def test_a_borrowed_handle_is_given_a_reference_of_its_own():
    array = ffi.Array([1])
    other = ffi.Object(array.address, borrowed=True)
    assert array.reference_count == 2
    del other
    assert array.reference_count == 1


def test_an_owned_handle_gives_up_the_reference_it_was_given():
    array = ffi.Array([1])
    extra = ffi.Object(array.address, borrowed=True)
    taken = ffi.Object(extra.release(), borrowed=False)
    assert array.reference_count == 2
    del taken
    assert array.reference_count == 1


def test_a_released_object_is_empty(library):
    array = ffi.Array([1])
    other = ffi.Object(array.address, borrowed=True)
    address = other.release()
    assert other.is_moved
    for use in (
        other.release,
        lambda: other.address,
        lambda: other.type_key,
        lambda: other.reference_count,
        lambda: other.is_instance("ffi.Array"),
        lambda: library.echo(other),
    ):
        with pytest.raises(ValueError, match="has been moved from and holds no object"):
            use()
    assert "moved from" in repr(other)
    ffi.Object(address, borrowed=False)
    assert array.reference_count == 1


@pytest.mark.parametrize("handle", [0, "1", None, 1.5])
def test_a_non_address_is_refused(handle):
    with pytest.raises((TypeError, ValueError)):
        ffi.Object(handle, borrowed=True)


def test_a_tensor_is_not_made_of_another_object():
    array = ffi.Array([1])
    with pytest.raises(
        TypeError, match=r"Tensor: expected a handle of its type, received one of type ffi.Array"
    ):
        ffi.Tensor(array.address, borrowed=False)
    assert array.reference_count == 1  # the reference is still the caller's


def test_wrappers_of_one_object_are_equal():
    array = ffi.Array([1])
    first = ffi.Object(array.address, borrowed=True)
    second = ffi.Object(array.address, borrowed=True)
    third = ffi.Object(ffi.Dict().release(), borrowed=False)
    assert first == second
    assert hash(first) == hash(second)
    assert first.same_as(second)
    assert first != third
    assert not first.same_as("array")


def test_objects_are_not_copied_or_pickled():
    for refuse in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            refuse(ffi.List([1]))


def test_the_class_of_a_type_is_used_for_results(library):
    assert type(library.make_counter(1, "plain")) is ffi.Object

    @ffi.register_object("weft_test.Counter")
    class Counter(ffi.Object):
        __slots__ = ()

        def doubled(self):
            return 2 * self.count

    counter = library.make_counter(21, "registered")
    assert type(counter) is Counter
    assert counter.doubled() == 42
    assert type(library.make_named_counter(1)) is Counter  # derives from it
    made = Counter(4, "made in Python")
    assert (type(made), made.count, made.name) == (Counter, 4, "made in Python")
    assert type(Counter(made.address, borrowed=True)) is Counter


def test_a_class_of_an_unknown_or_standard_type_is_refused():
    with pytest.raises(ValueError, match=r"no FFI type is registered as 'no\.Such'"):
        ffi.register_object("no.Such")(ffi.Object)
    with pytest.raises(ValueError, match="is a standard type"):
        ffi.register_object("ffi.Array")(ffi.Object)
    with pytest.raises(TypeError, match="subclass"):
        _native.set_object_class(1000, int)


def test_an_object_dies_with_its_last_wrapper_on_whatever_thread(library):
    gc.collect()
    before = library.counters_alive()
    counter = library.make_counter(1, "x")
    assert library.counters_alive() == before + 1
    reference = weakref.ref(counter)
    holder = [counter]
    del counter
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    assert reference() is None
    assert library.counters_alive() == before


def test_every_name_of_the_room_is_there_and_nothing_else():
    for name in weft.ffi.__all__:
        assert getattr(weft.ffi, name) is not None
    shown = set(dir(weft.ffi))
    assert set(weft.ffi.__all__) <= shown
    assert not shown & {"annotations", "_PUBLIC", "_MODULE_OF"}
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = weft.ffi.Nothing


def test_a_moved_object_is_the_callee_s(library):
    array = ffi.Array([1, 2])
    assert library.take_array(array.move()) is True
    assert array.is_moved
    with pytest.raises(ValueError, match="has been moved from"):
        array.move()


def test_a_moved_object_not_taken_stays(library):
    array = ffi.Array([1, 2])
    assert library.has_no_cpp_call(lambda: None)
    with pytest.raises((TypeError, ValueError)):
        library.echo(array.move(), memoryview(b"ab").cast("c"))
    assert not array.is_moved
    assert (array.reference_count, list(array)) == (1, [1, 2])
    with pytest.raises(TypeError, match="valid for one call only"):
        ffi.Any(array.move())
    assert not array.is_moved


def test_only_an_object_can_be_moved():
    with pytest.raises(TypeError, match="expected an FFI object"):
        _native.Moved("text")  # type: ignore[arg-type]
