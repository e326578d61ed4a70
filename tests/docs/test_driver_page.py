# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/driver.md that need a GPU run on the fake driver, in the order of the page."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.native.fake_cuda.fake import ROOT, build, in_child, start

PAGE = ROOT / "docs" / "driver.md"
MARKED = re.compile(
    r"<!-- not run: needs a GPU; tests/docs/test_driver_page.py .*?-->\n```python\n(.*?)```", re.S
)


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    build()
    return MARKED.findall(PAGE.read_text())


def test_every_block_that_needs_a_gpu_runs_on_the_fake_driver(blocks: list[str], tmp_path: Path):
    # A file, because kernels are compiled from their source text.
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))

    def run() -> None:
        fake = start()
        runpy.run_path(str(script), run_name="page")
        launches = fake.launches()
        assert len(launches) == 3
        for launch in launches:
            assert launch.startswith("saxpy_kernel grid=8,1,1 block=128,1,1 shared=0")
            assert launch.endswith("00000040 e8030000]")  # 2.0 and 1000
        assert "attributes=[4:2,1,1 8:4294967295," in launches[1]
        assert fake.count("cuTensorMapEncodeTiled") == 1
        assert (fake.count("cuMemcpyAsync"), fake.count("cuMemcpy3DAsync")) == (2, 1)
        assert fake.live("module") == 0

    in_child(run)


def test_no_block_of_the_page_is_left_out(blocks: list[str]):
    assert PAGE.read_text().count("<!-- not run") == len(blocks) == 4


def test_the_page_names_everything_that_is_public():
    from weft import driver

    names = {name for name in dir(driver) if name in driver._MODULE_OF}
    page = PAGE.read_text()
    assert len(names) > 35
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
