# SPDX-License-Identifier: Apache-2.0
"""Objects become callable, stay loaded as long as they are held, and say what they miss."""

from __future__ import annotations

import ctypes

import pytest

from weft.backends.host import host_machine
from weft.codegen.llvm.optimize import emit_object, load_with_lljit, parse
from weft.errors import InternalCompilerError
from weft.runtime.code_image import link_object

pytestmark = pytest.mark.parametrize("load_object", [link_object, load_with_lljit])

TEXT = """
declare double @cos(double)
define i32 @answer() { ret i32 42 }
define double @cosine(double %x) {
  %y = call double @cos(double %x)
  ret double %y
}
"""


def compiled(text: str) -> bytes:
    machine = host_machine()
    triple = f'target triple = "{machine.target.triple}"\n'
    return emit_object(parse(triple + text, "test"), machine.machine)


def test_symbols_are_callable_and_libm_is_found(load_object):
    loaded = load_object(compiled(TEXT), ["answer", "cosine"])
    assert ctypes.CFUNCTYPE(ctypes.c_int)(loaded.addresses["answer"])() == 42
    cosine = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.addresses["cosine"])
    assert cosine(0.0) == 1.0


def test_the_same_symbol_can_be_loaded_many_times(load_object):
    data = compiled(TEXT)
    loaded = [load_object(data, ["answer"]) for _ in range(20)]
    assert len({one.addresses["answer"] for one in loaded}) == 20
    for one in loaded:
        one.close()
    assert loaded[0].addresses == {}


def test_a_missing_symbol_is_an_error(load_object):
    with pytest.raises(InternalCompilerError, match="OBJECT_LOADING"):
        load_object(compiled(TEXT), ["nothing"])


def test_an_object_that_needs_more_than_libc_and_libm_is_an_error(load_object, capfd):
    text = "declare void @no_such_function()\ndefine void @f() {\n call void @no_such_function()\n ret void\n}"
    with pytest.raises(InternalCompilerError, match="OBJECT_LOADING"):
        load_object(compiled(text), ["f"])
