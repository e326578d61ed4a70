# SPDX-License-Identifier: Apache-2.0
"""Makes `import weft` in this environment mean the source tree.

`pip install -e .` would build the extension a second time; the Makefile has put it into src/weft.
Out: one .pth file in site-packages.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path


def register() -> Path:
    """Write `weft-source.pth` into this environment's site-packages and return its path."""
    source = Path(__file__).resolve().parent.parent / "src"
    pth = Path(sysconfig.get_path("purelib")) / "weft-source.pth"
    pth.write_text(f"{source}\n")
    return pth


if __name__ == "__main__":
    register()
