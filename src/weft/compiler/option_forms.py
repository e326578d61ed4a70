# SPDX-License-Identifier: Apache-2.0
"""The two forms of options: a string, and objects in brackets.

In: ``"--enable-tvm-ffi --opt-level 2"``, or objects such as ``weft.EnableTVMFFI``. Out: `CompileOptions`. Unknown
options are errors that list all options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from weft.compiler.options import OPTIONS, CompileOption, CompileOptions, Sanitize
from weft.config import config, overridden
from weft.errors import OptionError, brief

if TYPE_CHECKING:
    from collections.abc import Sequence

_QUOTING: Final = frozenset("'\"\\")
_BY_FLAG: Final = {option.flag: option for option in OPTIONS}


def _unknown(flag: str) -> Exception:
    return OptionError(
        "OPTION_UNKNOWN",
        f"there is no option {brief(flag)}",
        hint="the options are " + ", ".join(_BY_FLAG),
    )


def _words(text: str) -> list[str]:
    """The words of a string of options, as a shell splits them."""
    if text.isascii() and text.isprintable() and _QUOTING.isdisjoint(text):
        return text.split()  # without importing `shlex`
    import shlex

    try:
        return shlex.split(text)
    except ValueError as error:
        raise OptionError("OPTION_SYNTAX", f"cannot split options {brief(text)}: {error}") from None


def parse_options(text: str) -> list[CompileOption]:
    """Options from a string such as ``"--opt-level 2 --gpu-arch=sm_90a"``; empty: none.

    Raises:
        OptionError: for anything unknown, mistyped, out of range or without its value.
        UnavailableError: for a value of a later version.
    Example:
        >>> parse_options("--enable-tvm-ffi --opt-level 2")
        [weft.EnableTVMFFI, weft.OptLevel(2)]
    """
    words = _words(text)
    options: list[CompileOption] = []
    position = 0
    while position < len(words):
        flag, equals, value = words[position].partition("=")
        position += 1
        option = _BY_FLAG.get(flag)
        if option is None:
            raise _unknown(flag)
        if not option.takes:
            if equals:
                raise OptionError(
                    "OPTION_VALUE", f"option {flag} takes no value, received {brief(value)}"
                )
            options.append(option(True))
            continue
        stands_alone = position == len(words) or words[position].startswith("--")
        if not equals and option.alone and stands_alone:
            value = option.alone
        elif not equals:
            if position == len(words):
                raise OptionError(
                    "OPTION_VALUE", f"option {flag} takes {option.takes}, received nothing"
                )
            value = words[position]
            position += 1
        options.append(option(option.read(value)))
    return options


def typed_options(items: object) -> list[CompileOption]:
    """Options from ``weft.compile[...]``: option objects, or option classes that are switches.

    Raises:
        OptionError: if an item is neither, or a class that needs a value.
    """
    given = cast("tuple[Any, ...]", items if isinstance(items, tuple) else (items,))
    return [_typed("weft.compile[...]", item) for item in given]


def _typed(where: str, item: object) -> CompileOption:
    if isinstance(item, CompileOption):
        return item
    if isinstance(item, type) and issubclass(item, CompileOption) and hasattr(item, "flag"):
        if item.takes:
            raise OptionError(
                "OPTION_VALUE", f"weft.{item.__name__} takes {item.takes}, received no value"
            )
        return item()
    raise OptionError(
        "OPTION_UNKNOWN",
        f"{where} takes options, received {brief(item)}",  # pyright: ignore[reportUnknownArgumentType]
        hint="the options are " + ", ".join(f"weft.{o.__name__}" for o in OPTIONS),
    )


def make_options(
    text: object = "",
    typed: Sequence[CompileOption] = (),
    defaults: Sequence[CompileOption] = (),
) -> CompileOptions:
    """One set of options from the decorator, brackets and string; later ones win.

    Args:
        text: the user's ``options=``.
        typed: from the brackets of ``weft.compile[...]``.
        defaults: from ``@weft.jit(options=)``.
    Raises:
        OptionError: if `text` is not a string, or anything in it is wrong.
    """
    options = CompileOptions()
    options.apply(defaults, are_defaults=True)
    options.apply(typed)
    options.apply(options_from(text))
    _add_checks(options)
    return options


def _add_checks(options: CompileOptions) -> None:
    """Adds the checks of `weft.sanitize` or, as defaults, of the environment."""
    wanted = config.sanitize
    if wanted:
        insists = options.sanitize and "sanitize" not in options.defaults
        is_default = overridden("sanitize") is None and not insists
        checks = Sanitize(f"{options.sanitize},{wanted}".strip(","))
        options.apply([checks], are_defaults=is_default)


def options_from(given: object) -> list[CompileOption]:
    """Options from ``options=``: strings and options, single or in a list or tuple.

    None is not accepted.

    Raises:
        OptionError: for any other type or invalid content.
    Example:
        >>> options_from(["--opt-level 2", weft.EnableTVMFFI])
        [weft.OptLevel(2), weft.EnableTVMFFI]
    """
    if given is None:
        return []
    items = cast("Sequence[object]", given) if isinstance(given, list | tuple) else (given,)
    options: list[CompileOption] = []
    for item in items:
        options += parse_options(item) if isinstance(item, str) else [_typed("options=", item)]
    return options
