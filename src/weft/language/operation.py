# SPDX-License-Identifier: Apache-2.0
"""`@operation`: makes a function a name of the kernel language.

In: a function whose first parameter is the Builder. Out: an `Operation`, called by users without a builder, and emitted
by the front end.
"""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, overload

from weft.errors import TypeMismatchError
from weft.imports import imported
from weft.language import outside_kernel
from weft.language.values import Fragment, Scalar, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.builder import Builder


# Users' parameters. Type checkers cannot follow staged values, so calls return Any.
Parameters = ParamSpec("Parameters")


class Operation(Generic[Parameters]):
    """An operation of the kernel language.

    Attributes:
        name: as written after ``weft.``, such as ``"atomic_add"`` or ``"math.exp"``.
        on_host: whether host functions may use it; the others need a thread or memory.
        in_kernels: whether kernels may use it.
        packed: whether it takes tensors of packed elements, and such elements as they are.
        takes_complex: whether it takes complex numbers, and tensors of them.
        elementwise: whether it is a function of numbers, which fragments have at each place.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        *,
        on_host: bool,
        in_kernels: bool = True,
        packed: bool = False,
        takes_complex: bool = False,
        elementwise: bool = False,
    ) -> None:
        self.takes_complex = takes_complex
        self.elementwise = elementwise
        self._function = function
        self.name = name
        self.on_host = on_host
        self.in_kernels = in_kernels
        self.packed = packed
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"weft.{self.name}"

    def __call__(self, *arguments: Parameters.args, **keywords: Parameters.kwargs) -> Any:
        """Raises UnavailableError: it works only in code that weft compiles."""
        del arguments, keywords
        raise outside_kernel(f"{self.name}(...)")

    @property
    def __signature__(self) -> inspect.Signature:
        """Its parameters for users, without the builder."""
        whole = inspect.signature(self._function)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    @cached_property
    def takes_index(self) -> bool:
        """Whether the second argument is the index of an element of the first."""
        return list(self.__signature__.parameters)[1:2] == ["index"]

    @cached_property
    def function_parameter(self) -> str:
        """The name of the second argument if it may be a function of a fragment's elements, or empty."""
        second = list(self.__signature__.parameters)[1:2]
        return second[0] if second in (["function"], ["values"]) else ""

    @cached_property
    def takes_cpu_function(self) -> bool:
        """Whether an argument is a function that stands for it on the CPU."""
        return "cpu" in self.__signature__.parameters

    def emit(self, builder: Builder, /, *arguments: Any, **keywords: Any) -> Any:
        """Adds the operation's IR and returns its value, staged or not.

        Raises:
            TypeMismatchError: for a wrong count or name of arguments; see the operation for others.
        """
        if self.elementwise:
            for value in (*arguments, *keywords.values()):
                if isinstance(value, Fragment):
                    # It is written with operations.
                    apply = imported("weft.language.matrix.fragment").apply
                    return apply(builder, self.emit, arguments, keywords)
        if not self.packed:
            for value in arguments:
                if isinstance(value, Scalar | Tensor) and value.dtype.bits < 8:
                    arguments = tuple(self._unpacked(builder, one) for one in arguments)
                    break
        if not self.takes_complex:
            for value in (*arguments, *keywords.values()):
                if isinstance(value, Scalar | Tensor | complex):
                    self._refuse_complex(value)
        try:
            return self._function(builder, *arguments, **keywords)
        except TypeMismatchError:
            raise
        except TypeError as error:
            self._check_call(arguments, keywords, error)
            raise

    def _refuse_complex(self, value: Scalar | Tensor | complex) -> None:
        """Raises TypeMismatchError for a complex number and for a tensor of them."""
        if isinstance(value, Scalar | Tensor) and not value.dtype.is_complex:
            return
        is_tensor = isinstance(value, Tensor)
        what = f"the tensor {value.name}" if is_tensor else "a complex number"
        raise TypeMismatchError(
            "COMPLEX_ARGUMENT",
            f"weft.{self.name} takes no complex numbers, and received {what}",
            hint="give it the parts, "
            + (
                "as a tensor of floats with a last dimension of 2"
                if is_tensor
                else "x.real and x.imag"
            ),
        )

    def _unpacked(self, builder: Builder, value: Any) -> Any:
        """A packed element as the i32 or f32 that it computes as.

        Raises:
            TypeMismatchError: for a tensor of such elements.
        """
        if isinstance(value, Tensor) and value.dtype.is_packed:
            raise TypeMismatchError(
                "PACKED_ELEMENTS",
                f"weft.{self.name} takes no tensor of packed elements, and {value.name} holds {value.dtype}",
                hint="read a[i] or weft.load_vector(a, i, 8), write weft.store_vector(a, i, (x, y)); "
                "or copy the bytes, and take them as packed elements there: "
                f"weft.packed(tile, weft.{value.dtype})",
            )
        if isinstance(value, Scalar) and value.dtype.is_packed:
            # It imports this module.
            return imported("weft.language.numbers.convert").computed(builder, value)
        return value

    def _check_call(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], cause: TypeError
    ) -> None:
        # Binding costs microseconds, so it is done only after Python has refused a call.
        try:
            self.__signature__.bind(*arguments, **keywords)
        except TypeError as error:
            plain = self.__signature__.replace(return_annotation=inspect.Signature.empty)
            names = ", ".join(
                str(parameter.replace(annotation=inspect.Parameter.empty))
                for parameter in plain.parameters.values()
            )
            raise TypeMismatchError(
                "CALL_ARGUMENTS", f"weft.{self.name}: {error}", hint=f"call {self.name}({names})"
            ) from cause


@overload
def operation(
    function: Callable[Concatenate[Builder, Parameters], Any], /
) -> Operation[Parameters]: ...


@overload
def operation(
    *,
    name: str | None = None,
    on_host: bool = False,
    in_kernels: bool = True,
    packed: bool = False,
    takes_complex: bool = False,
    elementwise: bool = False,
) -> Callable[[Callable[Concatenate[Builder, Parameters], Any]], Operation[Parameters]]: ...


def operation(
    function: Callable[Concatenate[Builder, Parameters], Any] | None = None,
    /,
    *,
    name: str | None = None,
    on_host: bool = False,
    in_kernels: bool = True,
    packed: bool = False,
    takes_complex: bool = False,
    elementwise: bool = False,
) -> Any:
    """Makes an `Operation` from a function; its docstring becomes the user's documentation.

    Args:
        function: takes the Builder, then the user's arguments.
        name: as written after ``weft.``, if not the function's name.
        on_host: whether host functions may use it.
        in_kernels: whether kernels may use it.
        packed: whether it takes tensors of packed elements.
        takes_complex: whether it takes complex numbers and tensors of them.
        elementwise: whether it takes fragments, too, at each place of which it is computed.
    """

    def decorate(decorated: Callable[..., Any]) -> Operation[...]:
        own_name = name or decorated.__name__
        return Operation(
            decorated,
            own_name,
            on_host=on_host,
            in_kernels=in_kernels,
            packed=packed,
            takes_complex=takes_complex,
            elementwise=elementwise,
        )

    return decorate if function is None else decorate(function)
