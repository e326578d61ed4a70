# SPDX-License-Identifier: Apache-2.0
"""A module and its context go together, whichever of them Python finalizes first."""

from __future__ import annotations

import subprocess
import sys

import pytest

from weft.codegen.llvm_module import OwnedModule, parse_module
from weft.codegen.optimize import link_text, parse
from weft.errors import InternalCompilerError

TEXT = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"

# A context in a cycle with its modules: what an exception that is kept holds of a compilation that failed.
CYCLES = f"""
import gc
from weft.codegen.optimize import link_text, parse

class Kept:
    pass

for count in range(300):
    module = parse({TEXT!r}, "text")
    kept = Kept()
    kept.first, kept.second, kept.self = module._context, module, kept
    try:
        link_text(module, {TEXT!r}, "another f")
    except Exception as error:
        kept.error, error.kept = error, kept
    del module, kept
    gc.collect()
print("done")
"""


def test_a_kept_exception_of_a_failed_compilation_does_not_end_the_process():
    done = subprocess.run([sys.executable, "-c", CYCLES], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_the_last_module_takes_the_context_along():
    module = parse_module(TEXT)
    other = parse_module(TEXT.replace("@f", "@g"), beside=module)
    context = module._context
    assert isinstance(module, OwnedModule)
    assert other._context is context
    assert context.modules == 2
    context.close()  # what Python's finalizer of the context does
    assert not context.closed
    other.close()
    other.close()
    assert context.modules == 1
    module.close()
    assert context.closed


def test_a_linked_module_is_gone():
    module = parse(TEXT, "text")
    link_text(module, TEXT.replace("@f", "@g"), "another")
    assert module._context.modules == 1
    assert {function.name for function in module.functions} == {"f", "g"}


@pytest.mark.parametrize("beside", [False, True])
def test_text_that_is_no_module_leaves_nothing_open(beside: bool):
    module = parse(TEXT, "text")
    with pytest.raises(InternalCompilerError, match="LLVM refuses the nonsense"):
        parse("nonsense", "nonsense", beside=module if beside else None)
    assert module._context.modules == 1
