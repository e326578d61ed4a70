# SPDX-License-Identifier: Apache-2.0
"""The environment of a source tree has the package and its command."""

from __future__ import annotations

import subprocess
import sysconfig

from tools import register_source


def test_the_command_and_the_package_are_those_of_the_source_tree(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    register_source.register()
    said = subprocess.run(
        [tmp_path / "weft", "explain", "PRINT"], capture_output=True, text=True, check=True
    )
    assert "print" in said.stdout
    assert (tmp_path / "weft-source.pth").read_text() == f"{register_source.ROOT / 'src'}\n"
