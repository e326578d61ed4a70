# SPDX-License-Identifier: Apache-2.0
"""The table of names: each stands for something, loads nothing before, and says where it belongs."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from pathlib import Path

import pytest

import weft
from tests.architecture.source_tree import run_python
from weft import language
from weft.errors import NameResolutionError, UnavailableError
from weft.language import LANGUAGE, NAMESPACES, LanguageName, language_name, resolve
from weft.language.builtins import BUILTINS
from weft.language.functions import DeviceFunction
from weft.language.operation import Operation
from weft.language.target import Target
from weft.language.threads.grid import Coordinate
from weft.language.threads.warp import ThreadGroup

FOUND = {name: resolve(name) for name in LANGUAGE}


def test_every_name_stands_for_an_operation():
    kinds = Operation | Coordinate | DeviceFunction | Target | ThreadGroup
    assert [n for n, one in FOUND.items() if not isinstance(one, kinds) or one.name != n] == []


def test_every_name_has_an_example_and_no_builder():
    texts = {name: one.__doc__ or "" for name, one in FOUND.items()}
    assert [name for name, text in texts.items() if "Example:" not in text] == []
    assert [name for name, text in texts.items() if "builder" in text] == []


def test_help_shows_the_documentation_of_a_name():
    shown = {name: pydoc.plain(pydoc.render_doc(language_name(name))) for name in LANGUAGE}
    first = {
        name: inspect.cleandoc(one.__doc__ or "").splitlines()[0] for name, one in FOUND.items()
    }
    assert [name for name, line in first.items() if line not in shown[name]] == []
    assert [name for name, text in shown.items() if "builder" in text.lower()] == []


def test_the_signature_of_a_name_is_its_users():
    assert list(inspect.signature(weft.shared).parameters) == ["shape", "dtype", "swizzle", "reuse"]
    assert list(inspect.signature(weft.math.exp).parameters) == ["x", "approx"]
    assert "A name of the kernel language" in (weft.math.__doc__ or "")
    assert "A name of the kernel language" in (type(weft.math).__doc__ or "")


def test_each_builtin_has_documentation():
    assert [name for name, operation in BUILTINS.items() if not operation.__doc__] == []


def test_every_family_in_the_table_is_a_file():
    folder = Path(language.__file__).parent
    missing = {
        family
        for family in LANGUAGE.values()
        if not (folder / f"{family.replace('.', '/')}.py").exists()
        and not (folder.parents[1] / f"{family.replace('.', '/')}.py").exists()
    }
    assert missing == set()


def test_an_unknown_name_is_not_an_operation():
    for name in ("thread_id", "math", "math.gamma"):
        with pytest.raises(NameResolutionError):
            resolve(name)
    with pytest.raises(AttributeError, match="weft has no 'thread_id'"):
        language_name("thread_id")
    with pytest.raises(AttributeError, match=r"weft has no 'math\.gamma'"):
        language_name("math").gamma  # noqa: B018


def test_a_namespace_holds_names():
    assert NAMESPACES == (
        "Fragment",
        "Mbarrier",
        "NamedBarrier",
        "cp_async",
        "math",
        "mma",
        "tma",
        "wgmma",
    )
    assert language_name("math").exp == language_name("math.exp")


@pytest.mark.parametrize(
    "use",
    [
        lambda: language_name("thread_idx").x,
        lambda: language_name("printf")("hello"),
        lambda: language_name("local")[0],
        lambda: resolve("ceil_div")(3, 2),
        lambda: resolve("math.exp")(1.0),
    ],
)
def test_using_a_name_outside_a_kernel_says_where_it_has_a_meaning(use):
    with pytest.raises(UnavailableError) as caught:
        use()
    assert caught.value.code == "OUTSIDE_KERNEL"
    assert "works only in code that weft compiles" in caught.value.message


def test_sizes_of_grids_are_computed_in_python_too():
    ceil_div = language_name("ceil_div")
    assert [ceil_div(n, 4) for n in (0, 1, 4, 5, -5)] == [0, 1, 1, 2, -1]
    assert ceil_div(dividend=1 << 70, divisor=3) == ((1 << 70) + 2) // 3
    with pytest.raises(TypeError, match="float"):
        ceil_div(1.5, 2)
    with pytest.raises(ZeroDivisionError):
        ceil_div(1, 0)


def test_names_are_compared_by_what_they_name_and_survive_copies():
    name = language_name("atomic_add")
    assert repr(name) == "weft.atomic_add"
    assert name == LanguageName("atomic_add") != language_name("atomic_sub")
    assert len({name, LanguageName("atomic_add")}) == 1
    assert copy.deepcopy(name) == pickle.loads(pickle.dumps(name)) == name
    assert not hasattr(name, "__wrapped__")


def test_asking_for_a_name_loads_no_ir():
    code = (
        "import sys; from weft.language import language_name; language_name('math').exp\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('xdsl', 'llvmlite')])"
    )
    assert run_python(code).strip() == "[]"
