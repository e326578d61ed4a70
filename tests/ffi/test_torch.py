# SPDX-License-Identifier: Apache-2.0
"""torch tensors through the binding: shared both ways, kept, retransposed, and refused where they would be misread.

In: tensors of every kind, by every rung of the ladder. Out: what C++ sees, and what comes back.
"""

from __future__ import annotations

import gc
import itertools
import sys

import numpy as np
import pytest

import weft
from tests.native.test_torch_reader import ALL, DLPACK, EXCHANGE, REFUSED, SHIM
from tests.sampling import sampled
from weft import _native, ffi

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

NARROW = {
    name: (lambda name=name: torch.empty(4, dtype=getattr(torch, name)), f"torch.{name}")
    for name in ("int1", "int4", "int7", "uint1", "uint4", "bits8")
}


def freed():
    tensor = torch.zeros(4)
    tensor.untyped_storage().resize_(0)
    return tensor


UNREADABLE = {**REFUSED, **NARROW, "freed": (freed, "storage is empty|no data")}


@pytest.fixture(params=[SHIM, EXCHANGE, DLPACK], ids=["shim", "exchange", "dlpack"])
def rung(request):
    """One way of reading torch's tensors; NumPy's stay readable."""
    _native.set_reader_rungs(request.param)
    yield request.param
    _native.set_reader_rungs(ALL)


# Where a tensor can be in what is passed: how it is wrapped, and where messages say it is.
PLACES = {
    "argument": (lambda tensor: tensor, "argument #0: "),
    "tuple": (lambda tensor: (1, tensor), r"argument #0\[1\]: "),
    "list in a tuple": (lambda tensor: ("x", [1, tensor]), r"argument #0\[1\]\[1\]: "),
    "dict": (lambda tensor: {"key": tensor}, r"argument #0\['key'\]: "),
}


@pytest.mark.parametrize(
    ("kind", "place"), sampled(itertools.product(UNREADABLE, PLACES), 3, several=True)
)
def test_what_would_be_misread_is_refused_wherever_it_is(library, rung, kind, place):
    make, message = UNREADABLE[kind]
    wrap, where = PLACES[place]
    value = wrap(make())
    with pytest.raises((TypeError, ValueError), match=rf"^echo: {where}.*({message})"):
        library.echo(value)


MAKERS = {
    "from_dlpack": ffi.from_dlpack,
    "to_dlpack": ffi.to_dlpack,
    "TensorView": ffi.TensorView,
    "Any": ffi.Any,
    "Array": lambda tensor: ffi.Array([tensor]),
    "Map": lambda tensor: ffi.Map({"key": tensor}),
    "List.append": lambda tensor: ffi.List().append(tensor),
    "a callback's result": lambda tensor: ffi.wrap_function(lambda: tensor)(),
}


@pytest.mark.joined
@pytest.mark.parametrize(("kind", "maker"), [*itertools.product(UNREADABLE, MAKERS)])
def test_nothing_is_made_of_what_would_be_misread(rung, kind, maker):
    make, message = UNREADABLE[kind]
    tensor = make()
    with pytest.raises((TypeError, ValueError), match=rf"({message})"):
        MAKERS[maker](tensor)


def test_tensors_inside_a_transform_are_refused_in_containers(library, rung):
    def inside(tensor):
        with pytest.raises(TypeError, match=r"argument #0\[0\]: .*inside a transform"):
            library.echo([tensor])
        return tensor.sum()

    torch.func.vmap(inside)(torch.zeros(2, 3))
    torch.func.grad(inside)(torch.zeros(3))


DTYPES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn_x2",
]


@pytest.mark.joined
@pytest.mark.parametrize("name", DTYPES)
def test_every_type_is_shared_both_ways(library, rung, name):
    dtype = getattr(torch, name)
    tensor = torch.empty(2, 3, dtype=dtype)
    kept = ffi.from_dlpack(tensor)
    assert (kept.shape, kept.dtype) == ((2, 3), ffi.DataType(dtype))
    back = ffi.to_array(kept, torch.Tensor)
    assert (back.dtype, back.data_ptr(), back.shape) == (dtype, tensor.data_ptr(), (2, 3))
    assert library.echo(tensor) is tensor
    assert library.echo((tensor, 1))[0] is tensor


def layouts():
    base = torch.arange(120.0).reshape(4, 5, 6)
    yield from (base, base[::2, 1:, 3:], base.permute(2, 0, 1), torch.tensor(3.0))
    yield from (torch.zeros(3, 0, 2), torch.zeros(3, 1).expand(3, 4), torch.zeros((1,) * 10 + (2,)))


