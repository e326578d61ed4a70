# SPDX-License-Identifier: Apache-2.0
"""Where the tools for PTX and cubins are; imports none of them.

In: the environment variables of `weft.config`, NVIDIA's installed wheels, PATH, CUDA's usual place. Out: paths.
"""

from __future__ import annotations

import os
from typing import Final

from weft.backends.cuda.installed import find_installed
from weft.config import config, search_path

_USUAL_PLACE: Final = "/usr/local/cuda/bin"


def ptxas_path() -> str | None:
    """Path of ptxas, which makes a cubin from PTX, or None; with WEFT_NVJITLINK alone it is not used."""
    if config.nvjitlink is not None and config.ptxas is None:
        return None
    return find_ptxas()


def find_ptxas() -> str | None:
    """Path of ptxas, or None."""
    return config.ptxas or _find_program("ptxas", "nvidia-cuda-nvcc")


def nvjitlink_path() -> str | None:
    """Path of nvJitLink from `WEFT_NVJITLINK` or NVIDIA's wheel, or None."""
    if config.nvjitlink is not None:
        return config.nvjitlink
    return find_installed("nvidia-nvjitlink", r"libnvJitLink\.so\.\d+")


def find_fatbinary() -> str | None:
    """Path of fatbinary, which joins the code of several architectures, or None."""
    return _find_program("fatbinary", "nvidia-cuda-nvcc")


def find_nvdisasm() -> str | None:
    """Path of nvdisasm, or None."""
    return config.nvdisasm or _find_program("nvdisasm", "nvidia-cuda-nvdisasm")


def _find_program(name: str, distribution: str) -> str | None:
    installed = find_installed(distribution, f"bin/{name}")
    if installed is not None:
        return installed
    for folder in [*search_path().split(os.pathsep), _USUAL_PLACE]:
        path = os.path.join(folder, name)  # noqa: PTH118
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
    return None
