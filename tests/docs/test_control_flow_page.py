# SPDX-License-Identifier: Apache-2.0
"""The page on control flow shows what the front end does: its example is traced, and its table and IR are compared."""

from __future__ import annotations

import inspect
import io
import linecache

import pytest
from xdsl.printer import Printer

import weft
from tests.architecture.source_tree import ROOT
from tests.docs.code_blocks import program
from tests.frontend.tracing import kernel_of, shortened, trace_kernel, vector
from weft.frontend.paths import Assigned, LeftEarly
from weft.frontend.statements.statement import Statements
from weft.language.values import Scalar

PAGE = ROOT / "docs" / "control-flow.md"


class NamingPrinter(Printer):
    """Prints IR and remembers what each value is called there."""

    def __init__(self):
        super().__init__(io.StringIO())
        self.names = {}

    def print_ssa_value(self, value):
        self.names[value] = super().print_ssa_value(value)
        return self.names[value]


def example():
    """The page's function, as Python has it."""
    source = program(PAGE)
    linecache.cache[str(PAGE)] = (len(source), None, source.splitlines(keepends=True), str(PAGE))
    names = {"weft": weft}
    exec(compile(source, str(PAGE), "exec"), names)
    return names["first_above"].function


@pytest.fixture(scope="module")
def traced():
    """The example's kernel, and what the path held after each line: line → the path."""
    paths = {}
    original = Statements.statement

    def recorded(self, node, rest):
        has_rest = original(self, node, rest)
        if self.frame.name == function.__name__:
            paths[self.frame.locate(node).line] = self.frame.scope.path.copy()
        return has_rest

    function = example()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Statements, "statement", recorded)
        kernel = kernel_of(trace_kernel(function, vector(weft.f32), vector(), 0.5))
    return function, kernel, paths


def test_the_table_is_what_the_path_holds_after_each_line(traced):
    function, kernel, paths = traced
    printer = NamingPrinter()
    printer.print_op(kernel)
    lines, first = inspect.getsourcelines(function)

    def text(value):
        return f"`%{printer.names[value.ssa]}`" if isinstance(value, Scalar) else f"{value}"

    def held(binding):
        if isinstance(binding, Assigned):
            return text(binding.value)
        early = f"({text(binding.value)})" if isinstance(binding, LeftEarly) else ""
        return type(binding).__name__ + early

    rows = []
    for line, path in sorted(paths.items()):
        cells = [f"`{lines[line - first].strip()}`"]
        cells += [held(path.variables[name]) for name in ("i", "found")]
        cells += [text(getattr(path, flag)) for flag in ("live", "looping", "active")]
        rows.append(f"| {' | '.join(cells)} |")
    table = [
        line
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `") and line.count("|") == 7
    ]
    assert table == rows, "\n".join(rows)


def test_the_ir_is_what_the_front_end_makes(traced):
    assert f"```text\n{shortened(traced[1])}\n```" in PAGE.read_text(), shortened(traced[1])
