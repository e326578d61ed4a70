# SPDX-License-Identifier: Apache-2.0
"""Cost of one call, beside tvm_ffi, ctypes, cffi and a call of a Python function.

In: a native function that does nothing, one that gives its argument back, callbacks, errors, compiled functions that
check their arguments, and direct calls of functions and kernels. Out: nanoseconds per call, the loop of 4 to 8 ns
included. Both sides of a figure run the same machine code. `torch on cuda` needs torch for CUDA but no GPU: the runtime
is stubbed where there is none.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import subprocess
import sys
import timeit
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

import weft
from benchmarks.callees import address, build_cuda_stub, callees
from benchmarks.harness import ROOT, Figure, interleave, medians, report
from weft import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CALLS = 2_000  # of one measurement: short, so that most are not interrupted, and many
Vector = weft.Tensor[weft.f32, ("n",)]


@weft.jit
def empty():
    """Take nothing and do nothing."""


@weft.jit
def one(a: Vector):
    """Check one vector and do nothing."""


@weft.jit
def three(a: Vector, b: Vector, c: Vector):
    """Check three vectors of one length and do nothing."""


@weft.jit
def two(a: Vector, b: Vector):
    """Check two vectors of one length and do nothing."""


@weft.jit
def two_and_number(a: Vector, b: Vector, scale: weft.f32 = 1.0):
    """Check two vectors and a number, which has a default, and do nothing."""


@weft.jit
def scalars(a: weft.i32, b: weft.f32):
    """Check two scalars and do nothing."""


@weft.kernel
def add_one_kernel(a: weft.Tensor, b: weft.Tensor):
    """Add one to each element."""
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.kernel
def add_one_each(a: weft.Tensor, b: weft.Tensor):
    """Add one to each element."""
    for i in weft.each(a.shape[0]):
        b[i] = a[i] + 1.0


@weft.jit
def add_one(a: Vector, b: Vector):
    """Check two vectors and launch a kernel over sixteen elements."""
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


# Calls of a native function that does nothing: what is passed, how, and the goal in ns (design: section 14).
PLAIN_CASES = (
    ("0 arguments", "f()", 20),
    ("1 int", "f(1)", None),
    ("3 ints", "f(1, 2, 3)", None),
    ("8 ints", "f(1, 2, 3, 4, 5, 6, 7, 8)", None),
    ("1 float", "f(1.5)", None),
    ("3 floats", "f(1.5, 2.5, 3.5)", None),
    ("8 floats", "f(1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5)", None),
    ("str of 5", "f('abcde')", None),
    ("str of 40", "f(text)", None),
    ("tuple of 3 ints", "f((1, 2, 3))", None),
)
ARRAY_CASES = (("1 {}", "f(a)"), ("3 {}", "f(a, b, c)"), ("8 {}", "f(a, b, c, d, e, g, h, i)"))
GOALS = {
    "3 numpy arrays": 45,
    "3 torch tensors": 80,
    "3 numpy arrays by keyword": 90,
    "1 torch tensor on cuda": 65,
    "3 torch tensors on cuda": 105,
    "echo of a numpy array": 100,
    "echo of a torch tensor": 100,
    "callback with an int": 150,
    "error": 1000,
    "direct, 0 arguments": 80,
    "direct, 2 numpy arrays": 200,
    "direct, 3 torch tensors": 250,
    "direct, kernel[grid, block] of 2 numpy arrays": 400,
    "direct, kernel.over(n) of 2 numpy arrays": 400,
}


def stopwatch(call: str, names: Mapping[str, Any]) -> Callable[[], float]:
    """Measures one evaluation of `call` in nanoseconds, in a loop of its own; the loop counts in."""
    timer = timeit.Timer(call, globals=dict(names))
    timer.timeit(CALLS)
    return lambda: timer.timeit(CALLS) / CALLS * 1e9


def compare(
    name: str, candidates: Mapping[str, tuple[str, Mapping[str, Any]]], repeats: int
) -> Iterator[Figure]:
    """One figure for each peer: the first candidate is ours."""
    measured = {who: stopwatch(call, names) for who, (call, names) in candidates.items()}
    found = medians(interleave(measured, repeats))
    (ours, value), *peers = found.items()
    goal = GOALS.get(name)
    note = "; ".join(([ours] if ours != "weft" else []) + ([f"goal {goal} ns"] if goal else []))
    for peer, peer_value in peers or [(None, None)]:
        yield Figure(f"call_overhead/{name}", value, "ns", peer, peer_value, note)


def own(name: str, count: int) -> _native.Function:
    """A native function as a compiled one is called: a plan, tensors as DLTensor*, the GIL held."""
    plan = _native.CallPlan(name, f"{name}(...)", [f"a{index}" for index in range(count)])
    return _native.Function.from_address(address(name), None, None, plan)


def foreign(name: str, release_gil: bool) -> _native.Function:
    """A native function of which nothing is known: tensors as counted objects."""
    function = _native.Function.from_address(address(name), None)
    function.release_gil = release_gil
    return function


def peer(name: str, release_gil: bool) -> Any:
    """The same function of the tvm_ffi package."""
    function = tvm_ffi.core.Function.__from_extern_c__(address(name))
    function.release_gil = release_gil
    return function


def candidates_for(
    call: str, names: Mapping[str, Any], code: str = "nothing", plan: bool = True
) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Ours and tvm_ffi's, each with the GIL held and released; the first is what a compiled function does."""
    count = call.count(",") + (0 if call == "f()" else 1)
    ours = {"weft": own(code, count)} if plan else {}
    functions = {
        **ours,
        "weft, foreign, GIL held": foreign(code, False),
        "tvm_ffi, GIL held": peer(code, False),
        "weft, foreign, GIL released": foreign(code, True),
        "tvm_ffi, GIL released": peer(code, True),
    }
    return {who: (call, {"f": function, **names}) for who, function in functions.items()}


