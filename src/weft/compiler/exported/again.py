# SPDX-License-Identifier: Apache-2.0
"""Compiles a function again from its module's text: for another CPU, or another architecture of a GPU.

In: what a compilation kept. Out: machine code, and the texts of each stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weft.backends.base import Job
from weft.backends.host import away_from_signals
from weft.backends.registry import find_backend
from weft.compiler.artifacts import Artifacts
from weft.compiler.depth import deep_recursion
from weft.compiler.module_text import parse_module
from weft.compiler.options import CompileOptions

if TYPE_CHECKING:
    from weft.runtime.object_code import ObjectCode


class Again(NamedTuple):
    """A second compilation, whose artifacts are its own."""

    job: Job
    artifacts: Artifacts
    code: ObjectCode


def compile_again(artifacts: Artifacts, target: str, architecture: str, host: Any = None) -> Again:
    """Compiles a module again; writes no file.

    Args:
        artifacts: of the first compilation.
        target: the backend's name.
        architecture: of the kernels.
        host: see `Job`.
    """
    options = CompileOptions()
    vars(options).update(vars(artifacts.options))
    options.keep, options.dump_dir = frozenset(), None
    fresh = Artifacts(artifacts.name, options)
    backend = find_backend(target)
    with deep_recursion():
        module = parse_module(artifacts.text("ir") or "")
        job = Job(module, architecture, options, fresh, host)
        return Again(job, fresh, away_from_signals(lambda: backend.compile(job)))
