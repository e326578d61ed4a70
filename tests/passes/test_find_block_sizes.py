# SPDX-License-Identifier: Apache-2.0
"""A kernel is made for the block that all its launches have, and for none that a launch would refuse."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from weft.dialects.context import make_context
from weft.passes.blocks import find_block_sizes


def block_size(*blocks, limit=None):
    """The block size of a kernel launched with these blocks; a size is a constant or a name."""
    attributes = "" if limit is None else f" attributes {{max_threads = {limit} : i32}}"
    sizes = [str(size) for block in blocks for size in block]
    numbers = sorted({size for size in sizes if not size.startswith("%")} | {"1"})
    constants = "\n".join(f"%c{n.replace('-', 'm')} = arith.constant {n} : i64" for n in numbers)
    named = [s if s.startswith("%") else f"%c{s.replace('-', 'm')}" for s in sizes]
    launches = "\n".join(
        f"simt.launch_ex @k grid(%c1, %c1, %c1) block({', '.join(named[at : at + 3])})"
        for at in range(0, len(named), 3)
    )
    text = f"""simt.kernel @k(){attributes} {{
simt.return
}}
func.func @host(%n: i64) {{
{constants}
{launches}
func.return
}}"""
    module = Parser(make_context(), text).parse_module()
    find_block_sizes(module)
    module.verify()
    return next(iter(module.body.block.ops)).block_size


def test_one_block_size_is_the_kernels():
    assert block_size((128, 2, 1)) == (128, 2, 1)
    assert block_size((128, 2, 1), (128, 2, 1)) == (128, 2, 1)


@pytest.mark.parametrize(
    "blocks",
    [((128, 2, 1), (128, 1, 1)), (("%n", 1, 1),), ((128, 1, 1), (128, "%n", 1)), ()],
    ids=["two", "staged", "one staged", "no launch"],
)
def test_without_one_constant_block_the_kernel_takes_any(blocks):
    assert block_size(*blocks) is None


@pytest.mark.parametrize("block", [(2048, 1, 1), (32, 33, 1), (1, 1, 65), (0, 1, 1), (-1, 1, 1)])
def test_a_block_that_no_device_takes_is_left_to_its_launch(block):
    assert block_size(block) is None


def test_the_largest_blocks_are_sizes():
    for block in ((1024, 1, 1), (1, 1024, 1), (16, 1, 64)):
        assert block_size(block) == block


def test_a_block_above_the_kernels_own_limit_is_left_to_its_launch():
    assert block_size((256, 1, 1), limit=256) == (256, 1, 1)
    assert block_size((257, 1, 1), limit=256) is None
