# SPDX-License-Identifier: Apache-2.0
"""``weft run``: one call of a function with random data.

In: a function, the types of its arguments, sizes. Out: what each tensor holds after the call, and the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.arguments.tensor import TensorKind
from weft.cli.functions import (
    add_data_arguments,
    add_function_arguments,
    compile_named,
    find_function,
    make_arguments,
    summary_of,
)

if TYPE_CHECKING:
    import argparse

EXAMPLES: Final = ("weft run kernels.py::scale --spec 'a:f32[n],b:f32[n]' --sizes n=1000",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The function and its data."""
    add_function_arguments(parser)
    add_data_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Calls it, and says what each tensor holds."""
    compiled = compile_named(arguments, find_function(arguments.function))
    values = make_arguments(compiled, arguments.sizes, arguments.seed)
    kinds = {parameter.name: parameter.kind for parameter in compiled.signature.passed}
    tensors = {name: kind for name, kind in kinds.items() if isinstance(kind, TensorKind)}
    before = {name: summary_of(values[name], kind.dtype) for name, kind in tensors.items()}
    result = compiled(**values)
    print(f"{compiled.name}{compiled.__signature__}")
    for name, kind in tensors.items():
        after = summary_of(values[name], kind.dtype)
        print(f"  {name}: {after}{'' if after == before[name] else '  (written)'}")
    if result is not None:
        print(f"  returned {result!r}")
    return 0
