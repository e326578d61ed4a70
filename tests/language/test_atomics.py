# SPDX-License-Identifier: Apache-2.0
"""Atomics: element types, orders, scopes, indices and values of each."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.dialects.simt.atomics import LOAD_ORDERS, MEMORY_ORDERS, MEMORY_SCOPES, STORE_ORDERS
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import LANGUAGE, resolve
from weft.language.memory.atomics import ATOMIC_DTYPES
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined

INTEGERS = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}
FLOATS = {dtype.name for dtype in DTYPES if dtype.is_float}
EXPECTED = {
    **dict.fromkeys(("add", "sub", "max", "min"), INTEGERS | FLOATS),
    **dict.fromkeys(("and", "or", "xor"), INTEGERS | {"bool_"}),
    **dict.fromkeys(("load", "store", "exchange", "cas"), INTEGERS | FLOATS | {"bool_"}),
}
MODIFY = [kind for kind in EXPECTED if kind not in ("cas", "load", "store")]


def atomic(kind, trace, tensor, *arguments, **keywords):
    return resolve(f"atomic_{kind}").emit(trace.builder, tensor, *arguments, **keywords)


def values(kind):
    return {"cas": (1, 0), "load": ()}.get(kind, (1,))


def test_every_atomic_has_a_row():
    names = {name.removeprefix("atomic_") for name in LANGUAGE if name.startswith("atomic_")}
    assert names == set(ATOMIC_DTYPES) == set(EXPECTED)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", EXPECTED)
def test_an_atomic_takes_the_types_of_its_row(kind, dtype):
    trace = Trace()
    tensor = trace.tensor(dtype, name="count")
    if dtype.name in EXPECTED[kind]:
        old = atomic(kind, trace, tensor, 0, *values(kind))
        assert old is None if kind == "store" else old.dtype is dtype
        trace.verify()
        return
    with pytest.raises(TypeMismatchError) as caught:
        atomic(kind, trace, tensor, 0, *values(kind))
    assert caught.value.code == "ATOMIC_DTYPE"
    assert f"atomic_{kind}: count holds {dtype}; expected one of" in caught.value.message


@pytest.mark.parametrize("order", MEMORY_ORDERS)
@pytest.mark.parametrize("scope", MEMORY_SCOPES)
@pytest.mark.parametrize("kind", ["add", "cas", "load", "store"])
def test_order_and_scope_reach_the_operation(kind, order, scope):
    trace = Trace()
    if order not in {"load": LOAD_ORDERS, "store": STORE_ORDERS}.get(kind, MEMORY_ORDERS):
        with pytest.raises(
            ValueRangeError, match=f"atomic_{kind}: order is the str '{order}'; expected"
        ):
            atomic(kind, trace, trace.tensor(types.i32), 0, *values(kind), order=order)
        return
    atomic(kind, trace, trace.tensor(types.i32), 0, *values(kind), order=order, scope=scope)
    assert f'"{order}" "{scope}"' in trace.verify()


def test_relaxed_for_the_device_is_the_default():
    trace = Trace()
    atomic("add", trace, trace.tensor(types.i32), 0, 1)
    assert '"add" "relaxed" "device"' in trace.verify()


@pytest.mark.parametrize(
    ("keywords", "code", "text"),
    [
        ({"order": "strong"}, "ATOMIC_ORDER", "expected one of relaxed, acquire, release"),
        ({"scope": "gpu"}, "ATOMIC_SCOPE", "expected one of block, device, system"),
        ({"order": 3}, "ATOMIC_ORDER", "order is the constant 3"),
    ],
)
def test_an_unknown_order_or_scope_lists_those_there_are(keywords, code, text):
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        atomic("add", trace, trace.tensor(types.i32), 0, 1, **keywords)
    assert caught.value.code == code
    assert text in caught.value.message


@pytest.mark.parametrize(("dtype", "kind"), [(types.u32, "umax"), (types.i32, "max")], ids=str)
def test_maximum_compares_by_the_sign_of_the_elements(dtype, kind):
    trace = Trace()
    atomic("max", trace, trace.tensor(dtype), 0, 1)
    assert f'simt.atomic_rmw "{kind}"' in trace.verify()


def test_floats_are_subtracted_by_adding_the_negated_value():
    trace = Trace()
    atomic("sub", trace, trace.tensor(types.f32), 0, trace.scalar(types.f32))
    assert trace.names == ["arith.negf", "simt.atomic_rmw"]
    assert '"add"' in trace.verify()


def test_indices_are_those_of_a_load():
    trace = Trace()
    tensor = trace.tensor(types.i32, (-1, 4))
    atomic("add", trace, tensor, (trace.scalar(types.u8), 3), 1)
    with pytest.raises(ValueRangeError, match="index 1 of a is 4"):
        atomic("add", trace, tensor, (0, 4), 1)
    with pytest.raises(TypeMismatchError, match="a has rank 2"):
        atomic("add", trace, tensor, 0, 1)
    atomic("add", trace, trace.tensor(types.i32, ()), (), 1)
    trace.verify()


def test_a_value_converts_only_where_nothing_is_lost():
    trace = Trace()
    tensor = trace.tensor(types.i32, name="count")
    atomic("add", trace, tensor, 0, trace.scalar(types.bool_))
    with pytest.raises(TypeMismatchError) as caught:
        atomic("add", trace, tensor, 0, trace.scalar(types.i64))
    assert caught.value.code == "TYPE_NARROWING"
    assert caught.value.message.startswith("atomic_add: count holds i32: ")
    with pytest.raises(ValueRangeError, match="atomic_add: count holds i32: the constant"):
        atomic("add", trace, tensor, 0, 1 << 31)


def test_an_element_instead_of_a_tensor_shows_how_to_call():
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        atomic("add", trace, trace.scalar(types.i32), 0, 1)
    assert caught.value.code == "ATOMIC_TENSOR"
    assert caught.value.hint.startswith("write atomic_add(tensor, index, ...)")


def test_a_threads_own_memory_needs_no_atomics():
    trace = Trace()
    array = resolve("local").emit(trace.builder, 4, types.i32)
    with pytest.raises(TypeMismatchError) as caught:
        atomic("add", trace, array, 0, 1)
    assert caught.value.code == "ATOMIC_SPACE"


@pytest.mark.parametrize("kind", EXPECTED)
def test_host_functions_have_no_atomics(kind):
    assert not resolve(f"atomic_{kind}").on_host
