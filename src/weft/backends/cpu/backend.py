# SPDX-License-Identifier: Apache-2.0
"""The CPU backend: its facts.

In: a job. Out: `ObjectCode` without device code: one object with kernels, host function and wrapper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.backends.base import Backend
from weft.cache.versions import cpu_version
from weft.config import SANITIZER_CHECKS, SANITIZER_MODES
from weft.imports import imported
from weft.types.device import CPU

if TYPE_CHECKING:
    from weft.backends.base import Job
    from weft.runtime.code_image import ObjectCode


class CpuBackend(Backend):
    """Compiles for the CPU of this process."""

    name = "cpu"
    device_type = CPU
    checks = (*SANITIZER_CHECKS, *SANITIZER_MODES)

    def tools_version(self) -> str | None:
        """That of the CPU, with all its features."""
        return cpu_version()

    def compile(self, job: Job) -> ObjectCode:
        """Machine code for this CPU."""
        return imported("weft.backends.cpu.stages").compile_job(self, job)

    def emit_exported(self, job: Job, glue: str) -> bytes:
        """The kernels, the host function, its wrapper and the glue."""
        return imported("weft.backends.cpu.stages").emit_exported(job, glue)


def make_backend() -> CpuBackend:
    """The backend, for the registry."""
    return CpuBackend()
