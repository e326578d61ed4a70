# SPDX-License-Identifier: Apache-2.0
"""The results of the decorators, as far as the front end needs them.

In: a Python function and the decorator's arguments. Out: objects that a traced function finds among its globals.
`weft.api` subclasses them; nothing here imports the compiler.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec

from weft._native import StagedFunction as NativeFunction
from weft.dynamo import left_to_python
from weft.errors import UnavailableError
from weft.language import outside_kernel
from weft.language.source_text import SourceTexts
from weft.tracebacks import leave_the_users_frames, one_frame

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Container
    from types import CodeType

__tracebackhide__ = True  # for pytest

Parameters = ParamSpec("Parameters")

# The kinds of mathematical functions, as in ``--math``.
MATH: Final = ("fast", "portable")


class StagedFunction(NativeFunction):
    """A Python function that weft compiles instead of running it.

    Attributes:
        function: the user's function, unchanged.
        texts: the text of its file when decorated, and of other files that it has reached.
    """

    __slots__ = ("texts",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.texts = SourceTexts(function)

    def __dir__(self) -> list[str]:
        """The attributes except the package's own: `texts`, and names with one leading underscore."""
        own = {"texts"}
        return [n for n in super().__dir__() if n not in own and (n[:1] != "_" or n[:2] == "__")]

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """In a class it is a method: its first argument is the instance."""
        return self if instance is None else BoundFunction(self, instance)


class BoundFunction:
    """A kernel or host function as a method of an instance, which is its first argument.

    Attributes:
        function: the decorated function.
        owner: the instance; its parameter is annotated ``weft.Constexpr``.
    """

    __slots__ = ("function", "owner")

    def __init__(self, function: Any, owner: object) -> None:
        self.function = function
        self.owner = owner

    def __repr__(self) -> str:
        return f"<{self.function!r} of {self.owner!r}>"

    @left_to_python
    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function with the instance before the other arguments."""
        try:
            return self.function(self.owner, *arguments, **keywords)
        except Exception as error:
            leave_the_users_frames(error)
            raise

    @one_frame("kernel[...]")
    def __getitem__(self, configuration: Any) -> Any:
        """``instance.kernel[grid, block]``, called with the other arguments."""
        return partial(self.function[configuration], self.owner)

    @one_frame("kernel.over")
    def over(self, iterations: Any) -> Any:
        """``instance.kernel.over(iterations)``, called with the other arguments."""
        return partial(self.function.over(iterations), self.owner)


class KernelFunction(StagedFunction):
    """A function made by ``@weft.kernel``: the code of one thread, launched by a host function.

    Attributes:
        max_threads: most threads per block, or None.
        min_blocks: least blocks per multiprocessor, or None.
        max_registers: registers per thread, or None.
        cluster: blocks per cluster in x, y, z, or None.
        fp_contract: whether ``a * b + c`` is rounded once, or None: the options say it.
        math: ``"fast"`` or ``"portable"``, or None: the options say it.
        restrict: names of parameters whose memory no other argument reaches, or True for all tensors.
    """

    __slots__ = (
        *("cluster", "fp_contract", "math", "max_registers", "max_threads", "min_blocks"),
        "restrict",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        max_threads: int | None = None,
        min_blocks: int | None = None,
        max_registers: int | None = None,
        cluster: tuple[int, int, int] | None = None,
        fp_contract: bool | None = None,
        math: str | None = None,
        restrict: bool | tuple[str, ...] = (),
    ) -> None:
        super().__init__(function)
        self.max_threads = max_threads
        self.min_blocks = min_blocks
        self.max_registers = max_registers
        self.cluster = cluster
        self.fp_contract = fp_contract
        self.math = math
        self.restrict = restrict


class HostFunction(StagedFunction):
    """A function made by ``@weft.jit``: computes with scalars and launches kernels."""

    __slots__ = ()


class TunedFunction:
    """A function made by ``@weft.autotune``, as far as the front end needs it.

    Attributes:
        tuned_function: the host function.
        chosen: its parameters that tuning chooses.
    """

    tuned_function: HostFunction
    chosen: tuple[str, ...]

    def has_all(self, count: int, keywords: Container[str]) -> bool:
        """Whether a call passes all parameters of the space, so that it is one of the plain function."""
        code: CodeType = self.tuned_function.function.__code__  # pyright: ignore[reportFunctionMemberAccess]
        given = code.co_varnames[: min(count, code.co_argcount)]
        return all(name in given or name in keywords for name in self.chosen)


class DeviceFunction(Generic[Parameters]):
    """A function of weft's own library, written in its language: kernels inline it, and Python cannot run it.

    Errors in it, and the operations that it emits, are located at the user's call.

    Attributes:
        name: as written after ``weft.``, such as ``"block.sum"``.
        function: its Python function.
        on_host: whether host functions call it, and not kernels.
    """

    def __init__(
        self, name: str, function: Callable[Parameters, Any], *, on_host: bool = False
    ) -> None:
        self.name = name
        self.function = function
        self.on_host = on_host
        self.in_kernels = not on_host
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"weft.{self.name}"

    def __call__(self, *arguments: Parameters.args, **keywords: Parameters.kwargs) -> Any:
        """Raises UnavailableError: it works only in code that weft compiles."""
        del arguments, keywords
        raise outside_kernel(f"{self.name}(...)")

    @property
    def __signature__(self) -> inspect.Signature:
        """Its parameters."""
        import inspect

        return inspect.signature(self.function)


class MarkedFunction(DeviceFunction[Parameters]):
    """A user's function made by ``@weft.device``: kernels inline it, and check its arguments by their annotations."""

    def __repr__(self) -> str:
        return f"<weft device function {self.name}>"

    def __call__(self, *arguments: Parameters.args, **keywords: Parameters.kwargs) -> Any:
        """Raises UnavailableError: it works only in kernels."""
        del arguments, keywords
        raise UnavailableError(
            "OUTSIDE_KERNEL",
            f"{self!r} works only in kernels, but Python ran it",
            hint="call it in a @weft.kernel function; Python can run its .function if that needs no kernel",
        )

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """In a class it is a method: its first argument is the instance."""
        bound: Any = self
        return self if instance is None else partial(bound, instance)


def device_function(
    name: str, *, on_host: bool = False
) -> Callable[[Callable[Parameters, Any]], DeviceFunction[Parameters]]:
    """Makes a `DeviceFunction` of that name; the function's docstring becomes the user's documentation."""

    def decorate(function: Callable[Parameters, Any]) -> DeviceFunction[Parameters]:
        return DeviceFunction(name, function, on_host=on_host)

    return decorate
