# SPDX-License-Identifier: Apache-2.0
"""Backends are found by name, in the table or through an entry point; what is wrong with one is said by name."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

import weft
from tests.architecture.source_tree import run_python
from weft.backends.registry import (
    BACKENDS,
    ENTRY_POINT,
    find_backend,
    find_backend_of,
    find_target,
)
from weft.compiler.options import make_options
from weft.errors import OptionError

GOOD = """
from weft.backends.base import Backend
class Made(Backend):
    name, device_type, architectures = "elsewhere", 7, r"chip[1-9]"
    def compile(self, job): ...
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes a package with one backend visible, as an installer would."""

    def make(source: str, name: str = "elsewhere") -> None:
        (tmp_path / "elsewhere_package.py").write_text(source)
        folder = tmp_path / "elsewhere_package-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: elsewhere-package\nVersion: 1.0\n"
        )
        (folder / "entry_points.txt").write_text(
            f"[{ENTRY_POINT}]\n{name} = elsewhere_package:Made\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        find_backend.cache_clear()

    yield make
    sys.modules.pop("elsewhere_package", None)
    find_backend.cache_clear()


@pytest.mark.parametrize("name", BACKENDS)
def test_each_backend_of_the_table_has_its_name_and_is_made_once(name: str):
    assert find_backend(name).name == name
    assert find_backend(name) is find_backend(name)


def test_an_unknown_target_is_an_error_that_lists_all():
    with pytest.raises(OptionError, match=r"there is no target 'tpu'; there are: cpu, cuda"):
        find_backend("tpu")


def test_another_package_adds_a_backend_through_an_entry_point(install):
    install(GOOD)
    assert find_backend("elsewhere").name == "elsewhere"
    with pytest.raises(OptionError, match=r"there are: cpu, cuda, elsewhere"):
        find_backend("tpu")


def test_an_architecture_belongs_to_the_target_that_takes_it(install):
    assert find_target("chip7") is find_target("sm_9") is find_target("") is None
    with pytest.raises(OptionError, match="such as sm_90a, received 'chip7'"):
        weft.GPUArch("chip7")
    install(GOOD)
    assert (find_target("sm_90a"), find_target("chip7")) == ("cuda", "elsewhere")
    assert make_options("--gpu-arch chip7").wants_target == "elsewhere"
    assert make_options("--target elsewhere", [weft.GPUArch("chip7")]).gpu_arch == "chip7"
    assert make_options("--target cpu", [weft.GPUArch("chip7")]).gpu_arch is None
    with pytest.raises(OptionError, match="implies --target elsewhere, but --target is cuda"):
        make_options("--target cuda --gpu-arch chip7")


def test_tensors_choose_the_backend_of_their_device(install):
    install(GOOD)
    for name in ("cpu", "cuda", "elsewhere"):
        backend = find_backend(name)
        assert find_backend_of(backend.device_type) is backend
        assert backend.runs_on_host == (name == "cpu")
    assert find_backend_of(8) is None

    @weft.jit
    def host(a: weft.Tensor[weft.f32, (4,)]):
        pass

    with pytest.raises(weft.ArgumentValueError) as caught:
        weft.compile(host, weft.fake_tensor(weft.f32, (4,), device="metal:1"))
    assert caught.value.code == "TENSOR_DEVICE"
    assert "argument 'a' is on metal, which no target compiles for" in str(caught.value)
    with pytest.raises(OptionError, match="the target cuda, but argument 'a' is on metal"):
        weft.compile(
            host, weft.fake_tensor(weft.f32, (4,), device="metal"), options="--target cuda"
        )


def test_asking_what_a_backend_is_imports_no_compiler():
    code = (
        "import sys, weft\n"
        "weft.jit(options='--gpu-arch sm_90a --target cuda')\n"
        "assert not {'xdsl', 'llvmlite', 'dataclasses'} & set(sys.modules)\n"
    )
    assert run_python(code) == ""


def test_listing_the_targets_imports_none_of_them(install):
    install("raise RuntimeError('imported')")
    assert find_backend("cpu").name == "cpu"
    with pytest.raises(OptionError, match=r"there are: cpu, cuda, elsewhere"):
        find_backend("tpu")
    assert "elsewhere_package" not in sys.modules


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ImportError('no such chip')", "raised ImportError: no such chip"),
        ("", "raised AttributeError"),
        ("Made = 3", "raised TypeError: 'int' object is not callable"),
        (
            "class Made: name = 'elsewhere'",
            "lacks device_type, architectures, default_architecture, ",
        ),
        (GOOD.replace("def compile", "def compiel"), "raised TypeError: Can't instantiate"),
        (GOOD.replace("elsewhere", "other"), "calls itself 'other'"),
    ],
    ids=[
        *("does not import", "has nothing", "has no class", "lacks members"),
        *("cannot compile", "has another name"),
    ],
)
def test_a_package_whose_backend_is_broken_is_named(install, source: str, said: str):
    install(source)
    with pytest.raises(
        OptionError, match=rf"'elsewhere' of the package elsewhere-package .*{said}"
    ):
        find_backend("elsewhere")


def test_a_package_cannot_replace_a_backend_of_the_table(install):
    install(GOOD.replace("elsewhere", "cpu"), name="cpu")
    assert type(find_backend("cpu")).__name__ == "CpuBackend"
    assert importlib.metadata.entry_points(group=ENTRY_POINT)
