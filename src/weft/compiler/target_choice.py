# SPDX-License-Identifier: Apache-2.0
"""Chooses backend and architecture.

In: the devices of the tensor arguments, the options, the backends. Out: a `TargetChoice`, or an error that names the
conflicting arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from weft.backends.registry import find_backend, find_backend_of
from weft.errors import ArgumentValueError, OptionError
from weft.types.device import CPU, device_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.arguments.signature import Signature
    from weft.arguments.tensor import TensorKind
    from weft.backends.base import Backend
    from weft.compiler.options import CompileOptions

DEFAULT_TARGET: Final = "cpu"


class TargetChoice(NamedTuple):
    """The backend and its architecture; empty for a backend without architectures."""

    backend: Backend
    architecture: str


class _Placed(NamedTuple):
    """A tensor on a known device: from its example, fake or annotation."""

    name: str
    device_type: int
    ordinal: int | None
    is_example: bool


def choose_target(
    signature: Signature, options: CompileOptions, is_call: bool = False
) -> TargetChoice:
    """The target of the tensors' device; without tensors, of the options, else cpu.

    If the options name a target, the devices of examples do not matter; the arguments of a call must be where it runs.
    The architecture is that of the options, else of the first tensor's device, else of the current device; without a
    driver, the backend's default.

    Args:
        signature: of the function.
        options: of the compilation, without the decorator's options for other targets.
        is_call: whether the arguments are those of a direct call.
    Raises:
        ArgumentValueError: if tensors are on different kinds of device, or on an unsupported one.
        OptionError: if the options ask for a different target than the tensors need.
    """
    placed = [found for p in signature.tensors() if (found := _placed(p.name, p.kind)) is not None]
    for other in placed[1:]:
        if other.device_type != placed[0].device_type:
            raise ArgumentValueError(
                "TENSORS_ON_TWO_TARGETS",
                f"argument '{placed[0].name}' is on {_device_name(placed[0].device_type)}, "
                f"argument '{other.name}' on {_device_name(other.device_type)}",
                hint="put all tensors on the CPU, or all on one kind of device",
            )
    _check_one_device(signature)
    wanted = options.insists_on_target if placed else options.wants_target
    if wanted is None and placed:
        backend = _backend_of(placed[0])
    else:
        backend = find_backend(wanted or DEFAULT_TARGET)
    for tensor in placed:
        if backend.device_type != tensor.device_type and (is_call or not tensor.is_example):
            raise _conflict(backend.name, tensor, is_call)
    options.fit(backend)
    return TargetChoice(backend, options.gpu_arch or _architecture(backend, placed))


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


def _architecture(backend: Backend, placed: Sequence[_Placed]) -> str:
    """The architecture of the device where the code will run, if known."""
    is_there = placed and placed[0].device_type == backend.device_type
    found = backend.find_architecture(placed[0].ordinal if is_there else None)
    return found or backend.default_architecture


def _check_one_device(signature: Signature) -> None:
    """Refuses tensors declared on two devices, since all tensors of a call are on one."""
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
                hint='all tensors of a call must be on one device; device="cuda" without an index allows any',
            )


def _backend_of(tensor: _Placed) -> Backend:
    backend = find_backend_of(tensor.device_type)
    if backend is None:
        raise ArgumentValueError(
            "TENSOR_DEVICE",
            f"argument '{tensor.name}' is on {_device_name(tensor.device_type)}, which no target compiles for",
            hint="move it to the CPU or to a CUDA device",
        )
    return backend


def _device_name(device_type: int) -> str:
    return "the CPU" if device_type == CPU else device_name(device_type)
