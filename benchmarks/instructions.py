# SPDX-License-Identifier: Apache-2.0
"""Instructions of one call, counted by callgrind: unlike times, they do not depend on what else the machine does.

In: the main cases of call_overhead, and launches on a fake driver, whose own instructions are left out. Out:
instructions per call without those of the loop, beside tvm_ffi, and calls of an allocator per call. Needs valgrind and
its headers, and takes a minute.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.callees import compile_library
from benchmarks.harness import ROOT, Figure, parse_arguments, report

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 1000
ALLOCATORS = re.compile(
    r"^(malloc|calloc|realloc|posix_memalign|aligned_alloc|operator new.*|_?PyObject_(Malloc|Calloc|Realloc)"
    r"|_?PyMem_(Malloc|Calloc|Realloc)|_PyObject_GC_(New|NewVar|Malloc))(@.*|'\d+)?$"
)


def cases() -> dict[str, tuple[str, dict[str, Any], dict[str, Any]]]:
    """Case → the call, our names, tvm_ffi's names."""
    import numpy as np

    from benchmarks import call_overhead as calls
    from weft import ffi

    makers = calls.libraries()
    found: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {}

    def add(name: str, call: str, code: str = "nothing", **names: Any) -> None:
        count = call.count(",") + (0 if call == "f()" else 1)
        ours = calls.own(code, count) if code == "nothing" else calls.foreign(code, False)
        found[name] = (call, {"f": ours, **names}, {"f": calls.peer(code, False), **names})

    add("0 arguments", "f()")
    add("1 int", "f(1)")
    add("3 ints", "f(1, 2, 3)")
    for kind, make in makers.items():
        given = {letter: make() for letter in "abc"}
        add(f"1 {kind}", "f(a)", **given)
        add(f"3 {kind}", "f(a, b, c)", **given)
        add(f"echo of 1 {kind}", "f(a)", "echo", **given)
    function = lambda a: None  # noqa: E731
    theirs = calls.tvm_ffi.convert(function)
    theirs.release_gil = False
    found["callback with an int"] = ("f(1)", {"f": ffi.wrap_function(function)}, {"f": theirs})
    given = {"a": np.zeros(3)}
    released = {"f": calls.foreign("nothing", True), **given}
    found["1 numpy, foreign, GIL released"] = (
        "f(a)",
        released,
        {"f": calls.peer("nothing", True), **given},
    )
    add("error", "try: f()\nexcept ValueError: pass", "fail")
    return found


# What a launch on the usual path asks of the driver.
DRIVER_CALLS = ("cuCtxGetCurrent", "cuLaunchKernelEx")


def launches() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Case → the call, its names: what launch_stages takes the differences of, and prepared calls."""
    import weft
    from benchmarks.gpu_launch import COUNTS, HOSTS
    from benchmarks.launch_stages import CHECKS, doing_nothing
    from tests.native.fake_cuda.fake import start

    fake = start()
    fake.set_current(fake.retain_primary(0))
    for count in COUNTS:
        names = {f"a{index}": weft.empty(16, weft.f32, "cuda:0") for index in range(count)}
        given = names.values()
        functions = {
            "does nothing": doing_nothing(count),
            "checked": weft.compile(CHECKS[count], *given, options="--gpu-arch sm_90"),
            "launched": weft.compile(HOSTS[count], *given, options="--gpu-arch sm_90"),
        }
        for name, function in functions.items():
            yield f"{count} tensors, {name}", f"f({', '.join(names)})", {"f": function, **names}
        yield f"{count} tensors, prepared", "f()", {"f": functions["launched"].prepare(*given)}


def ready() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Case → the call, its names: functions of weft.kernels on arrays of the fake GPU, and what they call."""
    import weft
    from weft.kernels.device.row_mapping import RowMapping
    from weft.kernels.nn import softmax

    x, y, row, product = (
        weft.empty(shape, weft.f32, "cuda:0") for shape in ((64, 64), (64, 64), (64,), (64, 64))
    )
    names: dict[str, Any] = {"k": weft.kernels, "x": x, "y": y, "row": row, "product": product}
    yield "sum", "k.sum(x, axis=-1, out=row)", names
    yield "softmax", "k.softmax(x, out=y)", names
    yield "gelu", "k.gelu(x, out=y)", names
    yield "gemm", "k.gemm(x, x, out=product)", names
    yield "transpose", "k.transpose(x, out=y)", names
    yield (
        "the host function of softmax",
        "f(x, y, mapping, False)",
        {**names, "f": vars(softmax)["_softmax"], "mapping": RowMapping(1, 32, 4, 4)},
    )


