# SPDX-License-Identifier: Apache-2.0
"""Which target the conformance tests run on: the CPU's own, or what WEFT_TEST_TARGET names.

In: the variable. Out: host functions that compile for that target wherever a test does not name one itself; for
`cuda`, direct calls copy their arrays to the GPU and back.
docs/recipes/add-a-backend.md has the command.
"""

from __future__ import annotations

import os
from typing import Any

import weft
from weft import api

TARGET = os.environ.get("WEFT_TEST_TARGET", "")
NAMES_A_TARGET = ("--target", "--gpu-arch")


def names_a_target(options: Any) -> bool:
    """Whether options, in any form, say what to compile for."""
    if isinstance(options, str):
        return any(flag in options for flag in NAMES_A_TARGET)
    given = options if isinstance(options, tuple) else (options,)
    return any(getattr(option, "flag", "") in NAMES_A_TARGET for option in given)


def jit_for(target: str) -> Any:
    """``weft.jit`` whose functions compile for a target unless their options name one."""
    plain = weft.jit

    def targeted(function: Any = None, /, *, options: Any = "") -> Any:
        named = names_a_target(options)
        if not named:
            if isinstance(options, str):
                options = f"--target {target} {options}"
            else:
                given = options if isinstance(options, tuple) else (options,)
                options = (weft.CompileTarget(target), *given)
        decorate = plain(options=options)
        if target == "cuda" and not named:
            from tests.conformance.on_cuda import on_cuda

            on_cpu = decorate
            decorate = lambda it: on_cuda(on_cpu(it))
        return decorate if function is None else decorate(function)

    return targeted


class CompileAsAsked(api.Compile):
    """``weft.compile``, where options that name a target take the place of the one that `jit_for` added."""

    def __getitem__(self, options: Any) -> CompileAsAsked:
        return CompileAsAsked(super().__getitem__(options)._typed)

    def __call__(
        self, function: Any, /, *arguments: Any, options: Any = "", **keywords: Any
    ) -> Any:
        own = (*self._typed, *(options if isinstance(options, tuple) else ()))
        if isinstance(function, api.JitFunction) and (
            names_a_target(options) or names_a_target(own)
        ):
            function = api.JitFunction(
                function.function,
                [option for option in function.default_options if not names_a_target((option,))],
            )
        return super().__call__(function, *arguments, options=options, **keywords)


if TARGET:
    # Before the test modules are imported, which is when they decorate their functions.
    weft.jit = api.jit = jit_for(TARGET)
    weft.compile = api.compile = CompileAsAsked()
