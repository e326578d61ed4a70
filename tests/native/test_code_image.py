# SPDX-License-Identifier: Apache-2.0
"""Who keeps linked code alive, and what a code image answers."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref

import pytest

from weft import _native
from weft.ffi.library import find_ffi_library


class Loaded:
    """Stands in for code in memory."""


STATE_BYTES = 32


def image_of(loaded: object, slot: ctypes.c_uint64, **more) -> _native.CodeImage:
    symbols = {"weft_state": ctypes.addressof(slot), "__tvm_ffi_f": 0x1000}
    return _native.CodeImage("f", symbols, loaded, 1, **more)


def words(address: int) -> tuple[int, ...]:
    return tuple((ctypes.c_uint64 * (STATE_BYTES // 8)).from_address(address))


def test_an_image_fills_its_objects_state():
    slot = ctypes.c_uint64(0)
    image = image_of(Loaded(), slot, kernels=("a kernel",))
    assert slot.value == image.state
    table, native_image, driver_state, policy = words(image.state)
    assert table != 0
    assert native_image != 0
    assert driver_state == 0
    assert policy == 1 << 32 | 0xFFFFFFFF  # not bound to a device; policy 1
    assert (image.name, image.kernels, image.bound_device) == ("f", ("a kernel",), None)
    assert image.load_policy == 1


def test_lookup_lists_what_there_is():
    slot = ctypes.c_uint64(0)
    image = image_of(Loaded(), slot)
    assert image.lookup("__tvm_ffi_f") == 0x1000
    with pytest.raises(KeyError, match="no symbol 'g'; the image exports weft_state, __tvm_ffi_f"):
        image.lookup("g")


def test_the_last_reference_drops_the_code_and_clears_the_state():
    slot, loaded = ctypes.c_uint64(0), Loaded()
    seen = weakref.ref(loaded)
    image = image_of(loaded, slot)
    bound = image.bind(3)
    del loaded, image
    gc.collect()
    assert seen() is not None
    assert slot.value != 0
    del bound
    assert seen() is None
    assert slot.value == 0


def test_another_state_over_the_same_code():
    slot = ctypes.c_uint64(0)
    image = image_of(Loaded(), slot)
    bound = image.bind(3)
    assert (bound.bound_device, image.bound_device) == (3, None)
    assert bound.state != image.state == slot.value
    assert words(bound.state)[:3] == words(image.state)[:3]
    assert bound.lookup("__tvm_ffi_f") == 0x1000
    for device in (-2, 1 << 20):
        with pytest.raises(ValueError, match="expected an ordinal"):
            image.bind(device)


def test_what_no_image_can_be():
    with pytest.raises(ValueError, match="load_policy is 7, expected 0, 1 or 2"):
        _native.CodeImage("f", {}, None, 7)
    with pytest.raises(TypeError):
        _native.CodeImage("f", {}, None, 1, program=3)
    with pytest.raises(TypeError):
        _native.CodeImage("f", {"weft_state": "x"}, None, 1)


def test_a_function_keeps_its_image():
    slot, loaded = ctypes.c_uint64(0), Loaded()
    seen = weakref.ref(loaded)
    image = image_of(loaded, slot)
    function = _native.Function.from_address(0x1000, image.state, image)
    del loaded, image
    gc.collect()
    assert seen() is not None
    del function
    assert seen() is None


def test_a_foreign_reference_drops_the_image_without_the_gil():
    slot, loaded = ctypes.c_uint64(0), Loaded()
    seen = weakref.ref(loaded)
    image = image_of(loaded, slot)
    function = _native.Function.from_address(0x1000, image.state, image)
    handle = function.to_object()
    del loaded, image, function
    gc.collect()
    assert seen() is not None
    # ctypes releases the GIL around the call, and this thread is not a Python thread's first.
    release = ctypes.CDLL(find_ffi_library()).TVMFFIObjectDecRef
    thread = threading.Thread(target=release, args=(ctypes.c_void_p(handle),))
    thread.start()
    thread.join()
    for _ in range(100):
        if seen() is None:
            break
    assert seen() is None
    assert slot.value == 0


def test_images_make_no_cycle_that_leaks():
    slot = ctypes.c_uint64(0)

    class Kernel:
        image: object = None

    kernel = Kernel()
    image = image_of(Loaded(), slot, kernels=(kernel,))
    kernel.image = image
    seen = weakref.ref(image)
    del image, kernel
    gc.collect()
    assert seen() is None