def count_all(marks_path: str) -> None:
    """The child's side: runs every case between two marks."""
    marks = ctypes.CDLL(marks_path)
    runs: list[tuple[str, str, dict[str, Any]]] = [("loop", "pass", {})]
    runs += ((f"launch|{name}", call, names) for name, call, names in launches())
    runs += ((f"ready|{name}", call, names) for name, call, names in ready())
    for name, (call, ours, theirs) in cases().items():
        runs += [(f"weft|{name}", call, ours), (f"tvm_ffi|{name}", call, theirs)]
    for name, call, names in runs:
        body = "".join(f"        {line}\n" for line in call.splitlines())
        source = f"def run(start, stop, count):\n    start()\n    for _ in count:\n{body}    stop(label)\n"
        scope = {**names, "label": name.encode()}
        exec(source, scope)
        for _ in range(2):  # the second counts: types are known and caches are filled
            scope["run"](marks.start_counting, marks.stop_counting, range(CALLS))


class Part:
    """One dump of callgrind: instructions, and calls of an allocator."""

    def __init__(self, text: str) -> None:
        label = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
        totals = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        self.label = label[1] if label else ""
        self.instructions = int(totals[1]) if totals else 0
        calls = re.findall(r"^cfn=(.+)\n(?:cob=.*\n|cfi=.*\n)*calls=(\d+)", text, re.M)
        self.allocations = sum(int(number) for name, number in calls if ALLOCATORS.match(name))


def counted() -> dict[str, Part]:
    """Runs the child under callgrind and reads its dumps; the last of a label counts."""
    marks = compile_library(
        "callgrind_marks.so", [Path(__file__).with_name("callgrind_marks.c")], []
    )
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--compress-strings=no"]
        command += [f"--toggle-collect={name}" for name in DRIVER_CALLS]
        command += ["--collect-atstart=yes", "--compress-pos=no"]
        command += [f"--callgrind-out-file={folder}/out", sys.executable]
        command += ["-m", "benchmarks.instructions", "--child", str(marks)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(result.stderr[-2000:])
        files = sorted(Path(folder).iterdir(), key=lambda path: path.stat().st_mtime_ns)
        parts = [Part(path.read_text(errors="replace")) for path in files]
    return {part.label: part for part in parts if part.label}


def figures() -> Iterator[Figure]:
    """Every case."""
    if shutil.which("valgrind") is None:
        yield Figure("instructions", None, "instr", note="valgrind is not installed")
        return
    parts = counted()
    loop = parts.pop("loop")
    for label, part in parts.items():
        who, _, name = label.partition("|")
        if who in ("launch", "ready"):
            value = (part.instructions - loop.instructions) / CALLS
            kind = "launch of" if who == "launch" else "weft.kernels:"
            yield Figure(f"instructions/{kind} {name}", round(value), "instr")
        if who != "weft":
            continue
        theirs = parts[f"tvm_ffi|{name}"]
        mine, other = ((p.allocations - loop.allocations) / CALLS for p in (part, theirs))
        note = f"{mine:.0f} allocations per call, tvm_ffi {other:.0f}"
        value, other = ((p.instructions - loop.instructions) / CALLS for p in (part, theirs))
        yield Figure(f"instructions/{name}", round(value), "instr", "tvm_ffi", round(other), note)


def main() -> None:
    """Print every figure."""
    if sys.argv[1:2] == ["--child"]:
        return count_all(sys.argv[2])
    return report(figures(), parse_arguments(__doc__ or "", repeats=1).json)


if __name__ == "__main__":
    main()
