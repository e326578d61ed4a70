# SPDX-License-Identifier: Apache-2.0
"""Wrappers over host functions that tests write themselves, called through the bare ABI.

The host function returns what the test asks for, so that decoded values are seen. `RecordingTable` stands in for
the runtime table, so that a wrapper for CUDA runs without a driver and each of its calls is seen.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Region

from tests.native.callee import AnyValue, DLTensor
from weft import _native
from weft.arguments.base import DeclaredParameter
from weft.arguments.signature import Signature, infer_signature
from weft.backends.host import HOST_SYMBOLS, host_machine
from weft.codegen.llvm.module_printer import ModulePrinter
from weft.codegen.llvm.optimize import emit_object, load_object, parse
from weft.codegen.tables import HOST_FUNCTION, LIBRARY
from weft.compiler.call_plan import make_call_plan
from weft.dialects.ffi.function import RESULT_ATTRIBUTE
from weft.dialects.simt.memory import DimOp, StrideOp
from weft.ffi.library import find_ffi_library, open_ffi_library
from weft.ffi_wrapper import attach_ffi_wrapper
from weft.language.ir_types import ir_type_of
from weft.runtime.code_image import ObjectCode, link

CPU, CUDA = 1, 2
Parameter = DeclaredParameter


def signature_of(name: str, *parameters: DeclaredParameter, device: int = CPU, args=(), **kwargs):
    """A signature on a device, from annotations and examples."""
    return infer_signature(name, parameters, args, kwargs).for_device(device)


def module_of(signature: Signature, returns=(), tree: Attribute | None = None) -> ModuleOp:
    """A module with a host function that returns some of its arguments' parts, and its wrapper.

    `returns`: the name of a scalar argument, or ("dim" | "stride", tensor's name, dimension).
    """
    staged = signature.host_arguments()
    types = [ir_type_of(leaf.kind) for leaf in staged]
    block = Block(arg_types=types)
    arguments = {leaf.path: value for leaf, value in zip(staged, block.args, strict=True)}
    values = []
    for item in returns:
        if isinstance(item, str):
            values.append(arguments[item])
            continue
        part, name, dimension = item
        operation = (DimOp if part == "dim" else StrideOp)(arguments[name], dimension)
        block.add_op(operation)
        values.append(operation.result)
    block.add_op(func.ReturnOp(*values))
    host = func.FuncOp(signature.name, (types, [v.type for v in values]), Region(block))
    if tree is not None:
        host.attributes[RESULT_ATTRIBUTE] = tree
    module = ModuleOp([host])
    attach_ffi_wrapper(module, signature)
    module.verify()
    return module


def llvm_text(module: ModuleOp) -> str:
    """LLVM text of host function and wrapper."""
    printer = ModulePrinter(host_machine().target, HOST_FUNCTION, HOST_SYMBOLS, LIBRARY)
    printer.print_symbols(module.body.block.ops)
    return printer.text()


class Wrapped:
    """A linked wrapper.

    Attributes:
        image: keeps the code alive.
        error_kind, error: of the last call that failed.
    """

    def __init__(self, signature: Signature, returns=(), tree: Attribute | None = None) -> None:
        self.signature = signature
        text = llvm_text(module_of(signature, returns, tree))
        data = emit_object(parse(text, "host"), host_machine().machine)
        self.symbol = f"__tvm_ffi_{signature.name}"
        code = ObjectCode(data, b"", (), (self.symbol,), "cpu")
        self.image = link(code, load_object, load_policy=1)
        self.error_kind = self.error = ""
        prototype = ctypes.CFUNCTYPE(
            ctypes.c_int32,
            ctypes.c_void_p,
            ctypes.POINTER(AnyValue),
            ctypes.c_int32,
            ctypes.POINTER(AnyValue),
        )
        self._entry = prototype(self.image.lookup(self.symbol))

    def __call__(self, *values: AnyValue, state: int | None = None) -> AnyValue | None:
        """Calls through the ABI; the result, or None with the error kept."""
        array = (AnyValue * max(len(values), 1))(*values)
        result = AnyValue(0, 0, 0)
        handle = self.image.state if state is None else state
        code = self._entry(handle, array, len(values), ctypes.byref(result))
        if code == 0:
            return result
        assert code == -1
        self.error_kind, self.error = take_error()
        return None

    def fails(self, *values: AnyValue) -> str:
        """The error of a call that fails: kind and text, without the signature."""
        assert self(*values) is None
        prefix = f"{self.signature.text}: "
        assert self.error.startswith(prefix), self.error
        return f"{self.error_kind}: {self.error.removeprefix(prefix)}"

    def function(self, **plan: Any) -> _native.Function:
        """The callable that users get."""
        call_plan = make_call_plan(self.signature, frozenset(), plan.get("owned", False))
        address = self.image.lookup(self.symbol)
        return _native.Function.from_address(address, self.image.state, self.image, call_plan)


@functools.cache
def _ffi_library() -> ctypes.CDLL:
    open_ffi_library()
    return ctypes.CDLL(find_ffi_library())


def take_error() -> tuple[str, str]:
    """Kind and message of this thread's FFI error, which is cleared."""
    handle = ctypes.c_void_p()
    _ffi_library().TVMFFIErrorMoveFromRaised(ctypes.byref(handle))
    assert handle.value is not None, "no error is set"
    # The cell follows the header of three words: kind, message, backtrace as (pointer, size).
    words = (ctypes.c_uint64 * 6).from_address(handle.value + 24)
    kind, message = (ctypes.string_at(words[i], words[i + 1]).decode() for i in (0, 2))
    _ffi_library().TVMFFIObjectDecRef(handle)
    return kind, message


def error_backtrace() -> str:
    """The backtrace of this thread's FFI error, which is cleared."""
    handle = ctypes.c_void_p()
    _ffi_library().TVMFFIErrorMoveFromRaised(ctypes.byref(handle))
    words = (ctypes.c_uint64 * 6).from_address(handle.value + 24)
    text = ctypes.string_at(words[4], words[5]).decode()
    _ffi_library().TVMFFIObjectDecRef(handle)
    return text


# ---- values


def integer(value: int) -> AnyValue:
    return AnyValue(1, 0, value)


def boolean(value: bool) -> AnyValue:
    return AnyValue(2, 0, int(value))


def real(value: float) -> AnyValue:
    return AnyValue(3, 0, ctypes.c_int64.from_buffer_copy(ctypes.c_double(value)).value)


def pointer(address: int) -> AnyValue:
    return AnyValue(4, 0, address)


def none() -> AnyValue:
    return AnyValue(0, 0, 0)


def small_text(text: str) -> AnyValue:
    return AnyValue(11, len(text), int.from_bytes(text.encode().ljust(8, b"\0"), "little"))


class Memory:
    """A DLTensor with memory of its own; `argument` is the value that passes it."""

    def __init__(
        self,
        shape: tuple[int, ...] = (10,),
        strides: tuple[int, ...] | None = None,
        dtype: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] = (CPU, 0),
        data: int | None = 0x10000,
        byte_offset: int = 0,
        null_shape: bool = False,
    ) -> None:
        rank = len(shape)
        self._shape = (ctypes.c_int64 * max(rank, 1))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * max(rank, 1))(*strides)
        self.tensor = DLTensor(
            data,
            *device,
            rank,
            *dtype,
            None if null_shape else ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64)),
            self._strides and ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64)),
            byte_offset,
        )

    @property
    def argument(self) -> AnyValue:
        """As a DLTensor* (type 7)."""
        value = AnyValue(7, 0, ctypes.addressof(self.tensor))
        value.keep_alive = self
        return value

    def as_object(self) -> AnyValue:
        """As a tensor object (type 70): a header of three words in front of the DLTensor."""
        size = 24 + ctypes.sizeof(DLTensor)
        self._object = ctypes.create_string_buffer(size)
        ctypes.memmove(ctypes.addressof(self._object) + 24, ctypes.byref(self.tensor), size - 24)
        # One strong and one weak reference, and the type index.
        ctypes.memmove(self._object, (1 | 1 << 32).to_bytes(8, "little"), 8)
        ctypes.memmove(ctypes.addressof(self._object) + 8, (70).to_bytes(4, "little"), 4)
        value = AnyValue(70, 0, ctypes.addressof(self._object))
        value.keep_alive = self
        return value

    def references(self) -> int:
        """Strong references of the object made by `as_object`."""
        return int.from_bytes(self._object.raw[:4], "little")


