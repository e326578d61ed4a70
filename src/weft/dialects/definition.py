# SPDX-License-Identifier: Apache-2.0
"""Defines operations as xDSL's IRDL does, but parses their text format on first use.

In: a class of operations with an `assembly_format`. Out: the same class. Parsing all formats took a seventh of the
time from process start to first result, and compiling needs none of them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.ir import Dialect, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.traits import OpTrait

if TYPE_CHECKING:
    from types import ModuleType

    from xdsl.irdl.declarative_assembly_format import FormatProgram
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    Defined = TypeVar("Defined", bound=type[IRDLOperation])


class DependsOnWarps(OpTrait):
    """Marks operations whose result depends on which threads form a warp; machines with other warps lack them."""


def operation_definition(cls: Defined) -> Defined:
    """Decorator of an operation's class, in place of `irdl_op_definition`.

    Raises:
        xdsl.utils.exceptions.PyRDLOpDefinitionError: if the definition is wrong. A wrong format shows when an operation
        is first printed or parsed.
    """
    text = cls.assembly_format
    if text is None:
        return irdl_op_definition(cls)
    cls.assembly_format = None
    defined = irdl_op_definition(cls)
    defined.assembly_format = text

    @functools.cache
    def program() -> FormatProgram:
        from xdsl.irdl.declarative_assembly_format import FormatProgram

        return FormatProgram.from_str(text, defined.get_irdl_definition())

    def parse(kind: type[IRDLOperation], parser: Parser) -> IRDLOperation:
        return program().parse(parser, kind)

    def print_text(operation: IRDLOperation, printer: Printer) -> None:
        program().print(printer, operation)

    members: dict[str, Any] = {"parse": classmethod(parse), "print": print_text}
    for name, member in members.items():
        setattr(defined, name, member)
    return defined


def dialect_of(name: str, *modules: ModuleType) -> Dialect:
    """Returns the dialect with all operations and attributes that its modules define."""
    members = [
        member
        for module in modules
        for member in vars(module).values()
        if isinstance(member, type)
        and member.__module__ == module.__name__
        and str(getattr(member, "name", "")).startswith(f"{name}.")
    ]
    return Dialect(
        name,
        [member for member in members if issubclass(member, IRDLOperation)],
        [member for member in members if issubclass(member, ParametrizedAttribute)],
    )
