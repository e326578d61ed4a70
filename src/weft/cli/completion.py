# SPDX-License-Identifier: Apache-2.0
"""``weft completion``: a script that completes the commands in a shell.

In: the name of a shell. Out: its script, made from the table of commands, so that it needs no other package.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]

EXAMPLES: Final = ("weft completion bash", "weft completion zsh")

# zsh reads bash's functions.
_ZSH: Final = "autoload -U +X bashcompinit && bashcompinit\n"
_SCRIPT: Final = """\
_weft() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    case "${{COMP_WORDS[*]:1:COMP_CWORD-1}}" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _weft weft
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument(
        "shell", choices=("bash", "zsh"), help="add the script to ~/.bashrc or ~/.zshrc"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    cases = "\n".join(
        f'        {pattern}) words="{" ".join(words)}" ;;'
        for pattern, words in _cases(arguments.make_parser())
    )
    print((_ZSH if arguments.shell == "zsh" else "") + _SCRIPT.format(cases=cases), end="")
    return 0


def _cases(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """A pattern of the words before the cursor, and the words that may follow."""
    commands = subparsers(parser)
    for name, command in commands.items():
        for action in command._actions:  # pyright: ignore[reportPrivateUsage]
            if action.choices and action.option_strings:
                yield f"{name}*\\ {action.option_strings[-1]}", list(action.choices)
        yield f"{name}*", _words(command)
    yield "*", list(commands)


def _words(command: argparse.ArgumentParser) -> list[str]:
    words: list[str] = []
    for action in command._actions:  # pyright: ignore[reportPrivateUsage]
        words += action.option_strings or list(action.choices or ())
    return sorted({word for word in words if word.startswith("--") or not word.startswith("-")})


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser, by name."""
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            return dict(cast("Parsers", action).choices)
    return {}
