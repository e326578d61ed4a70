# SPDX-License-Identifier: Apache-2.0
"""The call inside a wrapper: stream, device guard, host function.

In: ffi.environment_stream, ffi.device_guard. Out: a `weft_call_frame` on the stack, the guarded call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.types import memory_type, size_in_bytes
from weft.codegen.operations.host_function import host_symbol
from weft.types.device import CPU

if TYPE_CHECKING:
    from weft.codegen.wrapper.printer import WrapperPrinter
    from weft.dialects.ffi.function import DeviceGuardOp, EnvironmentStreamOp

# weft_call_frame, beyond what codegen.runtime_abi names.
_DEVICE_TYPE: Final = 16
_DEVICE: Final = 20
_DRIVER_KERNELS: Final = 24
_SAVED_CONTEXT: Final = 32
_MUST_RESTORE: Final = 40
_FRAME_BYTES: Final = 64
_CALLERS_DEVICE: Final = "-1"


def print_environment_stream(printer: WrapperPrinter, op: EnvironmentStreamOp) -> None:
    """`ffi.environment_stream`; the CPU has none."""
    if printer.device_type == CPU:
        printer.values[op.result] = "null"
        return
    device = _CALLERS_DEVICE if op.device is None else printer.values[op.device]
    printer.values[op.result] = printer.call(
        "environment_stream", f"i32 {printer.device_type}", f"i32 {device}"
    )


def print_device_guard(printer: WrapperPrinter, op: DeviceGuardOp) -> None:
    """`ffi.device_guard`: leaves the device on every path, then examines the return code.

    Without a stream it runs on the host, and enters nothing. All checks precede it: a wrapper that only
    checks ends here.
    """
    printer.return_if_only_checking()
    frame = _print_frame(printer, op)
    if op.stream is not None:
        printer.require_success(printer.call("device_enter", f"ptr {frame}"))
    arguments = [f"ptr {frame}"]
    for argument in op.args:
        arguments += printer.for_call(argument)
    for result in op.values:
        kind = memory_type(result.type)
        slot = printer.alloca(kind, size_in_bytes(kind), "result")
        printer.results[result] = slot
        arguments.append(f"ptr {slot}")
    callee = host_symbol(op.callee.string_value())
    code = printer.let(f"call i32 {callee}({', '.join(arguments)})", "code")
    if op.scratch is not None:
        code = printer.call("release_scratch", f"ptr {frame}", "ptr null", f"i32 {code}")
    if op.stream is not None:
        code = printer.call("device_leave", f"ptr {frame}", f"i32 {code}")
    printer.require_success(code)


def _print_frame(printer: WrapperPrinter, op: DeviceGuardOp) -> str:
    """A `weft_call_frame`; the driver's half is empty."""
    frame = printer.alloca(f"[{_FRAME_BYTES} x i8]", 8, "frame")
    device = "0" if op.stream is None else _CALLERS_DEVICE
    if op.device is not None:
        device = printer.values[op.device]
    stream = "null" if op.stream is None else printer.values[op.stream]
    printer.store("ptr", printer.state, frame, abi.FRAME_STATE)
    printer.store("ptr", stream, frame, abi.FRAME_STREAM)
    printer.store("i32", str(printer.device_type), frame, _DEVICE_TYPE)
    printer.line(f"store i32 {device}, ptr {printer.address(frame, _DEVICE)}, align 4")
    for offset in (_DRIVER_KERNELS, _SAVED_CONTEXT, _MUST_RESTORE):
        printer.store("i64", "0", frame, offset)
    if op.scratch is not None:
        printer.store("ptr", "null", frame, abi.FRAME_SCRATCH)
    return frame
