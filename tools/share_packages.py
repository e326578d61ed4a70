# SPDX-License-Identifier: Apache-2.0
"""Lets this environment import what another interpreter has installed, after its own packages.

For machines without a network, where torch and similar packages are installed already. `venv --system-site-packages`
would miss them where that interpreter is of an environment itself.
In: folders of packages. Out: one .pth file in site-packages.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path


def share(folders: list[str]) -> Path:
    """Write `other-packages.pth` into this environment's site-packages and return its path."""
    pth = Path(sysconfig.get_path("purelib")) / "other-packages.pth"
    pth.write_text("".join(f"{folder}\n" for folder in folders if Path(folder).is_dir()))
    return pth


if __name__ == "__main__":
    share(sys.argv[1:])
