# SPDX-License-Identifier: Apache-2.0
"""The parameters that a function gets besides its own: one per launch of a kernel with a profiler.

In: a signature and what the trace found. Out: the signature that the wrapper checks; callers leave these out,
and their default asks the active capture for memory. Next: ffi_wrapper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.arguments.profile import profile_kind
from weft.arguments.signature import Parameter, Signature

if TYPE_CHECKING:
    from collections.abc import Sequence


def with_profiles(signature: Signature, names: Sequence[str], device_type: int) -> Signature:
    """The signature with these parameters behind its own, by name only."""
    if not names:
        return signature
    from weft.profiler.capturing import LaunchBuffer

    more = [
        Parameter(
            name,
            profile_kind(name).replaced(device_type=device_type),
            LaunchBuffer(signature.name, device_type),
            keyword_only=True,
        )
        for name in names
    ]
    return Signature(signature.name, (*signature.parameters, *more), signature.device_type)


def without_profiles(signature: Signature) -> Signature:
    """The signature as the function's source has it."""
    own = tuple(p for p in signature.parameters if not is_profile(p))
    return Signature(signature.name, own, signature.device_type)


def is_profile(parameter: Parameter) -> bool:
    """Whether a parameter was added by `with_profiles`; asks without importing the profiler."""
    return getattr(parameter.default, "is_launch_buffer", None) is True
