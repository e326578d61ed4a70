# SPDX-License-Identifier: Apache-2.0
"""`for i in weft.each(n)`: independent rounds as `simt.each`.

In: the statement and its `Rounds`. Out: the operation, after assertions that the arrays that iterations access at
its index are long enough.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from xdsl.ir import Block, Region

from weft.dialects.builder import name_value
from weft.dialects.simt.memory import LoadOp, StoreOp
from weft.dialects.simt.threads import EachOp
from weft.errors import CompileError, ValueRangeError
from weft.frontend.events import tell
from weft.language.debug import emit_assert
from weft.language.memory.access import dim
from weft.language.numbers.convert import to_common
from weft.language.numbers.operators import compare
from weft.language.values import Scalar, Tensor
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder
    from weft.frontend.statements.loop import Loop
    from weft.language.threads.each import Rounds


def trace_each(loop: Loop, rounds: Rounds) -> None:
    """Traces the body once.

    Raises:
        CompileError: for a `break` or `return`, or a variable that an iteration leaves for later code.
    """
    assert isinstance(loop.node, ast.For)
    target = loop.node.target
    _refuse_exits(loop)
    frame = loop.frame
    loop.enter()
    carried = loop.carried()
    for name in carried.names:
        raise _carried(loop, f"'{name}' has a value before weft.each and is assigned in it")
    builder = frame.mark(loop.node)
    extents = [
        to_common(builder, extent, dtype).ssa
        for extent, dtype in zip(rounds.extents, rounds.dtypes, strict=True)
    ]
    block = Block(arg_types=[extent.type for extent in extents])

    def trace_round() -> None:
        tell(frame, "round", loop.node)
        indices = tuple(map(Scalar, block.args, rounds.dtypes))
        names: Sequence[ast.expr] = (
            target.elts if isinstance(target, ast.Tuple) else [target] * len(indices)
        )
        for argument, name in zip(block.args, names, strict=False):
            name_value(argument, name.id if isinstance(name, ast.Name) else "index")
        loop.statements.store(target, indices if rounds.is_tuple else indices[0])
        loop.round()

    _, path = frame.trace_in(block, frame.scope.path.copy(), trace_round)
    for slot in path.changed:
        raise _carried(loop, f"{slot} changes in weft.each")
    builder = frame.mark(loop.node)
    _assert_lengths(builder, rounds, block)
    builder.emit(EachOp(extents, Region(block)))
    loop.finish(carried, ())


def _refuse_exits(loop: Loop) -> None:
    """Raises at the first `break` or `return` that would end the rounds."""
    analysis = loop.frame.source.analysis
    nodes: Sequence[ast.AST] = loop.node.body
    while left := [node for node in nodes if analysis.exits([node]).leave_loop]:
        node = left[0]
        nodes = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Break | ast.Return):
            word = "break" if isinstance(node, ast.Break) else "return"
            raise CompileError(
                "EACH_EXIT",
                f"{word} inside weft.each, whose rounds run in any order",
                hint="write continue, which ends this round",
                location=loop.frame.locate(node),
            )


def _carried(loop: Loop, what: str) -> CompileError:
    return CompileError(
        "EACH_CARRIED",
        f"{what}, but rounds are independent: none sees what another assigns",
        hint="assign it inside the loop before it is read, or add up with weft.atomic_add",
        location=loop.frame.locate(loop.node),
    )


def _assert_lengths(builder: Builder, rounds: Rounds, block: Block) -> None:
    """Asserts that the arrays accessed at an iteration's index, whatever the round, have an element for each."""
    indices = tuple(block.args)
    arrays: dict[SSAValue, None] = {}
    for op in block.ops:
        if isinstance(op, LoadOp | StoreOp) and tuple(op.indices) == indices:
            if op.tensor.owner is builder.entry:
                arrays[op.tensor] = None
    for array in arrays:
        # Of the array, only its dims are asked for.
        tensor = Tensor(array, types.u8, array.name_hint or "an array")
        for number, extent in enumerate(rounds.extents if not tensor.type.is_pointer else ()):
            _assert_length(builder, tensor, number, extent)


def _assert_length(builder: Builder, tensor: Tensor, number: int, extent: Scalar | int) -> None:
    size, name = dim(builder, tensor, number), f"{tensor.name}.shape[{number}]"
    least = extent.constant if isinstance(extent, Scalar) else extent
    if isinstance(size, int) and least is not None and size < least:
        raise ValueRangeError(
            "EACH_LENGTH",
            f"weft.each: {name} is {size}, expected at least {least}, the number of rounds",
            hint="count as many rounds as the shortest array has elements",
        )
    is_same = isinstance(size, Scalar) and isinstance(extent, Scalar) and size.ssa is extent.ssa
    if is_same or (isinstance(size, int) and least is not None):
        return
    said = extent.ssa.name_hint if isinstance(extent, Scalar) and least is None else least
    said = re.sub(r"_dim(\d)$", r".shape[\1]", str(said or "the number of rounds"))
    wide = [to_common(builder, part, types.i64) for part in (size, extent)]
    emit_assert(builder, compare(builder, ">=", *wide), f"weft.each: {name} >= {said}")
