# SPDX-License-Identifier: Apache-2.0
"""The wrapper as IR: it reads like the contract, verifies, and its text parses again."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tests.ffi_wrapper.wrapped import CUDA, Parameter, llvm_text, module_of, signature_of
from weft.arguments.base import ArgumentKind
from weft.arguments.pointer import Pointer
from weft.arguments.shape import Shape
from weft.arguments.signature import ARGUMENT_KINDS
from weft.arguments.stream import Stream, environment_stream
from weft.arguments.tensor_spec import Tensor, fake_tensor
from weft.codegen.wrapper.function import WRAPPER
from weft.codegen.wrapper.tensors import CHECKS
from weft.dialects.context import make_context
from weft.dialects.ffi import FFI, checks, function
from weft.dialects.ffi.checks import TENSOR_CHECKS
from weft.dialects.ffi.function import argument_result, none_result, scalar_result, tuple_result
from weft.errors import InternalCompilerError
from weft.ffi_wrapper import DECODERS, attach_ffi_wrapper
from weft.types import dtype as types
from weft.types.dims import sym

SPEC = Tensor[types.f32, ("n",)]

ADD_ONE = """\
  ffi.func "__tvm_ffi_add_one" of "add_one(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)])" on "cpu" {
    ffi.check_count 2
    %a = ffi.decode_tensor 0 "a"
    ffi.check %a "data"
    ffi.check %a "rank" is 1
    ffi.check %a "dtype" named "f32"
    ffi.check %a "device_type" is 1
    ffi.check %a "alignment" is 4
    %n = ffi.bind_dim %a[0] "n" width 32 divisibility 1
    ffi.check_layout %a "contiguous" of "Tensor[f32, (n,)]"
    %a_tensor = ffi.as_tensor %a : TYPE
    %b = ffi.decode_tensor 1 "b"
    ffi.check %b "data"
    ffi.check %b "rank" is 1
    ffi.check %b "dtype" named "f32"
    ffi.check %b "device_type" is 1
    ffi.check %b "alignment" is 4
    ffi.check_dim %b[0] equals %n
    ffi.check_layout %b "contiguous" of "Tensor[f32, (n,)]"
    %b_tensor = ffi.as_tensor %b : TYPE
    ffi.device_guard @add_one(%a_tensor, %b_tensor : TYPE, TYPE)
    ffi.return
  }