def plain_calls(repeats: int) -> Iterator[Figure]:
    """Arguments that are not arrays, and what other ways of calling C cost."""
    names = {"text": "a text of exactly forty characters, surely"[:40]}
    for name, call, _ in PLAIN_CASES:
        candidates = candidates_for(
            call, names, plan="(1, 2, 3)" not in call or call == "f(1, 2, 3)"
        )
        count = {"f()": 0, "f(1)": 1, "f(1, 2, 3)": 3}.get(call)
        if count is not None:
            candidates |= {who: (call, {"f": f}) for who, f in other_ways(count).items()}
        yield from compare(name, candidates, repeats)


def other_ways(count: int) -> dict[str, Any]:
    """The same nothing through ctypes, cffi and as a Python function of `count` parameters."""
    library = callees()
    by_ctypes = getattr(library, f"plain{count}")
    by_ctypes.argtypes, by_ctypes.restype = [ctypes.c_long] * count, None
    parameters = ", ".join("abcdefgh"[:count])
    ways = {"ctypes": by_ctypes, "a Python function": eval(f"lambda {parameters}: None")}
    if importlib.util.find_spec("cffi") is not None:
        import cffi

        ffi = cffi.FFI()
        ffi.cdef(f"void plain{count}({', '.join(['long'] * count) or 'void'});")
        ways["cffi"] = getattr(ffi.dlopen(library._name), f"plain{count}")
    return ways


def array_calls(kind: str, make: Any, repeats: int) -> Iterator[Figure]:
    """1, 3 and 8 arrays of one library; three by keyword, which tvm_ffi's functions do not take."""
    names = {letter: make() for letter in "abcdeghi"}
    noun = "arrays" if kind == "numpy" else "tensors"
    where = " on cuda" if kind == "cuda" else ""
    library = "torch" if kind == "cuda" else kind
    for title, call in ARRAY_CASES:
        plural = noun if "1" not in title else noun[:-1]
        yield from compare(
            title.format(f"{library} {plural}{where}"), candidates_for(call, names), repeats
        )
    by_position = candidates_for("f(a, b, c)", names)
    plan = _native.CallPlan("nothing", "nothing(a, b, c)", ["a", "b", "c"])
    by_keyword = _native.Function.from_address(address("nothing"), None, None, plan)
    ours = ("f(a, b=b, c=c)", {"f": by_keyword, **names})
    theirs = by_position["tvm_ffi, GIL held"]
    title = f"3 {library} {noun} by keyword{where}"
    yield from compare(title, {"weft": ours, "tvm_ffi by position, GIL held": theirs}, repeats)


