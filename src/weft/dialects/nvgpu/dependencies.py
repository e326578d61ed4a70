# SPDX-License-Identifier: Apache-2.0
"""Kernels that begin before the one before them in the stream has ended: `nvgpu.grid_dependency_wait`.

In: nothing. Out: nothing. Launched with `programmatic=True`; PTX's `griddepcontrol`.
"""

from __future__ import annotations

from xdsl.irdl import IRDLOperation, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from weft.dialects.definition import operation_definition


@operation_definition
class GridDependencyWaitOp(IRDLOperation):
    """The thread waits until the kernel before this one has ended and its writes are seen."""

    name = "nvgpu.grid_dependency_wait"

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"


@operation_definition
class GridDependencyLaunchOp(IRDLOperation):
    """The block does not hold the next kernel's begin up any longer; it begins once each block has said so or left."""

    name = "nvgpu.grid_dependency_launch"

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"