""".replace("TYPE", "!simt.tensor<f32, [?], contiguous, global, dims 32, offsets 32, align 4>")


def everything() -> ModuleOp:
    """A module in which every operation of the dialect stands."""
    strided = fake_tensor(
        types.u8,
        ("n", 4, None),
        strides=(sym("s", divisibility=2), 4, None),
        alignment_bytes=16,
        device="cuda:1",
    )
    signature = signature_of(
        "f",
        Parameter("a", strided),
        Parameter("b", fake_tensor(types.u8, ("n", None, 4), strides=("s", None, 1))),
        Parameter("c", SPEC),
        Parameter("alpha", types.bf16, 2.0),
        Parameter("nothing", None),
        Parameter("stream", Stream),
        Parameter("address", Pointer[types.f32]),
        Parameter("size", Shape["n", 4]),
        Parameter("count", sym("n")),
        Parameter("box", tuple[SPEC, types.i32]),
        Parameter("own", environment_stream()),
        device=CUDA,
    )
    tree = tuple_result([scalar_result(0, types.bf16), argument_result("c"), none_result()])
    return module_of(signature, ["alpha"], tree)


def test_add_one_reads_like_the_contract():
    module = module_of(signature_of("add_one", Parameter("a", SPEC), Parameter("b", SPEC)))
    assert ADD_ONE in str(module)


def test_a_wrapper_of_everything_reads_like_its_signature():
    expected = Path(__file__).with_name("contract.mlir").read_text().partition("\n")[2]
    assert expected in str(everything())


@pytest.mark.parametrize("generic", [False, True], ids=["pretty", "generic"])
def test_the_text_parses_again(generic):
    module = everything()
    text = io.StringIO()
    Printer(text, print_generic_format=generic).print_op(module)
    parsed = Parser(make_context(), text.getvalue()).parse_module()
    parsed.verify()
    assert str(parsed) == str(module)
    assert llvm_text(parsed) == llvm_text(module)


def test_every_operation_of_the_dialect_is_used_and_printed():
    used = {type(operation) for operation in everything().walk()}
    assert set(FFI.operations) - used == set()
    assert {*WRAPPER, function.FuncOp} == set(FFI.operations)


def test_every_check_is_printed():
    assert tuple(CHECKS) == TENSOR_CHECKS


def test_every_kind_that_is_passed_is_decoded():
    assert {kind for kind in ARGUMENT_KINDS if kind.is_passed} == set(DECODERS)


def test_an_unnamed_symbol_is_bound_each_time():
    spec = Tensor[types.f32, (None,)]
    module = module_of(signature_of("f", Parameter("a", spec), Parameter("b", spec)))
    operations = [type(operation) for operation in module.walk()]
    assert operations.count(checks.BindDimOp) == 2
    assert checks.CheckDimOp not in operations


def test_the_host_function_must_fit_its_signature():
    signature = signature_of("f", Parameter("a", types.i32))
    block = Block(arg_types=[])
    block.add_op(func.ReturnOp())
    module = ModuleOp([func.FuncOp("f", ([], []), Region(block))])
    with pytest.raises(InternalCompilerError, match="takes 0 values, its signature has 1"):
        attach_ffi_wrapper(module, signature)
    with pytest.raises(InternalCompilerError, match="no host function f"):
        attach_ffi_wrapper(ModuleOp([]), signature)


BROKEN = {
    'ffi.check %a "color" is 1': "'color' is not one of",
    'ffi.check %a "rank"': "wrong kind of expectation",
    'ffi.check %a "data" is 3': "wrong kind of expectation",
    "ffi.check_dim %a[0]": "compares with a bound symbol or with a constant",
    "ffi.check_dim %a[9] is 1": "no dimension 9",
    "ffi.check_device %a": "compares with a device or with an ordinal",
    'ffi.check_layout %a "strided" of ""': "promises nothing",
}


@pytest.mark.parametrize("line", BROKEN)
def test_what_the_verifier_refuses(line):
    text = f"""
    ffi.func "f" of "f()" on "cpu" {{
      %a = ffi.decode_tensor 0 "a"
      {line}
      ffi.return
    }}"""
    module = Parser(make_context(), text).parse_module()
    with pytest.raises(VerifyException, match=BROKEN[line]):
        module.verify()


@pytest.mark.parametrize(
    ("tree", "good"),
    [
        ("unit", True),
        ('{"argument" = "a"}', True),
        ('[{"value" = 0 : i64, "dtype" = "i32"}, []]', True),
        ("3 : i64", False),
        ('{"value" = 0 : i64}', False),
        ('[{"name" = "a"}]', False),
    ],
)
def test_what_may_be_returned(tree, good):
    module = Parser(
        make_context(), f'ffi.func "f" of "f()" on "cpu" {{ ffi.return as {tree} }}'
    ).parse_module()
    if good:
        module.verify()
    else:
        with pytest.raises(VerifyException, match="not a description of a result"):
            module.verify()


def test_the_llvm_text_needs_nothing_from_outside():
    """Generated code reaches everything through the table, so that no symbol is left undefined."""
    assert "declare" not in llvm_text(everything())


def test_kinds_have_titles_for_messages():
    assert all(issubclass(kind, ArgumentKind) and kind.title for kind in ARGUMENT_KINDS)


def test_many_tensors_do_not_cost_registers():
    """Values that live through all checks, and ends that thousands of checks share, take it their number's square."""
    parameters = [Parameter(f"a{index}", SPEC) for index in range(100)]
    text = llvm_text(module_of(signature_of("f", *parameters)))
    phis = [line for line in text.splitlines() if " = phi " in line]
    assert max(line.count("[") for line in phis) <= 200
    call = next(line for line in text.splitlines() if "call i32 @weft.host" in line)
    waiting = re.findall(r"ptr (%[^,)]+)", call)[1:]
    assert waiting and all(f"  {name} = load " in text for name in waiting)
