# SPDX-License-Identifier: Apache-2.0
"""Every example on a GPU, called with torch's tensors, gives what torch gives on that GPU.

In: the catalog of examples, references written with torch's operators. Out: both results, compared: of the
direct call, of each executor, of a prepared call, of the function through `tvm_ffi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import weft
from examples.catalog import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.common import Example

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.gpu


def compiled(example: Example, arguments: dict[str, Any], options: str) -> Any:
    return weft.compile(example.function, *arguments.values(), options=options)


def direct(example: Example, arguments: dict[str, Any]) -> None:
    example.function(**arguments)


def by_library(example: Example, arguments: dict[str, Any]) -> None:
    fn = compiled(example, arguments, "--executor library")
    fn(**example.call_arguments(arguments))


def by_context(example: Example, arguments: dict[str, Any]) -> None:
    fn = compiled(example, arguments, "--executor context")
    fn.to(0)(**example.call_arguments(arguments))


def prepared(example: Example, arguments: dict[str, Any]) -> None:
    fn = compiled(example, arguments, "--executor library")
    fn.prepare(**example.call_arguments(arguments))()


def by_tvm_ffi(example: Example, arguments: dict[str, Any]) -> None:
    pytest.importorskip("tvm_ffi", reason="needs tvm_ffi")
    function = compiled(example, arguments, "--enable-tvm-ffi").as_tvm_ffi()
    function(*example.call_arguments(arguments).values())


WAYS = (direct, by_library, by_context, prepared, by_tvm_ffi)
CASES = [
    pytest.param(example, way, id=f"{example.name}-{way.__name__}")
    for example in EXAMPLES
    for way in WAYS
]


@pytest.mark.parametrize(("example", "way"), CASES)
def test_torch_agrees(example: Example, way: Callable[[Example, dict[str, Any]], None]):
    from tests.gpu.torch_references import check, copies_of, reference_of, tensors_of

    arguments = tensors_of(example.make_arguments(example.test_size), "cuda:0")
    expected = reference_of(example.name)(**copies_of(arguments))
    way(example, arguments)
    check(example, arguments, expected)
