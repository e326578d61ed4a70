# SPDX-License-Identifier: Apache-2.0
"""The recipes name what there is, and name all that their examples use."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from weft.backends.registry import _MEMBERS  # pyright: ignore[reportPrivateUsage]

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
BACKEND_RECIPE = (ROOT / "docs/recipes/add-a-backend.md").read_text()
EXAMPLE = ROOT / "tests/backends/amdgcn_backend/weft_amdgcn"


def dotted(text: str) -> set[str]:
    """Names such as `weft.backends.base.Backend`, in code font."""
    return set(re.findall(r"`(weft(?:\.\w+){2,})`", text))


def test_names_in_recipes_exist():
    names = {name for recipe in RECIPES for name in dotted(recipe.read_text())}
    assert len(names) > 10
    for name in names:
        resolve_name(name)


def test_names_that_recipes_place_in_files_are_there():
    place = re.compile(r"`@?(\w+)`\s+(?:of|in)\s+`((?:src|native)/[\w./]+)`")
    said = [found for recipe in RECIPES for found in place.findall(recipe.read_text())]
    assert len(said) > 3
    for name, path in said:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), (name, path)


@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("weft.math.cbrt", r"\b(cbrt|CbrtOp)\b"),
        (
            "weft.match_all",
            r"match_all|match_any|\bMatchOp\b|simt\.match\b|match\.a(ny|ll)\.sync",
        ),
    ],
)
def test_the_recipe_lists_the_files_that_an_operation_is_in(example: str, words: str):
    recipe = (ROOT / "docs/recipes/add-an-op.md").read_text()
    section = recipe.partition(f"`{example}`:\n\n")[2].partition("\n\n")[0]
    listed = set(re.findall(r"`(\w+/[\w/.-]+)`", section)) - {
        "src/weft/backends/cpu/lowering/tables.py"  # for an operation that the CPU lacks
    }
    holding = {
        str(path.relative_to(ROOT))
        for folder in ("src", "native", "docs", "tests", "tools", "examples", "benchmarks")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".pyi", ".h", ".cpp", ".md", ".txt", ".mlir")
        and re.search(words, path.read_text())
    }
    assert holding - {"docs/recipes/add-an-op.md", "tests/docs/test_recipes.py"} == listed


def test_the_backends_recipe_names_every_member_and_every_file():
    table = BACKEND_RECIPE.partition("| member |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (.+?) \|", table, re.MULTILINE))))
    assert named == set(_MEMBERS)
    steps = re.findall(r"^## \d\. .*`(\w+\.py)`$", BACKEND_RECIPE, re.MULTILINE)
    assert set(steps) == {path.name for path in EXAMPLE.glob("*.py")} - {"__init__.py"}


def test_the_backend_recipe_names_all_that_it_uses():
    used: set[str] = set()
    for path in EXAMPLE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and re.match(
                r"weft\.(backends|codegen)\b", node.module or ""
            ):
                used |= {f"{node.module}.{alias.name}" for alias in node.names}
    only_for_annotations = {"Job", "FunctionPrinter", "OperationPrinter", "LINE_TABLES"}
    used = {name for name in used if name.rpartition(".")[2] not in only_for_annotations}
    assert used - dotted(BACKEND_RECIPE) == set()
