# SPDX-License-Identifier: Apache-2.0
"""The requirements of this project as lines, so that they can be installed before it is built.

Knows: pyproject.toml. In: names of groups (`build`, `run`, or an extra), and `--floors` for the
oldest versions of what `run` needs. Out: requirement lines.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def at_floor(requirement: str) -> str:
    """`name>=1.2` as `name==1.2.*`: the stated floor, with whatever patches it has."""
    return re.sub(r">=([0-9.]+).*", r"==\1.*", requirement)


def requirements(groups: list[str], floors: bool = False) -> list[str]:
    """The requirement strings of `groups`, in order, each once.

    Args:
        groups: `build`, `run`, or extras of pyproject.toml.
        floors: whether those of `run` are fixed at the oldest version that is promised to work.

    Raises:
        SystemExit: if a group is not in pyproject.toml; the message lists those that are.
    """
    data = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    run: list[str] = data["project"]["dependencies"]
    known: dict[str, list[str]] = {
        "build": data["build-system"]["requires"] + data["dependency-groups"]["native"],
        "run": [at_floor(line) for line in run] if floors else run,
        **data["project"]["optional-dependencies"],
    }
    lines: dict[str, None] = {}
    for group in groups:
        if group not in known:
            raise SystemExit(f"no requirements named {group!r}; there are: {', '.join(known)}")
        lines.update(dict.fromkeys(known[group]))
    return list(lines)


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--floors"]
    print("\n".join(requirements(names, floors="--floors" in sys.argv)))
