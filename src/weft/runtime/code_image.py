# SPDX-License-Identifier: Apache-2.0
"""Makes object code callable: linked into this process, with its state.

In: an `ObjectCode`, an object loader, a load policy. Out: a `_native.CodeImage`, which owns code,
state and libraries, and lives as long as any function made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from weft import _native
from weft.config import config
from weft.driver.library import DEVICE_TYPE, prepare_driver
from weft.ffi.library import open_ffi_library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weft.runtime.object_code import ObjectCode

STATE_SYMBOL: Final = "weft_state"
"""The object's variable for its state; the new image fills it."""

ENTRY_PREFIX: Final = "__tvm_ffi_"


class LoadedCode(Protocol):
    """Code in memory, for the life of this object.

    Attributes:
        addresses: symbol → address.
    """

    addresses: Mapping[str, int]


def link(
    code: ObjectCode,
    load_object: Callable[[bytes, Sequence[str]], Any],
    load_policy: int,
) -> _native.CodeImage:
    """Loads the host object and makes the image over it; kernels are loaded on first use.

    Args:
        code: what was compiled.
        load_object: from an object's bytes and the wanted symbols to a `LoadedCode`.
        load_policy: of an `Executor`.

    Raises:
        ImportError: if libtvm_ffi, which generated code needs for its errors, cannot be opened.
    """
    open_ffi_library()
    _native.set_error_backtraces(config.backtrace)
    _native.set_cpu_threads(config.num_threads)
    _native.set_cpu_multiprocessors(config.cpu_multiprocessors)
    _native.set_cpu_max_clusters(config.cpu_max_clusters)
    loaded: LoadedCode = load_object(code.host_object, [*code.entry_symbols, STATE_SYMBOL])
    name = code.entry_symbols[0].removeprefix(ENTRY_PREFIX)
    program = None
    if code.device_code:
        missing = ""
        if code.device_type == DEVICE_TYPE:
            prepare_driver()
        else:
            missing = f"{name}: there is no driver for {code.target} here, and its kernels are for {code.architecture}"
        names = [kernel.name for kernel in code.kernels]
        program = _native.DeviceProgram(code.device_code, names, name, code.architecture, missing)
    return _native.CodeImage(
        name, dict(loaded.addresses), loaded, load_policy, code.kernels, program
    )
