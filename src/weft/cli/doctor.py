# SPDX-License-Identifier: Apache-2.0
"""``weft doctor``: checks the installation, and says how to fix it.

In: this process and this machine. Out: one line for each part; 1 if a part that everything needs does not work.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import TYPE_CHECKING, Final, NamedTuple

from weft import __version__, cache
from weft.backends.cuda.assemblers import find_nvdisasm, nvjitlink_path, ptxas_path
from weft.cache.store import others_can_write
from weft.config import config, misspelled_variables, variables
from weft.errors import CudaError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

EXAMPLES: Final = ("weft doctor",)

_NEEDED: Final = ("xdsl", "llvmlite", "apache-tvm-ffi")
_OPTIONAL: Final = {
    "numpy": "pip install numpy: arrays to call functions with, and profiles",
    "torch": "pip install torch: only if you call functions with its tensors",
    "matplotlib": "pip install 'weft-lang[plot]': pictures of profiles",
}
_CUDA: Final = "pip install 'weft-lang[cuda]'; it needs no GPU"


class Finding(NamedTuple):
    """One part.

    Attributes:
        part: its name.
        state: "ok", "absent" (what needs it does not work, the rest does) or "broken".
        text: a version, a path, or the problem.
        fix: what to do; empty if there is nothing to do.
    """

    part: str
    state: str
    text: str
    fix: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings; 1 if one is broken."""
    is_broken = False
    for finding in findings():
        print(f"{finding.state:7} {finding.part:15} {finding.text}", flush=True)
        if finding.fix:
            print(f"{'':23} fix: {finding.fix}")
        is_broken = is_broken or finding.state == "broken"
    return int(is_broken)


def findings() -> Iterator[Finding]:
    """The state of each dependency."""
    yield Finding("weft", "ok", f"{__version__} on Python {platform.python_version()}")
    yield from _namesakes()
    yield _platform()
    for package in _NEEDED:
        try:
            yield Finding(package, "ok", version(package))
        except PackageNotFoundError:
            yield Finding(package, "broken", "not installed", f"pip install {package}")
    for package, fix in _OPTIONAL.items():
        try:
            yield Finding(package, "ok", version(package))
        except PackageNotFoundError:
            yield Finding(package, "absent", "not installed", fix)
    yield from _tools()
    yield from _driver()
    yield _cache()
    yield from _environment()


def _namesakes() -> Iterator[Finding]:
    """Other distributions that have, or had, files in a folder called weft."""
    for name in sorted({*packages_distributions().get("weft", ())} - {"weft-lang"}):
        text = f"the distribution {name} is another project's, and its import name is weft too"
        fix = f"pip uninstall {name}, then pip install --force-reinstall weft-lang"
        yield Finding("weft", "broken", text, fix)


def _platform() -> Finding:
    text = f"{platform.system()} {platform.machine()}"
    if sys.platform != "linux":
        return Finding("platform", "broken", text, "weft runs on Linux; use it there, or in WSL")
    return Finding("platform", "ok", text)


def _tools() -> Iterator[Finding]:
    """The tools that make and show machine code for GPUs."""
    ptxas, nvjitlink, nvdisasm = ptxas_path(), nvjitlink_path(), find_nvdisasm()
    found = {"ptxas": ptxas, "nvJitLink": nvjitlink, "nvdisasm": nvdisasm}
    for name, path in found.items():
        if path is not None:
            yield Finding(name, "ok", path)
        elif name == "nvdisasm":
            yield Finding(name, "absent", "not found: fn.sass needs it", _CUDA)
        elif ptxas is None and nvjitlink is None:
            yield Finding(name, "absent", "not found: the driver assembles PTX at load", _CUDA)
        else:
            yield Finding(name, "absent", "not found, and not needed: there is another assembler")


def _driver() -> Iterator[Finding]:
    """The driver and its devices."""
    from weft.driver.device import device_count, device_properties
    from weft.driver.library import driver_version

    try:
        major, minor = driver_version()
        count = device_count()
    except CudaError as error:
        yield Finding("driver", "absent", str(error), "nothing, unless kernels are to run on a GPU")
        return
    yield Finding("driver", "ok", f"CUDA {major}.{minor}, {count} devices")
    for ordinal in range(count):
        properties = device_properties(ordinal)
        gigabytes = properties.memory_bytes / (1 << 30)
        text = f"{properties.name}, {properties.architecture}, {gigabytes:.0f} GB"
        yield Finding(f"cuda:{ordinal}", "ok", text)


def _cache() -> Finding:
    """The folder of the cache on disk."""
    if config.no_cache:
        return Finding("cache", "absent", "switched off", "unset WEFT_NO_CACHE")
    info = cache.info()
    if info.folder is None:
        return Finding("cache", "absent", "there is no home directory", "set WEFT_CACHE_DIR")
    if others_can_write(info.folder):
        text = f"{info.folder} is not used, since other users can write to it"
        return Finding("cache", "absent", text, f"chmod go-w {info.folder}, or set WEFT_CACHE_DIR")
    return Finding("cache", "ok", f"{info.folder}, {info.entries} entries")


def _environment() -> Iterator[Finding]:
    """Variables that are set, and those that may be misspelled."""
    for variable in variables():
        if text := variable.text():
            yield Finding(variable.name, "ok", text)
    for name, meant in misspelled_variables().items():
        yield Finding(name, "absent", "weft has no such variable", f"write {meant}")
