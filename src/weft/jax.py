# SPDX-License-Identifier: Apache-2.0
"""Host functions in programs that JAX compiles: XLA calls them through its FFI, without Python.

In: a host function, or a compiled one. Out: a function of JAX's arrays, for `jax.jit`. JAX's arrays are immutable: what
a kernel writes is a result.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from importlib import import_module
from inspect import BoundArguments, Parameter, Signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft import _native
from weft.api import JitFunction, compile
from weft.arguments.base import MISSING
from weft.arguments.constant import ConstantAnnotation, NoneKind
from weft.arguments.scalar import ScalarKind, numpy_dtype
from weft.arguments.shape import SizeKind
from weft.arguments.signature import check_effects, without_none
from weft.arguments.stream import EnvironmentStream, Stream, StreamKind
from weft.arguments.tensor import TensorKind
from weft.arguments.tensor_spec import fake_tensor
from weft.errors import SignatureError, UnavailableError, brief
from weft.ffi.library import open_ffi_library
from weft.tracebacks import one_frame
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from weft.runtime.specializations import Compiled

__all__ = ("function",)
__tracebackhide__ = True

# JAX's name of a backend → weft's target; a target → the platform of its handler.
_TARGETS: Final = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda"}
_PLATFORMS: Final = {"cpu": "cpu", "cuda": "CUDA"}
_VMAP_METHODS: Final = (None, "sequential", "sequential_unrolled")
_NUMBER_TYPES: Final = (bool, int, float)


class _Parameter(NamedTuple):
    """A parameter of the function.

    Attributes:
        name: its name.
        role: "stream" (XLA's), "constant" (compiled in), "number", or "any": a tensor or a number.
        default: its default, or MISSING.
        kind: how it is passed, as `inspect` says it.
    """

    name: str
    role: str
    default: object
    kind: Any


class _Plan(NamedTuple):
    """One compiled function, and how XLA's buffers become its arguments.

    Attributes:
        compiled: the function.
        name: in the table of global functions: a digest of its code, the same in every process.
        order: a letter for each argument; native/xla/handler.cpp reads them.
        tensors: names of the arguments that are passed, in the order of XLA's.
        results: names of the arguments that are written, in the order of XLA's.
        numbers: names of the numbers, in order.
    """

    compiled: Any
    name: str
    order: str
    tensors: tuple[str, ...]
    results: tuple[str, ...]
    numbers: tuple[str, ...]


@one_frame("weft.jax.function")
def function(
    function: Any,
    /,
    *,
    outputs: Mapping[str, Callable[..., Any]] | None = None,
    mutates_args: Iterable[str] = (),
    vmap_method: str | None = None,
    platform: str | None = None,
) -> Any:
    """Makes a function of JAX's arrays from a host function; XLA calls it where `jax.jit` compiles its caller.

    It takes the parameters that are not in `outputs`: arrays; numbers and constants, which are part of XLA's program
    and must be known when JAX traces (in `jax.jit`, static arguments). A `weft.Stream` parameter is XLA's stream.
    Each set of element types and ranks is compiled once, when JAX traces, and stays in the process.

    Args:
        function: made by ``@weft.jit``, or the result of `weft.compile`.
        outputs: the tensors that its kernels write: name → a function of the arguments that returns an object with
            `shape` and `dtype`, such as `jax.ShapeDtypeStruct`. They are new and uninitialized.
        mutates_args: names of the tensors that its kernels read and write: the results have their new values. The
            caller's arrays keep theirs, for which XLA copies them, unless it donates them or does not use them again.
        vmap_method: how `jax.vmap` calls it: None (not at all), ``"sequential"`` or ``"sequential_unrolled"``, once for
            each element of the batch.
        platform: ``"cpu"`` or ``"cuda"``; by default that of `jax.default_backend()` when JAX traces.
    Returns:
        A function that returns the new values of `mutates_args` and the outputs, in this order: one alone, or several
        in a tuple.
    Raises:
        TypeError: if `function` is neither, or, at a call, for arguments that match no parameter.
        SignatureError: if a name is not that of a tensor, an argument cannot be passed, or the kernels write a tensor
            that was not named.
        UnavailableError: if JAX is not installed, or runs on something else.
    Example:
        >>> import jax
        >>> @weft.kernel
        ... def scale_kernel(a: weft.Tensor, out: weft.Tensor, factor):
        ...     for i in weft.each(a.shape[0]):
        ...         out[i] = factor * a[i]
        >>> @weft.jit
        ... def scale(a: weft.Tensor[weft.f32, ("n",)], out: weft.Tensor[weft.f32, ("n",)], factor: weft.f32 = 2.0):
        ...     scale_kernel(a, out, factor).launch(over=a.shape[0])
        >>> scaled = weft.jax.function(scale, outputs={"out": lambda a, factor: a})
        >>> print(jax.jit(lambda a: scaled(a, 3.0) + 1)(jax.numpy.ones(2)))
        [4. 4.]
    """
    parameters = list(_parameters(function))
    made = dict(outputs or {})
    mutated = [mutates_args] if isinstance(mutates_args, str) else list(mutates_args)
    _check_names(function, parameters, made, mutated)
    if vmap_method not in _VMAP_METHODS:
        raise _error(
            function, f"vmap_method is {brief(vmap_method)}, expected one of {_VMAP_METHODS}"
        )
    if platform is not None and platform not in _TARGETS:
        raise _error(function, f"platform is {brief(platform)}, expected 'cpu', 'cuda' or None")
    called = _Called(function, parameters, made, mutated, vmap_method, platform)

    @one_frame(function.__name__)
    def call(*arguments: Any, **keywords: Any) -> Any:
        return called(*arguments, **keywords)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    return call


class _Called:
    """Traced by JAX: compiles the function for the arguments' types, and puts a call of it into XLA's program."""

    def __init__(
        self,
        function: Any,
        parameters: Sequence[_Parameter],
        made: Mapping[str, Callable[..., Any]],
        mutated: Sequence[str],
        vmap_method: str | None,
        platform: str | None,
    ) -> None:
        self._function = function
        self._parameters = parameters
        self._made = made
        self._mutated = mutated
        self._vmap_method = vmap_method
        self._platform = platform
        self._plans: dict[Hashable, _Plan] = {}
        self._signature = Signature(
            [
                Parameter(
                    p.name, p.kind, default=Parameter.empty if p.default is MISSING else p.default
                )
                for p in parameters
                if p.name not in made and p.role != "stream"
            ]
        )

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        jax = _jax()
        target = self._target(jax)
        bound = self._bind(jax, arguments, keywords)
        tensors: dict[str, Any] = {
            name: self._spec(name, make(*bound.args, **bound.kwargs))
            for name, make in self._made.items()
        }
        values = {**bound.arguments, **tensors}
        plan = self._plan(target, values)
        results = self._xla_call(jax, target, plan, values)(
            *(values[name] for name in plan.tensors),
            function=plan.name,
            arguments=plan.order,
            numbers=self._numbers(plan, values),
        )
        by_name = dict(zip(plan.results, results, strict=True))
        ordered = tuple(by_name[name] for name in (*self._mutated, *self._made))
        return ordered[0] if len(ordered) == 1 else ordered

    def _xla_call(self, jax: Any, target: str, plan: _Plan, values: Mapping[str, Any]) -> Any:
        """A call of the target's handler, under the function's name for JAX's messages."""
        label = f"weft.{self._function.__name__}"
        platform = _PLATFORMS[target]
        jax.ffi.register_ffi_target(label, _native.XLA_HANDLERS[platform], platform)
        first = len(plan.tensors) - len(self._mutated)
        aliases = {first + i: plan.results.index(name) for i, name in enumerate(self._mutated)}
        return jax.ffi.ffi_call(
            label,
            [jax.ShapeDtypeStruct(values[n].shape, values[n].dtype) for n in plan.results],
            vmap_method=self._vmap_method,
            input_output_aliases=aliases,
        )

    def _target(self, jax: Any) -> str:
        name = self._platform or jax.default_backend()
        if name not in _TARGETS:
            raise UnavailableError(
                "JAX_PLATFORM",
                f"JAX runs on {name}, where weft has no target",
                hint="say platform='cpu' or platform='cuda'",
            )
        return _TARGETS[name]

    def _bind(
        self, jax: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> BoundArguments:
        """The arguments by parameter, defaults too; arrays as JAX's, numbers as Python's."""
        try:
            bound = self._signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{self._function.__name__}() {error}") from None
        bound.apply_defaults()
        roles = {p.name: p.role for p in self._parameters}
        for name, value in bound.arguments.items():
            bound.arguments[name] = self._value(jax, name, roles[name], value)
        return bound

    def _value(self, jax: Any, name: str, role: str, value: Any) -> Any:
        is_array = hasattr(value, "shape") and hasattr(value, "dtype")
        if role == "constant" or value is None or type(value) in _NUMBER_TYPES:
            return value
        if role == "number" and isinstance(value, jax.core.Tracer):
            raise _error(
                self._function,
                f"argument '{name}' is known only when XLA's program runs",
                "numbers are part of that program: make it a static argument of jax.jit, "
                "or take a tensor of rank 0",
            )
        if (
            is_array
            and value.shape == ()
            and (role == "number" or not isinstance(value, jax.Array))
        ):
            return value.item()
        if not is_array:
            raise _error(
                self._function,
                f"argument '{name}' is {brief(value)}",
                "functions of JAX take arrays, numbers, and constants such as weft.Constexpr[int]",
            )
        return jax.numpy.asarray(value)

    def _spec(self, name: str, made: Any) -> Any:
        """Function that returns the shape and the element type of an output."""
        if not (hasattr(made, "shape") and hasattr(made, "dtype")):
            raise _error(
                self._function,
                f"outputs[{name!r}] returned {brief(made)}, expected an object with shape and dtype",
                "return jax.ShapeDtypeStruct(shape, dtype), or an array",
            )
        return made

    def _plan(self, target: str, values: Mapping[str, Any]) -> _Plan:
        key = target, *(_key(p, values.get(p.name)) for p in self._parameters)
        plan = self._plans.get(key)
        if plan is None or not all(one.is_current() for one in plan.compiled.details.captured):
            plan = self._plans[key] = self._make_plan(self._compile(target, values), target)
        return plan

    def _compile(self, target: str, values: Mapping[str, Any]) -> Compiled:
        if not isinstance(self._function, JitFunction):
            return self._function
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for p in self._parameters:
            example = self._example(p, values.get(p.name), target)
            if p.kind is Parameter.KEYWORD_ONLY:
                keywords[p.name] = example
            else:
                positional.append(example)
        return compile(self._function, *positional, options=f"--target {target}", **keywords)

    def _example(self, parameter: _Parameter, value: Any, target: str) -> Any:
        if parameter.role == "stream":
            return Stream()
        if parameter.role == "constant" or value is None or type(value) in _NUMBER_TYPES:
            return value
        dtype = numpy_dtype(value.dtype)
        if dtype is None:
            raise _error(
                self._function,
                f"'{parameter.name}' has elements of {value.dtype}, which weft does not have",
            )
        return fake_tensor(dtype, (None,) * len(value.shape), device=target)

    def _make_plan(self, compiled: Any, target: str) -> _Plan:
        """Calling convention of the compiled function; also puts it into the table of global functions.

        Raises:
            SignatureError: if it takes something that XLA does not pass, or writes what was not named.
        """
        written = {*self._made, *self._mutated}
        for name in compiled.plan.written:
            if name not in written:
                raise _error(
                    self._function,
                    f"kernels write '{name}', which is neither in outputs nor in mutates_args",
                    "arrays of JAX are immutable; a written array is a result",
                )
        order = ""
        tensors: list[str] = []
        results: list[str] = []
        numbers: list[str] = []
        for p in compiled.signature.passed:
            if isinstance(p.kind, TensorKind):
                is_result = p.name in written
                order += "r" if is_result else "a"
                (results if is_result else tensors).append(p.name)
            elif isinstance(p.kind, ScalarKind | SizeKind):
                order += _letter(p.kind)
                numbers.append(p.name)
            elif isinstance(p.kind, NoneKind | StreamKind):
                order += "n" if isinstance(p.kind, NoneKind) else "s"
            else:
                raise _untyped(self._function, p.name, p.kind.text)
        code = blake2b(digest_size=16)
        for text in (
            compiled.signature.text,
            compiled.host_llvm_ir,
            compiled.llvm_ir,
            compiled.ptx,
        ):
            code.update((text or "").encode())
        name = f"weft.jax.{target}.{self._function.__name__}.{code.hexdigest()}"
        open_ffi_library()
        _native.set_global(name, compiled, True)
        return _Plan(
            compiled, name, order, (*tensors, *self._mutated), tuple(results), tuple(numbers)
        )

    def _numbers(self, plan: _Plan, values: Mapping[str, Any]) -> Any:
        numpy = import_module("numpy")
        letters = [letter for letter in plan.order if letter in "ibf"]
        numbers: list[int] = []
        for letter, name in zip(letters, plan.numbers, strict=True):
            value = values[name]
            if letter == "f":
                value = struct.unpack("q", struct.pack("d", value))[0]
            elif not -(1 << 63) <= value < 1 << 63:
                raise _error(self._function, f"argument '{name}' is {value}, beyond 64 bits")
            numbers.append(int(value))
        return numpy.array(numbers, numpy.int64)


def _letter(kind: ScalarKind | SizeKind) -> str:
    if isinstance(kind, SizeKind):
        return "i"
    return {"float": "f", "bool": "b"}.get(kind.dtype.kind, "i")


def _key(parameter: _Parameter, value: Any) -> Hashable:
    """The part of an argument that a compilation depends on."""
    kind = value.__class__
    if parameter.role == "constant":
        return kind, value
    if value is None or kind in _NUMBER_TYPES:
        return kind
    return str(value.dtype), len(value.shape)


def _parameters(function: Any) -> Iterator[_Parameter]:
    """The function's parameters.

    Raises:
        TypeError: if it is not a function of weft.
    """
    if isinstance(function, JitFunction):
        from weft.frontend.source import read_source

        for p in read_source(function).parameters:
            annotation, _ = without_none(p.annotation)
            yield _Parameter(p.name, _role(annotation, p.default), p.default, _passing(p))
    elif isinstance(function, _native.Function) and hasattr(function, "signature"):
        for p in function.signature.passed:
            role = "stream" if isinstance(p.kind, StreamKind) else "any"
            if isinstance(p.kind, ScalarKind | SizeKind):
                role = "number"
            yield _Parameter(p.name, role, p.default, _passing(p))
    else:
        raise TypeError(
            "weft.jax.function takes a @weft.jit function or the result of weft.compile, "
            f"received {type(function).__name__} {brief(function)}"
        )


def _passing(parameter: Any) -> Any:
    if parameter.keyword_only:
        return Parameter.KEYWORD_ONLY
    return (
        Parameter.POSITIONAL_ONLY if parameter.positional_only else Parameter.POSITIONAL_OR_KEYWORD
    )


def _role(annotation: object, default: object) -> str:
    if annotation is Stream or isinstance(annotation, EnvironmentStream):
        return "stream"
    if isinstance(annotation, ConstantAnnotation):
        return "constant"
    if isinstance(annotation, DType) or annotation in _NUMBER_TYPES:
        return "number"
    return "number" if annotation is MISSING and type(default) in _NUMBER_TYPES else "any"


def _check_names(
    function: Any,
    parameters: Sequence[_Parameter],
    made: Mapping[str, object],
    mutated: Sequence[str],
) -> None:
    tensors = [p.name for p in parameters if p.role == "any"]
    check_effects(
        tensors, mutated, made, "returns its shape and dtype", lambda said: _error(function, said)
    )
    if not made and not mutated:
        raise _error(
            function,
            "neither outputs nor mutates_args has a name, so JAX would see nothing of its work",
            "name each tensor that kernels write",
        )


def _jax() -> Any:
    try:
        import_module("jax.ffi")
        return import_module("jax")
    except ModuleNotFoundError as error:
        raise UnavailableError(
            "JAX_MISSING",
            "weft.jax needs jax 0.10 or later, which is not installed",
            hint="install jax",
        ) from error


def _untyped(function: Any, name: str, annotation: str) -> SignatureError:
    return _error(
        function,
        f"parameter '{name}: {annotation}' has no meaning in XLA's programs",
        "functions of JAX take tensors and numbers; wrap the function in one that takes these",
    )


def _error(function: Any, message: str, hint: str = "") -> SignatureError:
    return SignatureError("JAX_FUNCTION", f"{function.__name__}: {message}", hint=hint)
