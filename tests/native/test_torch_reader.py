# SPDX-License-Identifier: Apache-2.0
"""torch tensors reach a callee as torch says, by every rung; what has no plain memory is refused."""

import pytest

from tests.native.callee import CPU, foreign, planned, seen_tensor
from weft import _native

torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
pytestmark = pytest.mark.torch

SHIM, EXCHANGE, DLPACK, ALL = 1, 4, 8, 63
DTYPES = {
    "bool": (6, 8),
    "uint8": (1, 8),
    "uint16": (1, 16),
    "uint32": (1, 32),
    "uint64": (1, 64),
    "int8": (0, 8),
    "int16": (0, 16),
    "int32": (0, 32),
    "int64": (0, 64),
    "float16": (2, 16),
    "bfloat16": (4, 16),
    "float32": (2, 32),
    "float64": (2, 64),
    "complex64": (5, 64),
    "complex128": (5, 128),
    "float8_e4m3fn": (10, 8),
    "float8_e5m2": (12, 8),
}


@pytest.fixture(params=[SHIM, EXCHANGE, DLPACK])
def rung(request):
    _native.set_reader_rungs(request.param)
    yield request.param
    _native.set_reader_rungs(ALL)


def matches(tensor, **plan) -> bool:
    received = seen_tensor(tensor, **plan)
    counted = [axis for axis, dim in enumerate(tensor.shape) if dim > 1 and tensor.numel()]
    return (
        (received.data or 0) + received.byte_offset == tensor.data_ptr()
        and received.device == (CPU, 0)
        and received.shape == tuple(tensor.shape)
        and all(received.strides[axis] == tensor.stride()[axis] for axis in counted)
    )


def test_the_shim_is_the_rung_that_serves_this_torch():
    _native.set_reader_rungs(SHIM)
    try:
        assert matches(torch.zeros(2, 3))
    finally:
        _native.set_reader_rungs(ALL)


@pytest.mark.joined
@pytest.mark.parametrize("name", DTYPES)
def test_every_number_type_keeps_its_dtype(rung, name):
    tensor = torch.zeros(2, 3, dtype=getattr(torch, name))
    assert seen_tensor(tensor).dtype == (*DTYPES[name], 1)


def layouts():
    base = torch.arange(120.0).reshape(4, 5, 6)
    yield base
    yield base[::2, 1:, 3:]
    yield base.permute(2, 0, 1)
    yield torch.tensor(3.0)
    yield torch.zeros(3, 0, 2)
    yield torch.zeros(3, 1).expand(3, 4)
    yield torch.zeros((1,) * 10 + (2, 3))


@pytest.mark.parametrize("tensor", list(layouts()), ids=lambda tensor: str(tuple(tensor.shape)))
def test_every_layout_keeps_its_dims_and_strides(rung, tensor):
    assert matches(tensor)
    assert matches(tensor, owned_tensors=True)


def test_tensors_that_need_a_gradient_are_accepted(rung):
    assert matches(torch.zeros(3, requires_grad=True))
    assert matches(torch.nn.Parameter(torch.zeros(3)))
    assert matches(torch.zeros(3, requires_grad=True) * 2)


def test_a_subclass_without_its_own_dispatch_is_read(rung):
    class Plain(torch.Tensor):
        pass

    assert matches(torch.zeros(2, 3).as_subclass(Plain))


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(3)


def wrapper():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (3,))

        def __torch_dispatch__(self, *_arguments, **_keywords):
            raise RuntimeError("no operation here")

    return Wrapper()


REFUSED = {
    "conjugate": (lambda: torch.zeros(2, dtype=torch.complex64).conj(), "conjugate view"),
    "negative": (lambda: torch.zeros(2, dtype=torch.complex64).conj().imag, "negative view"),
    "meta": (lambda: torch.zeros(3, device="meta"), "meta device"),
    "sparse": (lambda: torch.eye(3).to_sparse(), "sparse_coo"),
    "compressed": (lambda: torch.eye(3).to_sparse_csr(), "sparse_csr"),
    "onednn": (lambda: torch.zeros(3, 4).to_mkldnn(), "_mkldnn"),
    "fake": (fake, "FakeTensor"),
    "zero": (lambda: torch._efficientzerotensor(3), "zero tensor"),
    "wrapper": (wrapper, "wrapper subclass|no data|cannot be exported"),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
        "quantized",
    ),
    "nested": (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "nested"),
    "functional": (
        lambda: torch._to_functional_tensor(torch.zeros(3)),
        "expected a tensor with memory",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_would_be_misread_is_refused_with_its_own_message(rung, kind):
    make, message = REFUSED[kind]
    tensor = make()
    function = planned("record", "a", signature_text="f(a: Tensor)")
    for _ in range(2):
        with pytest.raises(
            (TypeError, ValueError), match=rf"^f\(a: Tensor\): argument #0 'a': .*({message})"
        ):
            function(tensor)


def test_tensors_inside_a_transform_are_refused():
    function = planned("record", "a")

    def inside(tensor):
        with pytest.raises((TypeError, ValueError), match="expected a tensor with memory"):
            function(tensor)
        return tensor.sum()

    torch.func.vmap(inside)(torch.zeros(2, 3))
    torch.func.grad(inside)(torch.zeros(3))


@pytest.mark.slow
def test_a_tensor_first_seen_inside_a_fake_mode_is_read_afterwards():
    import subprocess
    import sys

    program = (
        "import torch\n"
        "from torch._subclasses.fake_tensor import FakeTensorMode\n"
        "from weft import _native\n"
        "plain = torch.arange(6.).reshape(2, 3)\n"
        "with FakeTensorMode():\n"
        "    first = _native.tensor_info(plain)\n"
        "_native.set_reader_rungs(1)\n"
        "again = _native.tensor_info(plain)\n"
        "assert first[:8] == again[:8] == (2, 32, 1, 1, 0, (2, 3), (3, 1), plain.data_ptr()), (first, again)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_escaped_tensor_survives_what_happens_to_its_source():
    from tests.native.callee import library

    tensor = torch.arange(6.0).reshape(2, 3)
    foreign("keep")(tensor)
    tensor.t_()
    tensor.data = torch.zeros(1)
    del tensor
    kept = foreign("return_kept")()
    library().release_kept()
    assert torch.from_dlpack(kept).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_new_tensors_come_back_as_torch_where_torch_came_in():
    from tests.native.callee import library

    source = torch.arange(4.0)
    foreign("keep")(source)
    result = foreign("return_kept")(torch.zeros(1))
    library().release_kept()
    assert type(result) is torch.Tensor
    assert result.data_ptr() == source.data_ptr()


def test_a_tensor_that_is_returned_is_the_same_object():
    tensor = torch.zeros(3)
    assert planned("echo", "a", owned_tensors=True)(tensor) is tensor
    assert foreign("echo")((tensor, 1))[0] is tensor