def results_and_errors(makers: Mapping[str, Any], repeats: int) -> Iterator[Figure]:
    """What comes back: the argument, or an error."""
    for kind, make in makers.items():
        noun = "numpy array" if kind == "numpy" else "torch tensor"
        names = {"a": make()}
        yield from compare(
            f"echo of a {noun}", candidates_for("f(a)", names, "echo", plan=False), repeats
        )
    text = {"text": "a text of exactly forty characters, surely"[:40]}
    yield from compare(
        "echo of a str of 40", candidates_for("f(text)", text, "echo", plan=False), repeats
    )
    for title, code in (
        ("error", "fail"),
        ("error with a native backtrace", "fail_with_backtrace"),
    ):
        call = "try: f()\nexcept ValueError: pass"
        ours = {"weft": (call, {"f": own(code, 0)})}
        yield from compare(title, ours | candidates_for(call, {}, code, plan=False), repeats)


def callbacks(makers: Mapping[str, Any], repeats: int) -> Iterator[Figure]:
    """Python that calls Python through the ABI, and C that calls Python."""
    for name, call in (("no argument", "f()"), ("an int", "f(1)"), ("3 ints", "f(1, 2, 3)")):
        parameters = {"f()": "", "f(1)": "a", "f(1, 2, 3)": "a, b, c"}[call]
        callable_ = eval(f"lambda {parameters}: None")
        ours, theirs = weft.ffi.wrap_function(callable_), tvm_ffi.convert(callable_)
        held = tvm_ffi.convert(callable_)
        held.release_gil = False
        candidates = {
            "weft": (call, {"f": ours}),
            "tvm_ffi, GIL held": (call, {"f": held}),
            "tvm_ffi, GIL released": (call, {"f": theirs}),
            "a Python function": (call, {"f": callable_}),
        }
        yield from compare(f"callback with {name}", candidates, repeats)
    for kind, make in makers.items():
        names = {"a": make()}
        ours = weft.ffi.wrap_function(lambda a: None)
        theirs = tvm_ffi.convert(lambda a: None)
        theirs.release_gil = False
        candidates = {
            "weft": ("f(a)", {"f": ours, **names}),
            "tvm_ffi, GIL held": ("f(a)", {"f": theirs, **names}),
        }
        yield from compare(f"callback with a {kind} array, as that array", candidates, repeats)
    repeat = 100
    ours = {"f": foreign("call_repeatedly", False), "g": weft.ffi.wrap_function(lambda a: None)}
    theirs = {"f": peer("call_repeatedly", False), "g": tvm_ffi.convert(lambda a: None)}
    call = f"f(g, {repeat}, 1)"
    timers = {
        who: timeit.Timer(call, globals=names)
        for who, names in (("weft", ours), ("tvm_ffi", theirs))
    }
    measured = {
        who: lambda timer=timer: timer.timeit(20) / 20 / repeat * 1e9
        for who, timer in timers.items()
    }
    each = medians(interleave(measured, repeats))
    yield Figure(
        "call_overhead/C calls Python, 1 int", each["weft"], "ns", "tvm_ffi", each["tvm_ffi"]
    )


