# SPDX-License-Identifier: Apache-2.0
"""A module and its context go together, whichever of them Python finalizes first, and whatever interrupts."""

from __future__ import annotations

import subprocess
import sys
import weakref

import pytest

from weft.codegen.llvm.optimize import link_text, parse, parse_module
from weft.errors import InternalCompilerError

TEXT = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"

# A context in a cycle with its modules: what an exception that is kept holds of a compilation that failed.
CYCLES = f"""
import gc
from weft.codegen.llvm.optimize import link_text, parse

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


def test_a_kept_compile_exception_is_harmless():
    done = subprocess.run([sys.executable, "-c", CYCLES], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


# An exception at each line that Python runs while a module is parsed, as a signal's handler raises one, with the frames
# kept and let go in the orders there are.
INTERRUPTED = f"""
import gc, sys, traceback
from weft.codegen.llvm.optimize import parse_module
from weft.codegen.llvm.optimize import link_text

class Interrupt(BaseException):
    pass

def interrupted_at(step, text):
    seen = 0
    def trace(frame, event, argument):
        nonlocal seen
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("llvmlite", "weft")):
            return None
        seen += event == "line"
        if seen == step and event == "line" and frame.f_code.co_name not in ("__del__", "_dispose"):
            sys.settrace(None)
            raise Interrupt
        return trace
    module = other = None
    sys.settrace(trace)
    try:
        module = parse_module(text)
        other = parse_module(text.replace("@f", "@g"), beside=module)
        module.verify()
    except Interrupt as error:
        return error
    except RuntimeError as error:
        return None
    finally:
        sys.settrace(None)
        del module, other

for text in ({TEXT!r}, "nonsense"):
    step = found = 0
    while True:
        step += 1
        error = interrupted_at(step, text)
        if error is None and step > 5 * found + 50:
            break
        if error is None:
            continue
        found += 1
        if step % 3 == 0:
            traceback.clear_frames(error.__traceback__)
        elif step % 3 == 1:
            error.itself = error
        del error
        gc.collect()
    print(found > 10)
"""


def test_an_exception_anywhere_in_parsing_does_not_end_the_process():
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", INTERRUPTED], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr


def test_a_module_goes_with_its_context():
    module = parse_module(TEXT)
    other = parse_module(TEXT.replace("@f", "@g"), beside=module)
    context = weakref.ref(module._context)
    assert other._context is module._context
    module.close()
    module.close()
    del module
    assert context() is not None
    assert {function.name for function in other.functions} == {"g"}
    del other
    assert context() is None


def test_a_linked_module_is_gone():
    module = parse(TEXT, "text")
    link_text(module, TEXT.replace("@f", "@g"), "another")
    assert {function.name for function in module.functions} == {"f", "g"}


@pytest.mark.parametrize("beside", [False, True])
def test_text_that_is_not_a_module_leaves_the_others_unchanged(beside: bool):
    module = parse(TEXT, "text")
    with pytest.raises(InternalCompilerError, match="LLVM refuses the nonsense"):
        parse("nonsense", "nonsense", beside=module if beside else None)
    module.verify()
    assert {function.name for function in module.functions} == {"f"}
