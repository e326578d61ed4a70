# SPDX-License-Identifier: Apache-2.0
"""The target `amdgcn`: what it says of itself.

In: a job. Out: `ObjectCode` with the kernels as a relocatable object, which no driver of weft's loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.backends.base import Backend
from weft.types.device import DEVICE_TYPES

if TYPE_CHECKING:
    from weft.backends.base import Job
    from weft.runtime.code_image import ObjectCode


class AmdgcnBackend(Backend):
    """Compiles for AMD GPUs."""

    name = "amdgcn"
    device_type = DEVICE_TYPES["rocm"]
    architectures = "gfx90a|gfx942|gfx1100"
    default_architecture = "gfx942"
    stages = ("assembly", "elf")

    def compile(self, job: Job) -> ObjectCode:
        """The kernels as assembly and as a relocatable object, and the host object."""
        from weft_amdgcn.stages import compile_job

        return compile_job(self, job)