def compiled_calls(makers: Mapping[str, Any], repeats: int) -> Iterator[Figure]:
    """Compiled functions, which check what they are given, called through weft and through tvm_ffi."""
    vector = weft.fake_tensor(weft.f32, (weft.sym("n"),))
    options = "--target cpu --enable-tvm-ffi"
    cases = [
        ("0 arguments", weft.compile(empty, options=options), "f()"),
        ("int and float", weft.compile(scalars, 1, 2.0, options=options), "f(1, 2.0)"),
    ]
    checked = (
        ("1 {}", weft.compile(one, vector, options=options), "f(a)"),
        ("3 {}", weft.compile(three, vector, vector, vector, options=options), "f(a, b, c)"),
        (
            "add_one over 16 elements, 2 {}",
            weft.compile(add_one, vector, vector, options=options),
            "f(a, b)",
        ),
    )
    given: dict[str, dict[str, Any]] = {name: {} for name, _, _ in cases}
    for kind, make in makers.items():
        names = {letter: make() for letter in "abc"}
        for title, function, call in checked:
            name = title.format(f"{kind} array{'' if title[0] == '1' else 's'}")
            cases.append((name, function, call))
            given[name] = names
    for name, function, call in cases:
        theirs = function.as_tvm_ffi()
        theirs.release_gil = False
        candidates = {
            "weft": (call, {"f": function, **given[name]}),
            "tvm_ffi, GIL held": (call, {"f": theirs, **given[name]}),
        }
        yield from compare(f"checked, {name}", candidates, repeats)
    function, a, b = checked[2][1], makers["numpy"](), np.zeros(12, np.float32)
    theirs = function.as_tvm_ffi()
    theirs.release_gil = False
    call = "try: f(a, b)\nexcept ValueError: pass"
    candidates = {
        "weft": (call, {"f": function, "a": a, "b": b}),
        "tvm_ffi, GIL held": (call, {"f": theirs, "a": a, "b": b}),
    }
    yield from compare("checked, wrong shape raised", candidates, repeats)


def direct_calls(makers: Mapping[str, Any], repeats: int) -> Iterator[Figure]:
    """Functions of ``@weft.jit`` and kernels as they are called, beside the compiled function and other compilers."""
    cases = [
        ("0 arguments", "f()", {"f": empty}),
        ("kernel[grid, block] of 2 {}", "f[1, 128](a, b)", {"f": add_one_kernel}),
        ("kernel.over(n) of 2 {}", "f.over(16)(a, b)", {"f": add_one_each}),
        ("add_one over 16 elements, 2 {}", "f(a, b)", {"f": add_one}),
        ("2 {}", "f(a, b)", {"f": two}),
        ("2 {} by keyword", "f(b=b, a=a)", {"f": two}),
        ("2 {} and a default", "f(a, b)", {"f": two_and_number}),
        ("3 {}", "f(a, b, c)", {"f": three}),
    ]
    for kind, make in makers.items():
        noun = f"{kind} {'arrays' if kind == 'numpy' else 'tensors'}"
        names = {letter: make() for letter in "abc"}
        for title, call, given in cases:
            if title == "0 arguments" and kind != "numpy":
                continue
            candidates = {"weft": (call, {**given, **names})}
            exec(call, {**given, **names})
            if call in {"f(a, b)", "f(a, b, c)"}:
                compiled = given["f"].specializations[-1]
                candidates["the compiled function"] = (call, {"f": compiled, **names})
                if "default" not in title:
                    theirs = compiled.as_tvm_ffi()
                    theirs.release_gil = False
                    candidates["tvm_ffi, GIL held"] = (call, {"f": theirs, **names})
                # Numba has types of NumPy's arrays only.
                has_numba = kind == "numpy" and importlib.util.find_spec("numba") is not None
                if has_numba and call == "f(a, b, c)":
                    import numba

                    candidates["numba.njit"] = (
                        call,
                        {"f": numba.njit(lambda a, b, c: None), **names},
                    )
            yield from compare(f"direct, {title.format(noun)}", candidates, repeats)


