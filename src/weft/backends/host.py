# SPDX-License-Identifier: Apache-2.0
"""What every backend prints into the host object besides its own launches.

In: func.func and ffi.func. Out: the table of what stands at the top of a host module. Next: base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import func

from weft.codegen.host_function import print_host_function

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from weft.codegen.module_printer import SymbolPrinter

HOST_SYMBOLS: Final[dict[type[Operation], SymbolPrinter]] = {func.FuncOp: print_host_function}
