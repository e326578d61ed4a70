# SPDX-License-Identifier: Apache-2.0
"""Defines operations as xDSL's IRDL does, with constructors made from the fields, and text formats parsed on first use.

In: a class of operations with its fields and an `assembly_format`. Out: the same class. Fields by `operand`, `string`,
`integer`, ... are the constructor's parameters, in their order, which type checkers see. Parsing all formats took a
seventh of the time from process start to first result, and compiling needs none of them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar, cast, dataclass_transform

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Dialect, ParametrizedAttribute, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import OpTrait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from xdsl.ir import OpResult, SSAValue
    from xdsl.irdl.declarative_assembly_format import FormatProgram
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    Defined = TypeVar("Defined", bound=type[IRDLOperation])

    Read_co = TypeVar("Read_co", covariant=True)
    Given_contra = TypeVar("Given_contra", contravariant=True)

    class Field(Protocol[Read_co, Given_contra]):
        """A field of an operation: the type of reading it, and that of the constructor's argument."""

        def __get__(self, instance: object, owner: object) -> Read_co: ...
        def __set__(self, instance: object, value: Given_contra) -> None: ...

    Operands = Field[tuple[SSAValue, ...], Sequence[SSAValue]]
    String = Field[StringAttr, str]
    OptString = Field[StringAttr | None, str | StringAttr | None]
    Integer = Field[IntegerAttr, int]
    OptInteger = Field[IntegerAttr | None, int | None]
    Integers = Field[DenseArrayBase[IntegerType], Sequence[int]]
    Flag = Field[UnitAttr | None, bool]
    Symbol = Field[SymbolRefAttr, str]
    AttributeT = TypeVar("AttributeT", bound=Attribute)
    Result = Field[OpResult[AttributeT], Attribute]
    Results = Field[tuple[OpResult[AttributeT], ...], Sequence[Attribute]]
    Body = Field[Region, Region | Block]


_REQUIRED: Final = object()


@dataclass(frozen=True)
class _Field:
    """A parameter of a constructor, or a result whose type follows from one.

    Attributes:
        definition: xDSL's.
        convert: makes what xDSL takes of the value given.
        default: for a value not given.
        source: name of the field that gives a result's type, or the type itself.
    """

    definition: Any
    convert: Callable[[Any], Any] | None = None
    default: Any = _REQUIRED
    source: str | Attribute | None = None


def operand(constraint: Any = Attribute) -> Any:
    """An operand."""
    return _Field(operand_def(constraint))


def operands(constraint: Any = Attribute, *, default: Any = _REQUIRED) -> Any:
    """A number of operands."""
    return _Field(var_operand_def(constraint), default=default)


def opt_operand(constraint: Any = Attribute, *, default: Any = _REQUIRED) -> Any:
    """An operand, or None."""
    return _Field(opt_operand_def(constraint), default=default)


def string(*, default: Any = _REQUIRED) -> Any:
    """A property that is a text."""
    return _Field(prop_def(StringAttr), text_attribute, default)


def opt_string(*, default: Any = _REQUIRED) -> Any:
    """A property that is a text, or None."""
    return _Field(opt_prop_def(StringAttr), _opt_text, default)


def integer(kind: IntegerType, *, default: Any = _REQUIRED) -> Any:
    """A property that is an integer."""
    definition = prop_def(IntegerAttr.constr(kind))
    return _Field(definition, functools.partial(_integer, kind), default)


def opt_integer(kind: IntegerType, *, default: Any = _REQUIRED) -> Any:
    """A property that is an integer, or None."""
    definition = opt_prop_def(IntegerAttr.constr(kind))
    return _Field(definition, functools.partial(_integer, kind), default)


def integers(kind: IntegerType) -> Any:
    """A property that is a list of integers."""
    definition = prop_def(DenseArrayBase.constr(kind))
    return _Field(definition, functools.partial(DenseArrayBase.from_list, kind))


def flag(*, default: Any = _REQUIRED, kw_only: bool = True) -> Any:
    """A property that is present or not."""
    assert kw_only
    return _Field(opt_prop_def(UnitAttr), _unit, default)


def symbol() -> Any:
    """A property that names another operation."""
    return _Field(prop_def(SymbolRefAttr), SymbolRefAttr)


def single_block() -> Any:
    """A region of one block."""
    return _Field(region_def("single_block"), _region)


def result(constraint: Any = Attribute) -> Any:
    """A result whose type is given."""
    return _Field(result_def(constraint))


def results(constraint: Any = Attribute) -> Any:
    """Results whose types are given."""
    return _Field(var_result_def(constraint))


def fixed_result(kind: AttributeT) -> OpResult[AttributeT]:
    """A result of one type."""
    return cast("Any", _Field(result_def(kind), source=kind))


def result_of(
    source: str,
    constraint: Any = Attribute,
    kind: Callable[[Any], Any] | None = None,
    *,
    init: Literal[False] = False,
) -> Any:
    """A result whose type follows from another field: from an operand's type, or the value given for a property."""
    assert not init
    return _Field(result_def(constraint), kind, source=source)