class Memory(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def kept_calls(makers: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A call to repeat: name, function, names in it."""
    echo, nothing = foreign("echo", True), own("nothing", 3)
    for kind, make in makers.items():
        yield f"3 {kind} arrays", "f(a, b, c)", {"f": nothing, **{name: make() for name in "abc"}}
        yield f"echo of a {kind} array", "f(a)", {"f": echo, "a": make()}
    text = "a text of exactly forty characters, surely"[:40]
    yield "echo of a str and a tuple", "f(a); f(b)", {"f": echo, "a": text, "b": (1, (text, 2.5))}
    function = weft.ffi.wrap_function(lambda value: value)
    array = next(iter(makers.values()))()
    yield "callbacks that return their argument", "f(a); f(1)", {"f": function, "a": array}
    yield "errors", "try: f()\nexcept ValueError: pass", {"f": foreign("fail", True)}


def kept_memory(makers: Mapping[str, Any], calls: int) -> Iterator[Figure]:
    """Bytes of the heap, and blocks of Python's allocator, that are still in use after many calls, per call."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Memory
    for title, call, names in kept_calls(makers):
        timer = timeit.Timer(call, globals=names)
        timer.timeit(10_000)
        before, blocks = mallinfo().uordblks, sys.getallocatedblocks()
        timer.timeit(calls)
        kept = (mallinfo().uordblks - before) / calls
        more = sys.getallocatedblocks() - blocks
        note = f"{calls:,} times; {more} more Python blocks in all"
        yield Figure(f"call_overhead/bytes kept per call, {title}", kept, "B", note=note)


def libraries() -> dict[str, Any]:
    """Makers of arrays on the CPU, of the libraries that are installed."""
    makers: dict[str, Any] = {"numpy": lambda: np.zeros(16, np.float32)}
    if importlib.util.find_spec("torch") is not None:
        import torch

        makers["torch"] = lambda: torch.zeros(16)
    return makers


def cuda_calls(repeats: int) -> Iterator[Figure]:
    """Tensors on a CUDA device, with the query of the current stream that each call makes."""
    import torch

    yield from array_calls("cuda", lambda: torch.empty(16, device="cuda"), repeats)


def run_cuda_calls(arguments: argparse.Namespace) -> None:
    """The same in this process where there is a GPU, else in one whose CUDA runtime is stubbed."""
    if importlib.util.find_spec("torch") is None:
        return report(
            [Figure("call_overhead/cuda", None, "ns", note="torch is not installed")],
            arguments.json,
        )
    import torch

    if torch.version.cuda is None:
        note = f"torch {torch.__version__} is not built for CUDA"
        return report([Figure("call_overhead/cuda", None, "ns", note=note)], arguments.json)
    if torch.cuda.is_available():
        return report(cuda_calls(arguments.repeats), arguments.json)
    folder = build_cuda_stub()
    environment = {**os.environ, "LD_PRELOAD": str(folder / "cudart_stub.so")}
    environment["LD_LIBRARY_PATH"] = f"{folder}:{environment.get('LD_LIBRARY_PATH', '')}"
    command = [sys.executable, "-m", "benchmarks.call_overhead", "--only-cuda"]
    command += ["--repeats", str(arguments.repeats), *(["--json"] if arguments.json else [])]
    subprocess.run(command, env=environment, cwd=ROOT, check=True)
    return None


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line per figure")
    parser.add_argument("--repeats", type=int, default=101, help="measurements of each kind")
    parser.add_argument(
        "--memory-calls", type=int, default=10_000_000, help="for bytes kept per call"
    )
    parser.add_argument("--only-direct", action="store_true", help="direct calls only")
    parser.add_argument("--only-cuda", action="store_true", help="tensors on a CUDA device only")
    arguments = parser.parse_args()
    if arguments.only_cuda:
        return report(cuda_calls(arguments.repeats), arguments.json)
    makers = libraries()
    if arguments.only_direct:
        return report(direct_calls(makers, arguments.repeats), arguments.json)
    report(plain_calls(arguments.repeats), arguments.json)
    for kind, make in makers.items():
        report(array_calls(kind, make, arguments.repeats), arguments.json)
    run_cuda_calls(arguments)
    report(results_and_errors(makers, arguments.repeats), arguments.json)
    report(callbacks(makers, arguments.repeats), arguments.json)
    report(compiled_calls(makers, arguments.repeats), arguments.json)
    report(direct_calls(makers, arguments.repeats), arguments.json)
    report(kept_memory(makers, arguments.memory_calls), arguments.json)
    return None


if __name__ == "__main__":
    main()
