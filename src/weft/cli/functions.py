# SPDX-License-Identifier: Apache-2.0
"""The function that a command names, ``file.py::function``, and its compilation.

In: words of the command line. Out: a host function, or a compiled one; a wrong word is a `WrongCommandError`.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.cli.spec import example_of, parse_spec
from weft.errors import OptionError

if TYPE_CHECKING:
    import argparse
    from types import ModuleType


class WrongCommandError(Exception):
    """A command whose words cannot be followed; the text says what to write."""


_HOST_FUNCTION: Final = """\
'{name}' is a kernel, which only runs when a host function launches it; add one to the file, and name that:

    @weft.jit
    def launch_{name}({parameters}):
        {name}({parameters}).launch(grid=..., block=...)"""


def add_function_arguments(parser: argparse.ArgumentParser) -> None:
    """The function, the types of its arguments, and options for compiling it."""
    parser.add_argument(
        "function", metavar="file.py::function", help="a @weft.jit function of a file"
    )
    parser.add_argument(
        "--spec",
        type=parse_spec,
        default={},
        help="types of the arguments, such as 'a:f32[n],b:f32[n]'; those left out have annotations",
    )
    parser.add_argument("--gpu-arch", metavar="ARCH", help="compile for a GPU, such as sm_90a")
    parser.add_argument("--target", help="compile for cpu, cuda or another backend")
    parser.add_argument(
        "--options", default="", help="more options of weft.compile: --options='--opt-level 2'"
    )


def find_function(words: str) -> Any:
    """The host function that ``file.py::function`` names; its name may be left out if the file has only one.

    Raises:
        WrongCommandError: if there is no such file or function, or if it is a kernel.
        OSError: if the file cannot be read.
    """
    from weft.api import JitFunction, Kernel

    file, _, name = words.partition("::")
    module = _import_file(Path(file))
    functions = {key: each for key, each in vars(module).items() if isinstance(each, JitFunction)}
    listed = (
        f"{file} has the host functions {', '.join(functions)}"
        if functions
        else (f"{file} has no host function: decorate one with @weft.jit")
    )
    if not name:
        if len(functions) == 1:
            return next(iter(functions.values()))
        raise WrongCommandError(f"name a function, as in {file}::function; {listed}")
    found = getattr(module, name, None)
    if isinstance(found, JitFunction):
        return found
    if isinstance(found, Kernel):
        code = found.function.__code__
        parameters = ", ".join(code.co_varnames[: code.co_argcount])
        raise WrongCommandError(_HOST_FUNCTION.format(name=name, parameters=parameters))
    if found is not None:
        raise WrongCommandError(f"{name} is not a host function; {listed}")
    near = get_close_matches(name, functions, n=1)
    raise WrongCommandError(
        f"{file} has no {name}; {f'did you mean {near[0]}?' if near else listed}"
    )


def _import_file(path: Path) -> ModuleType:
    """Runs a file as a module; what lies beside it, and in the current folder, can be imported."""
    if not path.is_file():
        raise WrongCommandError(f"there is no file {path}")
    name = f"{path.stem} of weft's command line"  # never another module's, such as inspect.py
    specification = importlib.util.spec_from_file_location(name, path.resolve())
    if specification is None or specification.loader is None:
        raise WrongCommandError(f"{path} is not a Python file")
    sys.path[:0] = [str(path.resolve().parent), str(Path.cwd())]
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses ask for it
    specification.loader.exec_module(module)
    return module


def compile_named(arguments: argparse.Namespace, function: Any, *more: str) -> Any:
    """Compiles a function for the types of ``--spec``.

    Args:
        arguments: as `add_function_arguments` describes them.
        function: from `find_function`.
        more: words of further options.
    Raises:
        WrongCommandError: for an unknown or wrong option, or a specification of no parameter of the function.
        WeftError: if it cannot be compiled.
    """
    import weft

    code = function.function.__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name in arguments.spec:
        if name not in parameters:
            raise WrongCommandError(
                f"--spec names '{name}'; {function.function.__name__} has the parameters "
                f"{', '.join(parameters)}"
            )
    words = list(more)
    for option, value in (("--gpu-arch", arguments.gpu_arch), ("--target", arguments.target)):
        words += [option, value] if value else []
    examples = {name: example_of(said) for name, said in arguments.spec.items()}
    options = f"{arguments.options} {shlex.join(words)}".strip()
    try:
        return weft.compile(function, options=options, **examples)
    except OptionError as error:
        raise WrongCommandError(str(error)) from None
