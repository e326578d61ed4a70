# SPDX-License-Identifier: Apache-2.0
"""Arrays that blocks have of their own are arguments after all others; the values are conformance's."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from weft.dialects.builder import source_location
from weft.dialects.context import make_context
from weft.passes.arguments import add_scratch_arguments


def array(element, dims, align):
    shape = ", ".join(map(str, dims))
    return f"!simt.tensor<{element}, [{shape}], contiguous, global, dims 64, offsets 64, align {align}>"


def after(parameters, *arrays):
    """A kernel after the pass that had these arrays, each on a line of its own."""
    lines = "\n".join(
        f'%a{n} = simt.global_scratch : {array(*one)} loc("k.py":{n + 10}:5)'
        for n, one in enumerate(arrays)
    )
    text = f"simt.kernel @k({parameters}) {{\n{lines}\nsimt.return\n}}"
    module = Parser(make_context(), text).parse_module()
    add_scratch_arguments(module)
    module.verify()
    return next(iter(module.body.block.ops))


def views(kernel):
    return [op for op in kernel.body.block.ops if op.name == "simt.view"]


def test_arrays_are_the_last_arguments_in_program_order():
    kernel = after("%n: i32", ("f32", (4,), 16), ("i8", (3, 2), 2))
    first, second = kernel.scratch_arguments
    assert [first.index, second.index] == [1, 2]
    assert str(first.type) == array("f32", ("?", 4), 16)
    assert str(second.type) == array("i8", ("?", 3, 2), 2)
    assert [view.source for view in views(kernel)] == [first, second]


def test_each_name_stands_by_its_argument():
    names = [attributes.data for attributes in after("%n: i32", ("f32", (4,), 16)).arg_attrs]
    assert [names[0], names[1]["weft.name"].data] == [{}, "scratch_0"]


def test_a_view_is_of_the_arrays_type_and_stands_at_its_place():
    (view,) = views(after("", ("f64", (2, 2), 8)))
    assert str(view.result.type) == array("f64", (2, 2), 8)
    assert str(source_location(view.location)) == "k.py:10"


def test_blocks_are_numbered_once_for_all_arrays():
    kernel = after("", ("f32", (4,), 16), ("f32", (4,), 16))
    assert sum(op.name == "simt.block_idx" for op in kernel.body.block.ops) == 3
    assert len({view.starts[0] for view in views(kernel)}) == 1


@pytest.mark.parametrize("parameters", ["", "%n: i32"])
def test_a_kernel_without_arrays_is_left_as_it_is(parameters):
    kernel = after(parameters)
    assert kernel.scratch_arguments == ()
    assert len(list(kernel.body.block.ops)) == 1
