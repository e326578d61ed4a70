# SPDX-License-Identifier: Apache-2.0
"""Small faulty kernels, what the sanitizer says of each, and the change that makes it right; in `cases/*.txt`.

A case is a headline `=== name`, a program with a function `run`, a line `---`, the report, a line `+++`, and one or
more lines `old => new` that make the program right. `python -m tests.sanitizer.zoo` writes the reports anew; read the
difference before you commit it.
"""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import weft

FILE = "program.py"
CASES = Path(__file__).parent / "cases"
SILENT = "nothing is reported"


class Case(NamedTuple):
    """One faulty program; `checks` is the name of its file."""

    checks: str
    name: str
    program: str
    report: str
    changes: str

    @property
    def twin(self) -> str:
        """The program after its changes."""
        text = self.program
        for change in self.changes.splitlines():
            old, _, new = change.partition(" => ")
            assert text.count(old) == 1, (self.name, old)
            text = text.replace(old, new)
        return text


def read_cases(path: Path) -> list[Case]:
    """The cases of one file, in order."""
    cases = []
    for part in path.read_text().split("=== ")[1:]:
        name, _, rest = part.partition("\n")
        program, _, rest = rest.partition("\n---\n")
        report, _, changes = rest.partition("\n+++\n")
        texts = (text.strip("\n") for text in (program + "\n", report, changes))
        cases.append(Case(path.stem, name.strip(), *texts))
    return cases


def all_cases() -> list[Case]:
    """Of all files."""
    return [case for path in sorted(CASES.glob("*.txt")) for case in read_cases(path)]


def aligned(*shape: int) -> np.ndarray:
    """Zeros at a multiple of 128 bytes; programs have it under this name."""
    size = 4 * int(np.prod(shape))
    raw = np.zeros(size + 128, np.uint8)
    start = -raw.ctypes.data % 128
    return raw[start : start + size].view(np.float32).reshape(shape)


def report_of(program: str, checks: str, arrays: Any = np) -> str:
    """Run a program, and return the report; `arrays` is what makes its arrays, NumPy or the like."""
    linecache.cache[FILE] = (len(program), None, program.splitlines(keepends=True), FILE)
    lined = aligned if arrays is np else lambda *shape: arrays.zeros(shape, np.float32)
    namespace = {"weft": weft, "np": arrays, "aligned": lined, "__name__": "program"}
    try:
        exec(compile(program, FILE, "exec"), namespace)
        with weft.sanitize(*checks.split("+")):
            namespace["run"]()
        weft.synchronize()
    except weft.SanitizerError as error:
        return str(error)
    finally:
        linecache.cache.pop(FILE, None)
    return SILENT


def main() -> None:
    """Writes every report anew."""
    for path in sorted(CASES.glob("*.txt")):
        cases = [
            case._replace(report=report_of(case.program, case.checks)) for case in read_cases(path)
        ]
        path.write_text(
            "\n".join(
                f"=== {case.name}\n{case.program}\n---\n{case.report}\n+++\n{case.changes}\n"
                for case in cases
            )
        )


if __name__ == "__main__":
    main()
