# SPDX-License-Identifier: Apache-2.0
"""A function's text is found wherever Python keeps it, and its lines and columns are the file's."""

from __future__ import annotations

import ast
import functools
import importlib.machinery
import importlib.util
import linecache
import os
import subprocess
import sys
import textwrap
import types

import numpy
import pytest

import weft
from weft.errors import CompileError, NameResolutionError, UnsupportedSyntaxError
from weft.frontend.source import read_source
from weft.language.source_text import SourceText


def plain(a, b=2, *, c: weft.f32 = 1.0):
    """One line.

    Another, at the margin.
    """
    return a + b + c  # not the end

    # a comment at the end


def test_a_function_of_a_file():
    source = read_source(plain)
    assert source.name == "plain"
    assert source.file == __file__
    assert source.first_line == plain.__code__.co_firstlineno
    assert source.text.startswith("def plain(")
    assert isinstance(source.tree, ast.FunctionDef)
    place = source.locate(source.tree.body[-1])
    assert linecache.getline(place.file, place.line)[place.column :].startswith("return a + b + c")
    assert place.end_column - place.column == len("return a + b + c")


def test_parameters_have_annotations_as_objects_and_defaults():
    a, b, c = read_source(plain).parameters
    assert (a.name, b.default, b.keyword_only) == ("a", 2, False)
    assert (c.name, c.annotation, c.default, c.keyword_only) == ("c", weft.f32, 1.0, True)


def decorator(*_arguments):
    return lambda function: function


class Holder:
    @decorator(
        1,
        (2, 3),
    )
    def method(
        self,
        x,
    ): return x  # fmt: skip

    @staticmethod
    def one_line(x): return x + 1  # fmt: skip


def test_methods_with_decorators_over_several_lines():
    source = read_source(Holder().method)
    assert source.name == "method"
    assert source.first_line + 4 == source.locate(source.tree).line
    one_line = read_source(Holder.one_line)
    assert one_line.locate(one_line.tree.body[0]).line == one_line.first_line + 1


def make_adder(offset):
    def add(x):
        text = """
at the margin"""
        del text
        return x + offset

    return add


def test_nested_functions_keep_their_columns_and_closures():
    source = read_source(make_adder(5))
    last = source.tree.body[-1]
    assert source.locate(last).column == 8
    assert source.closure["offset"].cell_contents == 5


def test_a_decorated_kernel_or_host_function_is_its_function():
    assert read_source(weft.jit(plain)).function is plain


def executed(text, file="<made at run time>"):
    text = textwrap.dedent(text)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"weft": weft}
    exec(compile(text, file, "exec"), namespace)
    return namespace


def test_text_made_at_run_time_is_found_in_linecache():
    source = read_source(executed("\n\ndef f(a):\n    return a\n")["f"])
    assert source.locate(source.tree).line == 3


def test_text_that_is_nowhere_is_an_error_that_says_what_to_do():
    namespace = {}
    exec("def f(a):\n    return a\n", namespace)
    with pytest.raises(CompileError) as caught:
        read_source(namespace["f"])
    assert caught.value.code == "SOURCE_MISSING"
    assert "linecache" in caught.value.hint


