# SPDX-License-Identifier: Apache-2.0
"""Weft's side of compile_time: compiles an example when told to, and says how long each stage took.

In: `<target>:<example>`, such as `cubin:add_one` or `cpu:matmul`. Out: see `harness.serve`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys

import weft
from benchmarks.harness import serve
from examples.catalog import EXAMPLES, HOPPER_EXAMPLES

OPTIONS = {"cubin": "--gpu-arch sm_90a --enable-tvm-ffi", "cpu": "--target cpu"}
STAGE = re.compile(r"^  (\S.*?)\s+([\d.]+)$", re.MULTILINE)


def main(case: str) -> None:
    """Serve compilations of one example for one target."""
    target, name = case.split(":")
    example = next(one for one in (*EXAMPLES, *HOPPER_EXAMPLES) if one.name == name)
    options = f"{OPTIONS[target]} --time"

    def compile_once() -> dict[str, object]:
        with contextlib.redirect_stderr(io.StringIO()) as stages:
            compiled = weft.compile(example.function, *example.fake_arguments(), options=options)
        if target == "cubin":
            assert compiled.cubin[:4] == b"\x7fELF"
        return {"stages": {name: float(ms) for name, ms in STAGE.findall(stages.getvalue())}}

    # What the first compilation would import is counted by cold_start.
    importlib.import_module("weft.compiler.pipeline")
    for module in ("registry", "cpu.backend", "cuda.backend"):
        importlib.import_module(f"weft.backends.{module}")
    serve(f"weft {weft.__version__}", compile_once)


if __name__ == "__main__":
    main(sys.argv[1])
