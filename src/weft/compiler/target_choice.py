# SPDX-License-Identifier: Apache-2.0
"""Where a function will run: the backend and the architecture.

In: the devices of the tensor arguments, the options, the driver's devices. Out: one `TargetChoice`, or an error
that names the arguments that disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from weft.backends.registry import find_backend
from weft.driver.device import find_architecture
from weft.errors import ArgumentValueError, OptionError
from weft.types.device import CPU, CUDA, device_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.arguments.signature import Signature
    from weft.arguments.tensor import TensorKind
    from weft.backends.base import Backend
    from weft.compiler.options import CompileOptions

DEFAULT_TARGET: Final = "cpu"


class TargetChoice(NamedTuple):
    """A backend's name, the DLPack device type of its tensors, and the architecture to compile for or None."""

    name: str
    device_type: int
    architecture: str | None


class _Placed(NamedTuple):
    """A tensor whose place is known: from its example, its fake or its annotation."""

    name: str
    device_type: int
    ordinal: int | None
    is_example: bool


def choose_target(
    signature: Signature, options: CompileOptions, is_call: bool = False
) -> TargetChoice:
    """Follows the tensors: all on the CPU: cpu; all on CUDA: cuda. Without tensors, the options, else cpu.

    Examples are types: where the options name a target, it does not matter where they are. The arguments of a
    call must be where it runs. GPU code is for the architecture that the options name, else for that of the
    first tensor's device, else of the current device; where no driver can tell, for the backend's default.

    Args:
        signature: of the function.
        options: of the compilation; what the decorator alone says about GPUs is left out on the CPU.
        is_call: whether the arguments are those of a direct call.
    Raises:
        ArgumentValueError: if tensors are on different kinds of device.
        OptionError: if the options ask for another target than the tensors need.
    """
    placed = [found for p in signature.tensors() if (found := _placed(p.name, p.kind)) is not None]
    for other in placed[1:]:
        if other.device_type != placed[0].device_type:
            raise ArgumentValueError(
                "TENSORS_ON_TWO_TARGETS",
                f"argument '{placed[0].name}' is on {_device_name(placed[0].device_type)}, "
                f"argument '{other.name}' on {_device_name(other.device_type)}",
                hint="all tensors of a call are on the CPU, or all on CUDA devices",
            )
    _check_one_device(signature)
    wanted = options.insists_on_target if placed else options.wants_target
    backend = find_backend(
        wanted or (_target_of(placed[0].device_type) if placed else DEFAULT_TARGET)
    )
    for tensor in placed:
        if backend.device_type != tensor.device_type and (is_call or not tensor.is_example):
            raise _conflict(backend.name, tensor, is_call)
    if backend.device_type == CPU:
        options.leave_out_defaults_for_gpus()
    return TargetChoice(backend.name, backend.device_type, _architecture(backend, options, placed))


def _placed(name: str, kind: TensorKind) -> _Placed | None:
    if kind.example_device is not None:
        device_type, ordinal = kind.example_device
        return _Placed(name, device_type, ordinal, kind.device_type is None)
    if kind.device_type is not None:
        return _Placed(name, kind.device_type, kind.device_index, False)
    return None


def _conflict(target: str, tensor: _Placed, is_call: bool) -> OptionError:
    hint = (
        "without a target in the options, a call runs where its tensors are"
        if is_call
        else "compile with weft.fake_tensor(dtype, shape), which follows the target"
    )
    return OptionError(
        "OPTION_CONFLICT",
        f"the options ask for the target {target}, but argument '{tensor.name}' is on "
        f"{_device_name(tensor.device_type)}",
        hint=hint,
    )


def _architecture(
    backend: Backend, options: CompileOptions, placed: Sequence[_Placed]
) -> str | None:
    if options.gpu_arch is not None or backend.device_type != CUDA:
        return options.gpu_arch
    on_gpu = placed and placed[0].device_type == CUDA
    return find_architecture(placed[0].ordinal if on_gpu else None)


def _check_one_device(signature: Signature) -> None:
    """A call's tensors are on one device, so no call could have what is declared to be on two."""
    declared = [
        (p.name, device_name(p.kind.device_type, p.kind.device_index))
        for p in signature.tensors()
        if p.kind.device_type is not None and p.kind.device_index is not None
    ]
    for name, device in declared[1:]:
        if device != declared[0][1]:
            raise ArgumentValueError(
                "TENSORS_ON_TWO_DEVICES",
                f"argument '{declared[0][0]}' is on {declared[0][1]}, argument '{name}' on {device}",
                hint='the tensors of a call are on one device; leave the index out, as in device="cuda", for any',
            )


def _target_of(device_type: int) -> str:
    return "cpu" if device_type == CPU else "cuda"


def _device_name(device_type: int) -> str:
    return {CPU: "the CPU", CUDA: "CUDA"}.get(device_type, f"a device of DLPack type {device_type}")
