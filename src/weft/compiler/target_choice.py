# SPDX-License-Identifier: Apache-2.0
"""Where a function will run: the backend and the architecture.

In: the devices of the tensor arguments, the options. Out: one `TargetChoice`, or an error that names the
arguments that disagree. Next: pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.registry import find_backend
from weft.errors import ArgumentValueError, OptionError

if TYPE_CHECKING:
    from weft.arguments.signature import Signature
    from weft.compiler.options import CompileOptions

DEFAULT_TARGET: Final = "cpu"


class TargetChoice:
    """A backend's name, the DLPack device type of its tensors, and the architecture to compile for."""

    __slots__ = ("architecture", "device_type", "name")

    def __init__(self, name: str, device_type: int, architecture: str | None) -> None:
        self.name = name
        self.device_type = device_type
        self.architecture = architecture


def choose_target(signature: Signature, options: CompileOptions) -> TargetChoice:
    """Follows the tensors: all on the CPU: cpu; all on CUDA: cuda. Without tensors, the options, else cpu.

    Raises:
        ArgumentValueError: if tensors are on different kinds of device.
        OptionError: if the options ask for another target than the tensors need.
    """
    placed = [(p.name, p.kind.device_type) for p in signature.tensors() if p.kind.device_type]
    for name, device_type in placed[1:]:
        if device_type != placed[0][1]:
            raise ArgumentValueError(
                "TENSORS_ON_TWO_TARGETS",
                f"argument '{placed[0][0]}' is on {_device_name(placed[0][1])}, "
                f"argument '{name}' on {_device_name(device_type)}",
                hint="all tensors of a call are on the CPU, or all on CUDA devices",
            )
    wanted = options.wants_target
    if not placed:
        backend = find_backend(wanted or DEFAULT_TARGET)
        return TargetChoice(backend.name, backend.device_type, options.gpu_arch)
    device_type = placed[0][1]
    backend = find_backend(wanted or _target_of(device_type))
    if backend.device_type != device_type:
        raise OptionError(
            "OPTION_CONFLICT",
            f"the options ask for the target {backend.name}, but argument '{placed[0][0]}' is on "
            f"{_device_name(device_type)}",
            hint="compile with weft.fake_tensor(dtype, shape), which follows the target",
        )
    return TargetChoice(backend.name, device_type, options.gpu_arch)


def _target_of(device_type: int) -> str:
    return "cpu" if device_type == 1 else "cuda"


def _device_name(device_type: int) -> str:
    return {1: "the CPU", 2: "CUDA"}.get(device_type, f"a device of DLPack type {device_type}")
