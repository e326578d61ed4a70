# SPDX-License-Identifier: Apache-2.0
"""Wrong programs and the exact messages that they get; the cases stand in `cases/*.txt`.

A case is a headline `=== name`, a program, a line `---`, and the message. A program defines a host function
`host`, or a kernel `kernel` that is launched on vectors of f32 where no annotation says otherwise.
`python -m tests.errors.golden` writes the messages anew; read the difference before you commit it.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from pathlib import Path

import weft
from weft.arguments.base import MISSING
from weft.arguments.signature import infer_signature
from weft.backends.registry import find_backend
from weft.compiler.artifacts import Artifacts
from weft.compiler.options import CompileOptions
from weft.compiler.pipeline import lower
from weft.errors import WeftError
from weft.frontend.source import read_source
from weft.types.dtype import DType

FILE = "program.py"
CASES = Path(__file__).parent / "cases"
TUNING = Path(__file__).parents[1] / "autotune" / "wrong_programs.txt"
"""Errors of calls and decorators, which have no place in the source; tests/autotune compares them."""


@dataclass
class Case:
    """One wrong program.

    Attributes:
        name: a short name, unique.
        program: its text.
        message: what the user must see.
    """

    name: str
    program: str
    message: str

    @property
    def code(self) -> str:
        """The stable code in the message."""
        return self.message.partition("[")[2].partition("]")[0]


def read_cases(path: Path) -> list[Case]:
    """The cases of one file, in order."""
    cases = []
    for part in path.read_text().split("=== ")[1:]:
        name, _, rest = part.partition("\n")
        program, _, message = rest.partition("\n---\n")
        cases.append(Case(name.strip(), program.strip("\n") + "\n", message.strip("\n")))
    return cases


def write_cases(path: Path, cases: list[Case]) -> None:
    """Writes the cases back in the same form."""
    parts = [f"=== {case.name}\n{case.program}---\n{case.message}\n" for case in cases]
    path.write_text("\n".join(parts))


def message_of(program: str) -> str:
    """What compiling the program says."""
    linecache.cache[FILE] = (len(program), None, program.splitlines(keepends=True), FILE)
    namespace = {"weft": weft, "__name__": "program"}
    try:
        exec(compile(program, FILE, "exec"), namespace)
        _lower(namespace)
    except WeftError as error:
        return str(error)
    finally:
        linecache.cache.pop(FILE, None)
    return "no error"


def _lower(namespace: dict) -> None:
    host = namespace.get("host")
    if host is None:
        host = _host_of(namespace["kernel"])
    source = read_source(host)
    parameters = source.parameters
    examples = [_example(p.annotation) for p in parameters if not p.keyword_only]
    backend = find_backend(namespace.get("TARGET", "cpu"))
    signature = infer_signature(source.name, parameters, examples).for_device(backend.device_type)
    lower(source, signature, backend, Artifacts(source.name, CompileOptions()))


def _host_of(kernel):
    parameters = read_source(kernel).parameters
    names = ", ".join(p.name for p in parameters)
    text = f"def host({names}):\n    kernel({names}).launch(grid=1, block=32)\n"
    file = "<launch>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"kernel": kernel}
    exec(compile(text, file, "exec"), namespace)
    host = namespace["host"]
    host.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not MISSING}
    return host


def _example(annotation):
    if annotation is MISSING or annotation is weft.Tensor:
        return weft.fake_tensor(weft.f32, (None,))
    if annotation is weft.Stream:
        return weft.Stream(0)
    if isinstance(annotation, DType):
        return MISSING_VALUE[annotation.kind]
    return annotation


MISSING_VALUE = {"int": 1, "uint": 1, "float": 1.0, "complex": 1j, "bool": True}


def main() -> None:
    """Writes every message anew."""
    for path in (*sorted(CASES.glob("*.txt")), TUNING):
        cases = read_cases(path)
        for case in cases:
            case.message = message_of(case.program)
        write_cases(path, cases)


if __name__ == "__main__":
    main()
