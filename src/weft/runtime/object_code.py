# SPDX-License-Identifier: Apache-2.0
"""The result of a compilation, as plain data that a cache can store.

In: bytes of the host object and of the device code, facts about each kernel. Out: `ObjectCode`, independent of the
process that made it.
"""

from __future__ import annotations

from typing import Any


class KernelInfo:
    """One kernel's parameters and resources; zero if the target does not report them.

    Attributes:
        name: in the object code.
        parameter_sizes: bytes of each parameter, in order.
        parameter_bytes: bytes of the parameter buffer, with padding.
        max_threads: per block.
        registers: per thread, 32 bits each.
        spill_store_bytes, spill_load_bytes: per thread, moved to and from local memory.
        stack_bytes: local memory per thread.
        shared_memory_bytes: of the kernel's own shared arrays, per block; launches add their request to it.
        constant_bytes: constant memory, parameters included; reported by nvJitLink, not by ptxas.
        barriers: named barriers per block.
        global_scratch_bytes: of `weft.global_scratch`, per block; each launch allocates it for its grid.
    """

    __slots__ = (  # noqa: RUF023  the order of __init__
        "name",
        "parameter_sizes",
        "parameter_bytes",
        "max_threads",
        "registers",
        "spill_store_bytes",
        "spill_load_bytes",
        "stack_bytes",
        "shared_memory_bytes",
        "constant_bytes",
        "barriers",
        "global_scratch_bytes",
    )

    def __init__(
        self,
        name: str,
        parameter_sizes: tuple[int, ...] = (),
        parameter_bytes: int = 0,
        max_threads: int = 0,
        registers: int = 0,
        spill_store_bytes: int = 0,
        spill_load_bytes: int = 0,
        stack_bytes: int = 0,
        shared_memory_bytes: int = 0,
        constant_bytes: int = 0,
        barriers: int = 0,
        global_scratch_bytes: int = 0,
    ) -> None:
        self.name = name
        self.parameter_sizes = parameter_sizes
        self.parameter_bytes = parameter_bytes
        self.max_threads = max_threads
        self.registers = registers
        self.spill_store_bytes = spill_store_bytes
        self.spill_load_bytes = spill_load_bytes
        self.stack_bytes = stack_bytes
        self.shared_memory_bytes = shared_memory_bytes
        self.constant_bytes = constant_bytes
        self.barriers = barriers
        self.global_scratch_bytes = global_scratch_bytes

    def to_data(self) -> dict[str, Any]:
        """The attributes as a dict of plain values."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelInfo) and self.to_data() == other.to_data()

    def __hash__(self) -> int:
        return hash(tuple(self.to_data().values()))

    def __repr__(self) -> str:
        known = {name: value for name, value in self.to_data().items() if value}
        return f"KernelInfo({', '.join(f'{name}={value!r}' for name, value in known.items())})"


class Remark:
    """A backend's remark on a kernel: how it was compiled, or an assembler warning.

    Attributes:
        kernel: its name, or an empty string.
        message: one sentence.
        code: the assembler's, such as ``"C7510"``, or an empty string.
        file, line: where in the user's source, or an empty string and 0.
    """

    __slots__ = ("code", "file", "kernel", "line", "message")

    def __init__(
        self, kernel: str, message: str, code: str = "", file: str = "", line: int = 0
    ) -> None:
        self.kernel = kernel
        self.message = message
        self.code = code
        self.file = file
        self.line = line

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file else ""
        kernel = f" (kernel {self.kernel})" if self.kernel else ""
        return f"{place}{self.message}{kernel}"

    def __repr__(self) -> str:
        return f"<Remark {self}>"


class ObjectCode:
    """The machine code of one host function and its kernels.

    Attributes:
        host_object: a relocatable object that defines the entry symbols and `weft_state`.
        device_code: a cubin, PTX that ends with a zero byte, or empty on the CPU.
        kernels: in the host code's numbering.
        entry_symbols: the object's exports, `__tvm_ffi_<name>` first.
        target: the backend's name.
        architecture: of the device code, such as ``"sm_90a"``; empty on the CPU.
        remarks: the backend's, on the kernels.
    """

    __slots__ = (  # noqa: RUF023  the order of __init__
        "host_object",
        "device_code",
        "kernels",
        "entry_symbols",
        "target",
        "architecture",
        "remarks",
    )

    def __init__(
        self,
        host_object: bytes,
        device_code: bytes,
        kernels: tuple[KernelInfo, ...],
        entry_symbols: tuple[str, ...],
        target: str,
        architecture: str = "",
        remarks: tuple[Remark, ...] = (),
    ) -> None:
        self.host_object = host_object
        self.device_code = device_code
        self.kernels = kernels
        self.entry_symbols = entry_symbols
        self.target = target
        self.architecture = architecture
        self.remarks = remarks

    def __repr__(self) -> str:
        return (
            f"<ObjectCode {self.entry_symbols[0] if self.entry_symbols else ''} for {self.target}: "
            f"{len(self.host_object)} + {len(self.device_code)} bytes>"
        )
