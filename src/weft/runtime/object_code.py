# SPDX-License-Identifier: Apache-2.0
"""The result of a compilation, as plain data that a cache can store.

In: bytes of the host object and of the device code, facts about each kernel. Out: `ObjectCode`, independent of the
process that made it.
"""

from __future__ import annotations

from weft.types.device import CPU
from weft.types.frozen import Frozen


class KernelInfo(Frozen):
    """One kernel's parameters and resources; zero if the target does not report them.

    Attributes:
        name: in the object code.
        parameter_sizes: bytes of each parameter, in order.
        parameter_bytes: bytes of the parameter buffer, with padding.
        max_threads: per block.
        registers: per thread, 32 bits each, as the kernel starts; `setmaxnreg` gives and takes others.
        spill_store_bytes, spill_load_bytes: per thread, moved to and from local memory.
        stack_bytes: local memory per thread.
        shared_memory_bytes: of the kernel's own shared arrays, per block; launches add their request to it.
        constant_bytes: constant memory, parameters included.
        barriers: named barriers per block.
        global_scratch_bytes: of `weft.global_scratch`, per block; each launch allocates it for its grid.
    """

    name: str
    parameter_sizes: tuple[int, ...] = ()
    parameter_bytes: int = 0
    max_threads: int = 0
    registers: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0
    shared_memory_bytes: int = 0
    constant_bytes: int = 0
    barriers: int = 0
    global_scratch_bytes: int = 0


class ScratchInfo(Frozen):
    """One `weft.scratch` of a host function, which each call takes and gives back.

    Attributes:
        text: as written, such as ``"weft.scratch((n, 4), weft.f32)"``.
        shape: None for a size known only at run time.
        bytes: of one array; None if known only at run time.
        file, line: where in the user's source, or an empty string and 0.
    """

    text: str
    shape: tuple[int | None, ...]
    bytes: int | None
    file: str = ""
    line: int = 0


class Remark(Frozen):
    """A backend's remark on a kernel: how it was compiled, an assembler's warning, or what lies in local memory.

    Attributes:
        kernel: its name, or an empty string.
        message: one sentence.
        code: the assembler's, such as ``"C7510"``, or an empty string.
        file, line: where in the user's source, or an empty string and 0.
    """

    kernel: str
    message: str
    code: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file else ""
        kernel = f" (kernel {self.kernel})" if self.kernel else ""
        return f"{place}{self.message}{kernel}"

    def __repr__(self) -> str:
        return f"<Remark {self}>"


class ObjectCode(Frozen):
    """The machine code of one host function and its kernels.

    Attributes:
        host_object: a relocatable object that defines the entry symbols and `weft_state`.
        device_code: a cubin, PTX that ends with a zero byte, what another backend makes, or empty on the CPU.
        kernels: in the host code's numbering.
        entry_symbols: the object's exports, `__tvm_ffi_<name>` first.
        target: the backend's name.
        architecture: of the device code, such as ``"sm_90a"``; empty on the CPU.
        remarks: the backend's, on the kernels.
        device_type: DLPack's, of the devices that run the device code; the CPU where there is none.
    """

    host_object: bytes
    device_code: bytes
    kernels: tuple[KernelInfo, ...]
    entry_symbols: tuple[str, ...]
    target: str
    architecture: str = ""
    remarks: tuple[Remark, ...] = ()
    device_type: int = CPU

    def __repr__(self) -> str:
        return (
            f"<ObjectCode {self.entry_symbols[0] if self.entry_symbols else ''} for {self.target}: "
            f"{len(self.host_object)} + {len(self.device_code)} bytes>"
        )
