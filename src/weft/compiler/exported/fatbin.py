# SPDX-License-Identifier: Apache-2.0
"""Device code for several architectures in one image, of which the driver chooses.

In: cubins and PTX. Out: a fatbin, made by CUDA's `fatbinary`.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from weft.backends.cuda.assemblers import find_fatbinary
from weft.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Sequence


def make_fatbin(images: Sequence[tuple[str, bytes, bytes]]) -> bytes:
    """One image of the device code of several architectures, and PTX for newer ones.

    PTX is added for the newest architecture whose code runs on later ones, which those with a letter, such as sm_90a,
    do not. A single cubin without PTX stays as it is, and so does what is not a cubin.

    Args:
        images: architecture, cubin and PTX of each.
    Raises:
        ToolchainError: if an assembler or `fatbinary` is missing, or fails.
    """
    portable = [image for image in images if image[0][-1].isdigit() and image[2]]
    newest = max(portable, key=lambda image: int(image[0][3:]), default=None)
    if len(images) == 1 and (newest is None or not images[0][1].startswith(b"\x7fELF")):
        return images[0][1]
    tool = find_fatbinary()
    if tool is None:
        if len(images) == 1:
            return images[0][1]
        raise ToolchainError(
            "TOOL_MISSING",
            "a file for several architectures needs fatbinary, which is not installed",
            hint="pip install 'weft-lang[cuda]', or export a file for each architecture",
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words: list[str] = []
        for architecture, cubin, _ in images:
            if not cubin.startswith(b"\x7fELF"):
                raise ToolchainError(
                    "ASSEMBLER_ARCHITECTURE",
                    f"there is no assembler for {architecture} here",
                    hint="pip install 'weft-lang[cuda]'",
                )
            place = folder / f"{architecture}.cubin"
            place.write_bytes(cubin)
            words.append(f"--image3=kind=elf,sm={architecture[3:]},file={place}")
        if newest is not None:
            place = folder / "newer.ptx"
            place.write_bytes(newest[2])
            words.append(f"--image3=kind=ptx,sm={newest[0][3:]},file={place}")
        output = folder / "out.fatbin"
        result = subprocess.run(
            [tool, "-64", f"--create={output}", *words], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise ToolchainError(
                "LINK_FAILED",
                f"fatbinary failed with code {result.returncode}:\n{result.stderr.strip()}",
            )
        return output.read_bytes()