def value_of(result: AnyValue | None) -> Any:
    """A plain result as a Python value."""
    assert result is not None
    assert result.padding == 0
    if result.type_index == 3:
        return result.float64
    return {0: None, 1: result.int64, 2: bool(result.int64)}[result.type_index]


# ---- a table that records


class RecordingTable:
    """A runtime table and a state over it; `calls` holds (row, arguments) in order."""

    def __init__(self, **answers: int) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self._answers = answers
        self._keep = []
        rows = [_native.RUNTIME_TABLE_VERSION]
        for name, llvm_type in _native.RUNTIME_TABLE:
            function = self._function(name, llvm_type)
            self._keep.append(function)
            rows.append(ctypes.cast(function, ctypes.c_void_p).value)
        self._table = (ctypes.c_uint64 * len(rows))(*rows)
        # weft_state: table, image, driver_state, bound_device and load_policy.
        self._state = (ctypes.c_uint64 * 4)(ctypes.addressof(self._table), 0, 0, 0xFFFFFFFF)

    @property
    def state(self) -> int:
        return ctypes.addressof(self._state)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _function(self, name: str, llvm_type: str) -> Any:
        types = {
            "i32": ctypes.c_int32,
            "i64": ctypes.c_int64,
            "ptr": ctypes.c_void_p,
            "double": ctypes.c_double,
            "void": None,
        }
        result, _, parameters = llvm_type.partition(" ")
        prototype = ctypes.CFUNCTYPE(
            types[result], *(types[text] for text in parameters.strip("()").split(", ") if text)
        )

        def record(*arguments: Any) -> Any:
            self.calls.append((name, arguments))
            answer = self._answers.get(name, 0)
            if name == "device_leave" and name not in self._answers:
                return arguments[1]
            return None if result == "void" else answer

        return prototype(record)
