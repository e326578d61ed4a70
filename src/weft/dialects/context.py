# SPDX-License-Identifier: Apache-2.0
"""The dialects of weft's IR.

Out: an xDSL context that parses every module weft prints.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, scf, ub

from weft.dialects.ffi import FFI
from weft.dialects.nvgpu import NVGPU
from weft.dialects.simt import SIMT

DIALECTS = (builtin.Builtin, func.Func, arith.Arith, math.Math, scf.Scf, ub.UB, SIMT, NVGPU, FFI)


def make_context() -> Context:
    """A context with weft's dialects loaded, for `xdsl.parser.Parser`."""
    context = Context()
    for dialect in DIALECTS:
        context.load_dialect(dialect)
    return context
