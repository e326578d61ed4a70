# SPDX-License-Identifier: Apache-2.0
"""The call of the host function: on which stream and device it runs.

In: decoded arguments. Out: `ffi.device_guard` and the host function's results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.ffi.call import DeviceGuardOp, EnvironmentStreamOp
from weft.errors import REPORT_HINT, InternalCompilerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.func import FuncOp as HostOp
    from xdsl.ir import SSAValue

    from weft.ffi_wrapper.body import WrapperBody


def call_host(
    body: WrapperBody, host: HostOp, arguments: Sequence[SSAValue], on_cpu: bool
) -> list[SSAValue]:
    """Emits the guarded call.

    The stream is the one that the caller passed first, else that of the first CUDA tensor's library, else
    the environment's. On the CPU there is none.
    """
    taken = host.function_type.inputs.data
    if [argument.type for argument in arguments] != list(taken):
        raise InternalCompilerError(
            "WRAPPER_DECODE",
            f"the host function takes {taken}, decoded was {[a.type for a in arguments]}",
            hint=REPORT_HINT,
        )
    stream = body.stream
    if stream is None and not on_cpu:
        stream = body.emit(EnvironmentStreamOp(body.device), "stream").result
    guard = DeviceGuardOp(
        host.sym_name.data,
        arguments,
        None if on_cpu else body.device,
        None if on_cpu else stream,
        host.function_type.outputs.data,
    )
    return list(body.emit(guard).values)
