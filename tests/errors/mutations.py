# SPDX-License-Identifier: Apache-2.0
"""Absurd programs: those of the golden cases with their expressions and statements exchanged.

In: a random generator. Out: texts that parse. What compiling one says must be a user's error, or nothing.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from tests.errors.golden import CASES, read_cases

if TYPE_CHECKING:
    import random

EXTRA = """
@weft.kernel
def kernel(a, b):
    i = weft.thread_idx.x
    part = a[1:i][::-1]
    tile = weft.shared((2, 8), weft.f32)
    mine = weft.local(4, weft.i32)
    for k in range(i, 10, 2):
        if k % 3 == 0:
            continue
        tile[k % 2, 0] = part[k] if i > 2 else 0.5
    else:
        mine[0] = weft.bitcast(a[0], weft.i32)
    while (n := mine[0]) > 3 and not i:
        mine[0], x = n // 2, (a[i], 1, None)
        break
    total = weft.warp.sum(sum([part[k] for k in range(2)]))
    weft.atomic_add(b, i, total, order="acquire", scope="block")
    x, y = weft.load_vector(tile, (0, 0), 2)
    weft.store_vector(tile, (1, 2), (x, y))
    f = lambda v, *rest, scale=2: v * scale
    b[0] += f(x, y) ** 2 + weft.math.fma(x, y, min(x, 1.0, y)) - len(part)
    weft.printf("%d %f", i, x)
    match i:
        case 1:
            pass
        case _:
            assert i < 3, "small"
"""


def programs() -> list[ast.Module]:
    """The programs that are taken apart."""
    texts = [case.program for path in sorted(CASES.glob("*.txt")) for case in read_cases(path)]
    found = [ast.parse(EXTRA)] * 40
    for text in texts:
        try:
            found.append(ast.parse(text))
        except SyntaxError:
            continue
    return found


def expressions(tree: ast.AST) -> list[tuple[ast.AST, str, int | None]]:
    """Where expressions that are read stand: their parent, its field, the index in a list."""
    places: list[tuple[ast.AST, str, int | None]] = []
    inside = (node for body in bodies(tree) for statement in body for node in ast.walk(statement))
    for parent in inside:
        if isinstance(parent, ast.FunctionDef | ast.arguments | ast.pattern):
            continue
        for field, value in ast.iter_fields(parent):
            for index, item in enumerate(value if isinstance(value, list) else [value]):
                is_read = isinstance(getattr(item, "ctx", ast.Load()), ast.Load)
                if (
                    isinstance(item, ast.expr)
                    and is_read
                    and not isinstance(item, ast.Starred | ast.Slice)
                ):
                    if isinstance(parent, ast.JoinedStr | ast.FormattedValue | ast.NamedExpr):
                        continue
                    places.append((parent, field, index if isinstance(value, list) else None))
    return places


def bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements in decorated functions."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.decorator_list)
    return [
        value
        for function in functions
        for node in ast.walk(function)
        for _, value in ast.iter_fields(node)
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt)
    ]


def mutant(random: random.Random, pool: list[ast.Module]) -> str:
    """One program with one to three exchanges."""
    tree = copy.deepcopy(random.choice(pool))
    for _ in range(random.randint(1, 3)):
        donor = random.choice(pool)
        if random.random() < 0.3 and bodies(tree) and bodies(donor):
            body = random.choice(bodies(tree))
            taken = copy.deepcopy(random.choice(random.choice(bodies(donor))))
            body.insert(random.randrange(len(body) + 1), taken)
            continue
        places, others = expressions(tree), expressions(donor)
        if places and others:
            put(random.choice(places), copy.deepcopy(get(random.choice(others))))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def get(place: tuple[ast.AST, str, int | None]) -> ast.expr:
    """The expression at a place."""
    parent, field, index = place
    value = getattr(parent, field)
    return value if index is None else value[index]


def put(place: tuple[ast.AST, str, int | None], new: ast.expr) -> None:
    """Replaces the expression at a place."""
    parent, field, index = place
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new
