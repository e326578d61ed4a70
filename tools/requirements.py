# SPDX-License-Identifier: Apache-2.0
"""The requirements of this project, one per line, so that they can be installed before it is built.

Knows: pyproject.toml. In: names of groups: `build`, `run`, or an extra. Out: requirement lines.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(groups: list[str]) -> list[str]:
    """The requirement strings of `groups`, in order, each once.

    Raises:
        SystemExit: if a group is not in pyproject.toml; the message lists those that are.
    """
    data = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    known: dict[str, list[str]] = {
        "build": data["build-system"]["requires"],
        "run": data["project"]["dependencies"],
        **data["project"]["optional-dependencies"],
    }
    lines: dict[str, None] = {}
    for group in groups:
        if group not in known:
            raise SystemExit(f"no requirements named {group!r}; there are: {', '.join(known)}")
        lines.update(dict.fromkeys(known[group]))
    return list(lines)


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