def imported(path, text):
    """A module of this text."""
    path.write_text(textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_that_were_inserted_above_a_function_do_not_matter(tmp_path):
    path = tmp_path / "moved.py"
    module = imported(path, "def f(a):\n    return a\n\n\ng = lambda a: a + 1\n")
    path.write_text("# a new line\n\n" + path.read_text())
    source = read_source(module.f)
    assert (source.name, source.first_line, source.locate(source.tree).line) == ("f", 3, 3)
    assert read_source(module.g).first_line == 7


@pytest.mark.parametrize(
    "edited",
    [
        "def f(a):\n    return a + 2\n",
        "def g(a):\n    return a + 1\n",
        "def f(a, b):\n    return a + 1\n",
        "def f(a:\n",
        "",
    ],
)
def test_an_edited_function_without_its_old_text_is_noticed(tmp_path, edited):
    path = tmp_path / "edited_body.py"
    module = imported(path, "def f(a):\n    return a + 1\n")
    path.write_text(edited)
    with pytest.raises(CompileError, match=r"SOURCE_CHANGED|SOURCE_MISSING"):
        read_source(module.f)
    path.write_text("def f(a):\n    return a + 1\n\n# after it, nothing matters\n")
    assert read_source(module.f).name == "f"


EDITED = """
import weft

SCALE = 3

def helper(x):
    return x * SCALE

@weft.kernel
def kernel(a: weft.Tensor):
    a[weft.thread_idx.x] = helper(a[weft.thread_idx.x]) + 1

@weft.jit
def host(a: weft.Tensor):
    kernel(a).launch(grid=1, block=a.shape[0])

@weft.jit
def wrong(a: weft.Tensor):
    kernel(a, nowhere).launch(grid=1, block=1)

def make(step):
    @weft.jit
    def late(a: weft.Tensor):
        kernel(a).launch(grid=1, block=step)
    return late
"""
EDITS = {
    "a comment above": lambda text: "# one\n# two\n" + text,
    "another body": lambda text: text.replace("+ 1", "- 1").replace("x * SCALE", "x"),
    "lines inside": lambda text: text.replace("SCALE = 3", "# three\n\n\nSCALE = 3"),
    "half a line": lambda text: text + "def unfinished(\n",
    "another file": lambda text: "",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_editing_a_file_while_the_program_runs_changes_nothing(tmp_path, edit):
    path = tmp_path / "program.py"
    module = imported(path, EDITED)
    module.host(first := numpy.ones(2, numpy.float32))
    path.write_text(edit(path.read_text()))
    module.host(second := numpy.ones(2, numpy.int32))
    module.kernel[1, 2](third := numpy.ones(2, numpy.float64))
    assert first.tolist() == second.tolist() == third.tolist() == [4, 4]
    with pytest.raises(CompileError) as caught:
        weft.compile(module.wrong, first)
    line = EDITED.splitlines().index("    kernel(a, nowhere).launch(grid=1, block=1)") + 1
    assert caught.value.location.line == line
    assert "kernel(a, nowhere).launch" in str(caught.value)


def test_a_function_decorated_after_an_edit_is_found(tmp_path):
    path = tmp_path / "late.py"
    module = imported(path, EDITED)
    path.write_text("# one\n# two\n" + path.read_text())
    module.make(2)(a := numpy.ones(2, numpy.float32))
    assert a.tolist() == [4, 4]


def test_a_helper_of_another_file_is_read_once(tmp_path):
    path = tmp_path / "helpers.py"
    helpers = imported(path, "def f(x):\n    return x + 1\n\ndef g(x):\n    return x + 2\n")

    @weft.kernel
    def kernel(a: weft.Tensor, helper: weft.Constexpr):
        a[0] = helper(a[0])

    @weft.jit
    def host(a: weft.Tensor, helper: weft.Constexpr):
        kernel(a, helper).launch(grid=1, block=1)

    host(numpy.ones(1, numpy.float32), helpers.f)
    path.write_text("# nothing left\n")
    for helper, expected in ((helpers.f, 2), (helpers.g, 3)):
        host(a := numpy.ones(1, numpy.int32), helper)
        assert a.tolist() == [expected]


def test_a_module_that_is_loaded_again_has_its_new_text(tmp_path):
    path = tmp_path / "loaded_again.py"
    before = imported(path, EDITED)
    after = imported(path, "# new\n" + EDITED.replace("+ 1", "+ 5"))
    for module, expected in ((before, 4), (after, 8), (before, 4)):
        module.host(a := numpy.ones(2, numpy.float32))
        assert a.tolist() == [expected] * 2


def test_columns_count_characters_not_bytes():
    namespace = executed('def f(a):\n    x = "äöü€"; return a\n')
    source = read_source(namespace["f"])
    place = source.locate(source.tree.body[-1])
    assert place.column == len('    x = "äöü€"; ')


double = lambda x: x * 2
pair = (lambda x: x + 1, lambda x: x + 2)


def test_lambdas_are_distinguished_by_their_columns():
    assert ast.unparse(read_source(double).tree.body) == "x * 2"
    assert [ast.unparse(read_source(f).tree.body) for f in pair] == ["x + 1", "x + 2"]


def test_lambdas_that_cannot_be_distinguished_are_refused():
    first = pair[0]
    # As under python -X no_debug_ranges, where code has no columns.
    code = first.__code__.replace(co_linetable=b"")
    blind = type(first)(code, first.__globals__)
    with pytest.raises(UnsupportedSyntaxError) as caught:
        read_source(blind)
    assert caught.value.code == "LAMBDA_AMBIGUOUS"
    assert "2 lambdas on line" in caught.value.message


def generator(a):
    return
    yield a


async def coroutine(a):
    return a


@pytest.mark.parametrize("function", [generator, coroutine])
def test_generators_and_coroutines_are_refused(function):
    with pytest.raises(UnsupportedSyntaxError, match="GENERATOR"):
        read_source(function)


@pytest.mark.parametrize("value", [abs, int, 3, functools.partial(plain)])
def test_a_non_python_function_is_refused(value):
    with pytest.raises(CompileError, match="SOURCE_NOT_A_FUNCTION"):
        read_source(value)


def unresolved(a: Missing):
    return a


def test_an_annotation_that_cannot_be_evaluated_says_where():
    with pytest.raises(NameResolutionError) as caught:
        _ = read_source(unresolved).parameters
    assert caught.value.location.line == unresolved.__code__.co_firstlineno


def test_an_annotation_may_name_what_only_the_closure_has():
    def make(dtype):
        def f(a: dtype):
            return dtype(a)

        return f

    assert read_source(make(weft.f64)).parameters[0].annotation is weft.f64


def test_an_annotation_set_later_is_reported_as_set():
    def host(a, b):
        return None

    host.__annotations__ = {"b": "Missing[int]"}
    with pytest.raises(NameResolutionError, match=r"the annotation of 'b', Missing\[int\], cannot"):
        _ = read_source(host).parameters


@pytest.mark.parametrize("time", [0, 10**9], ids=["the epoch", "years ago"])
@pytest.mark.parametrize(
    ("body", "moved"),
    [("return a + 2", False), ("return a + 1  # longer", True), ("return b", False)],
)
def test_a_file_with_an_old_time_is_compared_by_its_content(tmp_path, time, body, moved):
    path = tmp_path / "old_time.py"
    module = imported(path, "def f(a, b=1):\n    return a + 1\n")
    path.write_text(f"# above\ndef f(a, b=1):\n    {body}\n")
    os.utime(path, (time, time))
    if moved:
        assert read_source(module.f).first_line == 2
        return
    with pytest.raises(CompileError, match=r"SOURCE_CHANGED"):
        read_source(module.f)


def test_an_edit_of_the_same_size_and_time_is_noticed(tmp_path):
    path = tmp_path / "same_time.py"
    text = "def f(a):\n    return a + 1\n"
    module = imported(path, text)
    assert read_source(module.f).text == text
    before = path.stat()
    path.write_text(text.replace("+ 1", "+ 2"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = imported_again(path)
    assert read_source(again.f).text == text.replace("+ 1", "+ 2")


def imported_again(path):
    """The module of a file as it is, without Python's own cache of bytecode."""
    module = types.ModuleType(path.stem)
    module.__loader__ = importlib.machinery.SourceFileLoader(path.stem, str(path))
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), vars(module))
    return module


EARLY = """
import os, sys
import early_helper
open(early_helper.__file__, "w").write("def f(x):\\n    return x + 2\\n")
os.utime(early_helper.__file__, (0, 0))
import weft
from array import array

@weft.kernel
def work(a: weft.Tensor):
    a[0] = early_helper.f(a[0])

@weft.jit
def run(a: weft.Tensor):
    work(a).launch(grid=1, block=1)

try:
    run(array("f", [1.0]))
except weft.CompileError as error:
    print(error.code)
"""


def test_a_helper_edited_before_the_first_decorator_is_noticed(tmp_path):
    (tmp_path / "early_helper.py").write_text("def f(x):\n    return x + 1\n")
    (tmp_path / "program.py").write_text(EARLY)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "SOURCE_CHANGED\n"


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    class B:\n        def f(self, a):\n            return __class__, self.__x\n",
        "def around(k):\n    def f(a):\n        return a + k\n    return f\n",
        "@decorated(\n    1,\n)\n@decorated(2)\ndef f(a):\n    return a\n",
        "if True:\n    def f(a): return a\nelse:\n    f = None\n",
        'text = """\ndef f(a):\n"""\ndef f(a):\n    return """\nnot a statement\n"""\n',
        "f = [lambda a: a + 1,\n(lambda a: a + 2)][0]\n",
        "async def other(): pass\ndef f(a):\n\n# a comment\n    return a\n",
        "try:\n    pass\nfinally:\n    def f(a):\n        return a\n",
        "x = 1; f = lambda a: a\n",
        "def f(a): return a",
    ],
)
def test_the_code_of_a_statement_is_that_of_the_whole_file(text):
    text = "from __future__ import annotations\n" + text + "\n\nz = 1\n"
    source = SourceText("a_file.py", text.splitlines(keepends=True))
    module = compile(text, "a_file.py", "exec", dont_inherit=True)
    waiting, checked = [module], 0
    while waiting:
        inner = [c for c in waiting.pop().co_consts if isinstance(c, types.CodeType)]
        for code in inner:
            assert source.has(code)
            checked += 1
        waiting += inner
    assert checked
    changed = SourceText("a_file.py", text.replace("a", "b").splitlines(keepends=True))
    assert not all(changed.has(c) for c in module.co_consts if isinstance(c, types.CodeType))
