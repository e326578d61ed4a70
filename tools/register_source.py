# SPDX-License-Identifier: Apache-2.0
"""Makes `import weft` and the command `weft` in this environment mean the source tree.

`pip install -e .` would build the extension a second time; the Makefile has put it into src/weft.
Out: one .pth file in site-packages, and the project's scripts beside the interpreter.
"""

from __future__ import annotations

import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """\
#!{python}
import sys

from {module} import {function}

sys.exit({function}())
"""


def register() -> None:
    """Write `weft-source.pth` into this environment's site-packages, and the scripts that pyproject.toml names."""
    pth = Path(sysconfig.get_path("purelib")) / "weft-source.pth"
    pth.write_text(f"{ROOT / 'src'}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, entry in project["scripts"].items():
        module, function = entry.split(":")
        script = Path(sysconfig.get_path("scripts")) / name
        text = SCRIPT.format(python=sys.executable, module=module, function=function)
        script.write_text(text)
        script.chmod(0o755)


if __name__ == "__main__":
    register()
