# SPDX-License-Identifier: Apache-2.0
"""What blocks assign, what is live before them, and how control leaves them."""

from __future__ import annotations

import ast
import textwrap

import pytest

from weft.frontend.syntax import NameAnalysis

pytestmark = pytest.mark.joined


def parsed(text):
    return ast.parse(textwrap.dedent(text)).body


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = y", "x"),
        ("x, (y, *z) = f()", "x y z"),
        ("a[i] = x; b.c = y", ""),
        ("x += 1", "x"),
        ("x: int", ""),
        ("x: int = 1", "x"),
        ("for i, j in p:\n    k = 1\nelse:\n    m = 2", "i j k m"),
        ("def f(p):\n    q = 1", "f"),
        ("g = lambda p: (q := p)", "g"),
        ("r = [(w := x) for x in y]", "r w"),
        ("if (h := f()) > 1:\n    pass", "h"),
        ("del x", "x"),
        ("match p:\n    case (0, x):\n        y = 1", "x y"),
    ],
)
def test_assigned_names(text, names):
    body = parsed(text)
    assert NameAnalysis().assigned(body) == set(names.split())
    if ":=" not in text:
        assert NameAnalysis(has_walrus=False).assigned(body) == set(names.split())


@pytest.mark.parametrize(
    ("text", "live_out", "live"),
    [
        ("x = y", "x z", "y z"),
        ("x += y", "", "x y"),
        ("a[i] = v", "", "a i v"),
        ("if c:\n    x = 1\nelse:\n    x = 2", "x", "c"),
        ("if c:\n    x = 1", "x", "c x"),
        ("if c:\n    return\nx = 1", "x", "c x"),
        ("for i in r:\n    s = s + i", "s", "r s"),
        ("for i in r:\n    t = i\n    u(t)", "", "r u"),
        ("while c:\n    x = y\n    y = 1", "", "c y"),
        ("def f():\n    return k\nk = 1", "", "k"),
        ("x = 1\nreturn x", "", ""),
    ],
)
def test_live_names(text, live_out, live):
    found = NameAnalysis().live_before(parsed(text), frozenset(live_out.split()))
    assert found == set(live.split())


@pytest.mark.parametrize(
    ("text", "exits"),
    [
        ("x = 1", ""),
        ("if c:\n    break", "b"),
        ("if c:\n    pass\nelse:\n    continue", "c"),
        ("for i in r:\n    if c:\n        break\n    continue", ""),
        ("for i in r:\n    return", "r"),
        ("for i in r:\n    pass\nelse:\n    break", "b"),
        ("def f():\n    return 1", ""),
        ("while c:\n    while d:\n        return", "r"),
    ],
)
def test_exits(text, exits):
    found = NameAnalysis().exits(parsed(text))
    letters = {"b": found.breaks, "c": found.continues, "r": found.returns}
    assert "".join(letter for letter, is_set in letters.items() if is_set) == exits
    assert bool(found) == bool(exits)