@pytest.mark.parametrize("tensor", list(layouts()), ids=lambda tensor: str(tuple(tensor.shape)))
def test_every_layout_is_shared_both_ways(rung, tensor):
    kept = ffi.from_dlpack(tensor)
    for back in (torch.from_dlpack(kept), ffi.to_array(kept, torch.Tensor)):
        assert back.shape == tensor.shape
        assert back.numel() == 0 or back.data_ptr() == tensor.data_ptr()
        assert torch.equal(back, tensor)
    assert np.array_equal(np.from_dlpack(kept), tensor.numpy())


def test_tensors_that_require_grad_are_shared(library, rung):
    parameter = torch.nn.Parameter(torch.ones(3))
    inner = parameter * 2
    for tensor in (parameter, inner):
        assert library.echo(tensor) is tensor
        assert library.echo([tensor])[0] is tensor
        assert ffi.from_dlpack(tensor).shape == (3,)


def test_new_tensors_in_results_are_torch_s_where_torch_came_in(library):
    tensor = torch.arange(6.0).reshape(2, 3)
    transposed = library.transposed(tensor)
    assert type(transposed) is torch.Tensor
    assert torch.equal(transposed, tensor.t())
    made = library.make_map(1, tensor)
    assert made["tensor"] is tensor
    function = library.transposed
    function.tensor_type = np.ndarray
    assert isinstance(function(tensor), np.ndarray)


def test_read_only_memory_is_known_by_the_tensor(library):
    source = np.ones(3)
    source.flags.writeable = False
    kept = ffi.from_dlpack(source)
    assert kept.read_only
    assert ffi.to_array(kept, torch.Tensor).data_ptr() == source.ctypes.data
    with pytest.raises(BufferError):
        ffi.to_dlpack(source, versioned=False)


def test_tensors_of_torch_are_kept_by_containers_of_any_depth():
    tensor = torch.arange(4.0)
    address, before = tensor.data_ptr(), sys.getrefcount(tensor)
    array = ffi.Array([1, [tensor, {"key": tensor}]])
    inner = array[1]
    kept = (inner[0], inner[1]["key"])
    assert [ffi.to_array(one, torch.Tensor).data_ptr() for one in kept] == [address, address]
    del array, inner, kept
    gc.collect()
    assert sys.getrefcount(tensor) == before
    shared = ffi.List([tensor])
    tensor.data = torch.zeros(1)
    del tensor
    gc.collect()
    assert ffi.to_array(shared[0], torch.Tensor).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_callbacks_get_the_caller_s_own_tensors(library):
    tensor = torch.zeros(3)
    seen = []
    library.apply(seen.append, tensor)
    library.apply(seen.append, (tensor, {"key": tensor}))
    assert seen[0] is tensor
    assert seen[1][0] is seen[1][1]["key"] is tensor
    assert library.apply(lambda value: value, tensor) is tensor


@weft.kernel
def add_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.jit
def add_one(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    add_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 32), block=32)


@weft.jit
def add_pair(pair):
    add_kernel(pair[0], pair[1]).launch(grid=1, block=32)


@pytest.fixture(scope="module")
def compiled():
    return weft.compile(add_one, torch.zeros(3), torch.zeros(3), options="--target cpu")


def test_a_prepared_call_holds_torch_tensors_and_takes_others(compiled, rung):
    a, b = torch.tensor([1.0, 2.0]), torch.zeros(2)
    prepared = compiled.prepare(a, b)
    prepared()
    assert b.tolist() == [2.0, 3.0]
    a.copy_(torch.tensor([5.0, 6.0]))
    prepared()
    assert b.tolist() == [6.0, 7.0]
    address = a.data_ptr()
    a.data = torch.zeros(1)  # the prepared call keeps the storage that it was given
    del a
    gc.collect()
    prepared()
    assert b.tolist() == [6.0, 7.0]
    replaced = torch.tensor([10.0, 20.0])
    assert replaced.data_ptr() != address
    prepared[0] = replaced
    prepared()
    assert b.tolist() == [11.0, 21.0]


@pytest.mark.joined
@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_prepared_call_refuses_what_would_be_misread(compiled, rung, kind):
    make, message = UNREADABLE[kind]
    tensor = make()
    with pytest.raises((TypeError, ValueError), match=rf"argument #0 'a': .*({message})"):
        compiled.prepare(tensor, torch.zeros(3))
    prepared = compiled.prepare(torch.zeros(3), torch.zeros(3))
    with pytest.raises((TypeError, ValueError), match=rf"({message})"):
        prepared[0] = tensor
    prepared()


def test_compiled_functions_take_torch_tensors_in_tuples(rung):
    a, b = torch.tensor([1.0, 2.0]), torch.zeros(2)
    function = weft.compile(add_pair, (a, b), options="--target cpu")
    function((a, b))
    assert b.tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match=r"argument #0 'pair\[0\]': .*negative view"):
        function((REFUSED["negative"][0](), b))
    prepared = function.prepare((a, b))
    a.fill_(3)
    prepared()
    assert b.tolist() == [4.0, 4.0]