@functools.lru_cache(1024)
def text_attribute(text: str) -> StringAttr:
    r"""A user's text; code points without UTF-8 (lone surrogates) and NUL as Python shows them.

    Example:
        >>> text_attribute("caf\udce9").data
        'caf\\udce9'
    """
    return StringAttr(text.encode(errors="backslashreplace").decode().replace("\0", "\\x00"))


def _opt_text(value: str | StringAttr | None) -> StringAttr | None:
    return text_attribute(value) if isinstance(value, str) else value


@functools.lru_cache(1024, typed=True)
def _integer(kind: IntegerType, value: int | None) -> IntegerAttr | None:
    return None if value is None else IntegerAttr(value, kind)


def _unit(value: bool) -> UnitAttr | None:
    return UnitAttr() if value else None


def _region(value: Region | Block) -> Region:
    return value if isinstance(value, Region) else Region(value)


def _inherited(*, init: Literal[False] = False) -> Any:
    """A field of xDSL's operations, which constructors do not take."""
    assert not init


@dataclass_transform(
    eq_default=False,
    field_specifiers=(
        *(operand, operands, opt_operand, string, opt_string, integer, opt_integer, integers),
        *(flag, symbol, single_block, result, results, result_of, _inherited),
    ),
)
class _Fields(IRDLOperation):
    """Base by which type checkers derive constructors."""

    if not TYPE_CHECKING:
        __fields__ = {}

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            own = {name: field for name, field in vars(cls).items() if isinstance(field, _Field)}
            cls.__fields__ = {**cls.__fields__, **own}
            for name, field in own.items():
                setattr(cls, name, field.definition)

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(**arguments_of(type(self), given, named))


@dataclass(frozen=True)
class _Recipe:
    """A constructor: the names of its parameters, and where each value goes.

    Attributes:
        fields: of the class, by name.
        names: of the parameters.
        converted: parameters whose values are converted.
        derived: results whose types follow.
        operands: names in xDSL's order, as are the following.
    """

    fields: dict[str, _Field]
    names: tuple[str, ...]
    converted: tuple[tuple[str, Callable[[Any], Any]], ...]
    derived: tuple[tuple[str, _Field], ...]
    operands: tuple[str, ...]
    properties: tuple[str, ...]
    regions: tuple[str, ...]
    results: tuple[str, ...]


@functools.cache
def _recipe_of(cls: Any) -> _Recipe:
    fields: dict[str, _Field] = cls.__fields__
    names = tuple(name for name, field in fields.items() if field.source is None)
    converted = [(name, convert) for name in names if (convert := fields[name].convert)]
    definition = cls.get_irdl_definition()
    return _Recipe(
        fields,
        names,
        tuple(converted),
        tuple((name, field) for name, field in fields.items() if field.source is not None),
        tuple(name for name, _ in definition.operands),
        tuple(name for name in definition.properties if name in fields),
        tuple(name for name, _ in definition.regions),
        tuple(name for name, _ in definition.results),
    )


def arguments_of(cls: Any, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Returns xDSL's arguments for an operation, from its fields' values.

    Raises:
        TypeError: if a field's value is missing, or a name is unknown.
    """
    recipe = _recipe_of(cls)
    names = recipe.names
    taken = dict(zip(names, given, strict=False))
    taken.update(named)
    if len(given) + len(named) != len(taken) or not taken.keys() <= set(names):
        received = ", ".join([f"{len(given)} values", *named])
        raise TypeError(
            f"{cls.__name__} takes {', '.join(names) or 'nothing'}; received {received}"
        )
    if len(taken) != len(names):
        for name in names:
            if taken.setdefault(name, recipe.fields[name].default) is _REQUIRED:
                raise TypeError(f"{cls.__name__} takes {', '.join(names)}; {name} is missing")
    for name, field in recipe.derived:
        if isinstance(field.source, str):
            value = taken[field.source]
            kind = getattr(value, "type", value)
            taken[name] = kind if field.convert is None else field.convert(kind)
        else:
            taken[name] = field.source
    for name, convert in recipe.converted:
        taken[name] = convert(taken[name])
    return {
        "operands": [taken.get(name) for name in recipe.operands],
        "properties": {name: taken[name] for name in recipe.properties},
        "regions": [taken[name] for name in recipe.regions],
        "result_types": [taken[name] for name in recipe.results],
    }


class BaseOperation(_Fields):
    """Base of operations that are constructed from their fields, in the class's order."""

    if TYPE_CHECKING:
        _operands: Any = _inherited(init=False)
        _operand_uses: Any = _inherited(init=False)
        results: Any = _inherited(init=False)
        _successors: Any = _inherited(init=False)
        _successor_uses: Any = _inherited(init=False)
        properties: dict[str, Attribute] = _inherited(init=False)
        attributes: dict[str, Attribute] = _inherited(init=False)
        location: Any = _inherited(init=False)
        regions: tuple[Region, ...] = _inherited(init=False)
        parent: Block | None = _inherited(init=False)
        _next_op: Any = _inherited(init=False)
        _prev_op: Any = _inherited(init=False)


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
