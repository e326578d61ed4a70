# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program small: statements go, then parts of expressions, as long as it fails in the same way.

In: a `Program` and a question about programs. Out: the smallest program found. The syntax tree is Python's.
"""

from __future__ import annotations

import ast
import copy
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.fuzz.programs import Program

BODIES = ("body", "orelse", "cases")
TRIALS = 1500


def _lists(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Every list of statements or cases, outer ones first."""
    for node in ast.walk(tree):
        for name in BODIES:
            if isinstance(getattr(node, name, None), list):
                yield node, name


def _without(tree: ast.Module) -> Iterator[ast.Module]:
    """Trees with a run of statements less, long runs first, or with a statement's body in its place."""
    places = list(_lists(tree))
    for number, (node, name) in enumerate(places):
        count = len(getattr(node, name))
        length = count
        while length:
            for first in range(0, count, length):
                smaller = copy.deepcopy(tree)
                owner, _ = list(_lists(smaller))[number]
                del getattr(owner, name)[first : first + length]
                if name == "cases" and not owner.cases:  # type: ignore[attr-defined]
                    continue
                if name == "body" and not owner.body:  # type: ignore[attr-defined]
                    owner.body = [ast.Pass()]  # type: ignore[attr-defined]
                yield smaller
            length //= 2
        for index in range(count):
            inner = getattr(node, name)[index]
            for part in BODIES[:2]:
                if isinstance(getattr(inner, part, None), list) and getattr(inner, part):
                    if isinstance(inner, ast.FunctionDef):
                        continue
                    smaller = copy.deepcopy(tree)
                    owner, _ = list(_lists(smaller))[number]
                    statements = getattr(owner, name)
                    statements[index : index + 1] = getattr(statements[index], part)
                    yield smaller


def _expressions(tree: ast.AST) -> list[tuple[ast.AST, str, int | None]]:
    """Where expressions stand: owner, field, and index in a list."""
    found: list[tuple[ast.AST, str, int | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            continue
        for name, value in ast.iter_fields(node):
            if name in ("func", "targets", "target", "annotation", "decorator_list"):
                continue
            if isinstance(value, ast.expr):
                found.append((node, name, None))
            elif isinstance(value, list):
                found += [
                    (node, name, k) for k, each in enumerate(value) if isinstance(each, ast.expr)
                ]
    return found


def _get(owner: ast.AST, name: str, index: int | None) -> ast.expr:
    value = getattr(owner, name)
    return value if index is None else value[index]


def is_weak(node: ast.AST) -> bool:
    """Whether an expression is made of literals alone, and so has a type only by where it stands."""
    return not any(isinstance(each, ast.Name) for each in ast.walk(node))


def _parts(node: ast.expr) -> list[ast.expr]:
    """The expressions right inside another."""
    return [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]


def _simpler(tree: ast.Module) -> Iterator[ast.Module]:
    """Trees in which an expression is one of its parts, outer expressions first."""
    for number, (owner, name, index) in enumerate(_expressions(tree)):
        node = _get(owner, name, index)
        for position, part in enumerate(_parts(node)):
            if is_weak(part) and not is_weak(node):
                continue
            smaller = copy.deepcopy(tree)
            place = _expressions(smaller)[number]
            chosen = _parts(_get(*place))[position]
            if place[2] is None:
                setattr(place[0], place[1], chosen)
            else:
                getattr(place[0], place[1])[place[2]] = chosen
            yield smaller


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program found that still fails.

    Args:
        program: one that fails.
        fails: whether another one does, in the same way; it is asked at most `TRIALS` times.
    """
    tree, trials, position, changed = ast.parse(program.source), 0, 0, True
    while changed or position:
        if not position:
            changed = False
        candidates = (each for step in (_without, _simpler) for each in step(tree))
        for smaller in itertools.islice(candidates, position, None):
            trials, position = trials + 1, position + 1
            if trials > TRIALS:
                return program
            source = ast.unparse(ast.fix_missing_locations(smaller)) + "\n"
            candidate = replace(program, source=source)
            if fails(candidate):
                program, tree, changed = candidate, ast.parse(source), True
                position -= 1  # what stood after it has moved here
                break
        else:
            position = 0
    return program
