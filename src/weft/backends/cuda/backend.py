# SPDX-License-Identifier: Apache-2.0
"""The CUDA backend: its facts.

In: a job. Out: `ObjectCode` with a cubin, or with PTX, which the driver assembles at load time, if no assembler
for the architecture is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.backends.base import Backend
from weft.cache.versions import cpu_version, tool_version
from weft.driver.device import find_architecture
from weft.imports import imported
from weft.types.device import CUDA

if TYPE_CHECKING:
    from weft.backends.base import Job, Recorder
    from weft.runtime.code_image import ObjectCode


class CudaBackend(Backend):
    """Compiles for NVIDIA GPUs."""

    __slots__ = ()

    name = "cuda"
    device_type = CUDA
    architectures = r"sm_[1-9]\d{1,2}[af]?"
    default_architecture = "sm_90a"
    stages = ("ptx", "cubin", "sass")
    checks = ("bounds",)

    def find_architecture(self, ordinal: int | None) -> str | None:
        """The architecture reported by the driver."""
        return find_architecture(ordinal)

    def tools_version(self) -> str | None:
        """Those of this machine's CPU, for the host function, and of the assembler."""
        assemblers = imported("weft.backends.cuda.assemblers")
        cpu, paths = cpu_version(), (assemblers.ptxas_path(), assemblers.nvjitlink_path())
        tools = ["" if path is None else tool_version(path) for path in paths]
        return None if cpu is None or None in tools else f"{cpu} {tools}"

    def compile(self, job: Job) -> ObjectCode:
        """The kernels and the host object that launches them.

        Raises:
            OptionError: if the architecture is unknown.
            ToolchainError: if the assembler refuses the code, or is missing and an option needs it.
        """
        return imported("weft.backends.cuda.stages").compile_job(self, job)

    def emit_exported(self, job: Job, glue: str) -> bytes:
        """The host function, its wrapper and the glue."""
        host = imported("weft.backends.host")
        return host.emit_host(host.with_glue(job, glue), host.host_of(job))

    def disassemble(self, artifacts: Recorder) -> str | None:
        """SASS of the recorded cubin.

        Raises:
            ToolchainError: if nvdisasm is not installed, or the kernels were not assembled.
        """
        toolchain = imported("weft.backends.cuda.toolchain")
        cubin = artifacts.data("cubin")
        return None if cubin is None else toolchain.disassemble(cubin)


def make_backend() -> CudaBackend:
    """The backend, for the registry."""
    return CudaBackend()
