# SPDX-License-Identifier: Apache-2.0
"""The C header of exported functions: their symbols, and their contracts in comments.

In: signatures. Out: C text that C++ reads, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from weft.arguments.base import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.runtime.compiled_function import CompiledDetails

_HEAD: Final = """\
/* Functions made by weft {version}: the C ABI of TVM-FFI.
 *
 * `arguments` are borrowed. 0 is success, and the result is in `result`, which the caller owns; -1 is an error, which
 * TVMFFIErrorMoveFromRaised gives. `handle` is NULL. A tensor is a DLTensor* (kTVMFFIDLTensorPtr) or an ffi.Tensor;
 * work on a GPU runs on the stream of TVMFFIEnvGetStream. Thread-safe.
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>
#include <tvm/ffi/c_api.h>

#ifdef __cplusplus
extern "C" {{
#endif
"""
_TAIL: Final = """
#ifdef __cplusplus
}}  // extern "C"
#endif

#endif  /* {guard} */
"""


def header_text(functions: Sequence[CompiledDetails], stem: str, version: str) -> str:
    """The header of functions.

    Args:
        functions: in their order.
        stem: of the file's name; the guard is made of it.
        version: weft's.
    """
    guard = "WEFT_" + re.sub(r"\W", "_", stem, flags=re.ASCII).upper() + "_H_"
    parts = [_HEAD.format(version=version, guard=guard)]
    for details in functions:
        parts.append(
            f"\n/* {_contract(details)}\n */\n"
            f"int32_t __tvm_ffi_{details.name}(void* handle, const TVMFFIAny* arguments, int32_t count,\n"
            "    TVMFFIAny* result);\n"
        )
    parts.append(_TAIL.format(guard=guard))
    return "".join(parts)


def _contract(details: CompiledDetails) -> str:
    lines = [details.signature.text]
    if details.documentation:
        lines += ["", *details.documentation.strip().splitlines()]
    lines.append("")
    for position, parameter in enumerate(details.signature.passed):
        default = "" if parameter.default is MISSING else f" (from Python {parameter.default!r})"
        written = any(
            path == parameter.name or path.startswith((f"{parameter.name}[", f"{parameter.name}."))
            for path in details.calling.written
        )
        note = ", written" if written else ""
        lines.append(f"arguments[{position}]: {parameter.text}{default}{note}")
    return "\n *".join(f" {line}".replace("*/", "* /").rstrip() for line in lines).lstrip()
