# SPDX-License-Identifier: Apache-2.0
"""Walks an operation's nested operations without recursion: deep `if`s cost no more than flat ones.

In: an operation, or a block. Out: it and the nested operations, in text order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.ir import Operation


def walk(root: Operation | Block) -> Iterator[Operation]:
    """The operation itself, if it is one, and all operations inside, outer ones first.

    xDSL's `walk` passes each operation through a generator per level.
    """
    waiting = list(root.ops)[::-1] if isinstance(root, Block) else [root]
    while waiting:
        operation = waiting.pop()
        yield operation
        if operation.regions:
            inner = [
                op for region in operation.regions for block in region.blocks for op in block.ops
            ]
            waiting += reversed(inner)
