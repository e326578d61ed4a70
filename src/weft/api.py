# SPDX-License-Identifier: Apache-2.0
"""The public entry points: the decorators `kernel` and `jit`, and `compile`.

In: Python functions. Out: objects that compile on demand; a call with known types runs without tracing. The compiler is
imported only on a miss.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, cast, overload

from weft._native import call_natively, launch_on, launch_over
from weft.config import overridden, overrides
from weft.dynamo import left_to_python
from weft.errors import SignatureError, UnavailableError, brief
from weft.imports import imported
from weft.language import outside_kernel
from weft.language.functions import (
    MATH,
    BoundFunction,
    HostFunction,
    KernelFunction,
    MarkedFunction,
    Parameters,
)
from weft.tracebacks import leave_the_users_frames, named, one_frame
from weft.types.launch_limits import CLUSTER, MAX_THREADS, as_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weft.compiler.options import CompileOption, CompileOptions


__tracebackhide__ = True  # for pytest: the remaining frame


class Kernel(KernelFunction):
    """A kernel: the code of one thread. Made by ``@weft.kernel``; launched inside a ``@weft.jit`` function."""

    __slots__ = ("__dict__", "__weakref__")

    def __repr__(self) -> str:
        return f"<weft kernel {self.function.__qualname__}>"

    def __reduce__(self) -> str:
        # Pickled by name, like Python's functions, so that copies are the same object and other processes find it.
        return self.function.__qualname__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Refused outside a host function: a kernel needs a launch."""
        raise UnavailableError(
            "KERNEL_CALLED_OUTSIDE",
            f"kernel '{self.function.__name__}' was called outside a host function",
            hint=f"write {self.function.__name__}[grid, block](...), or in a @weft.jit function "
            f"{self.function.__name__}(...).launch(grid=..., block=...)",
        )

    @named("kernel[...]")
    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        """``kernel[grid, block](args)``: launches on the arguments' device without a host function.

        Args:
            configuration: grid and block, each an int or a tuple of up to three; a stream as a third item, or as
                ``stream=`` of the call. Without one, or with None, it is the current stream of the arguments' library.
        Raises:
            SignatureError: if the brackets do not hold a grid and a block.
        """
        try:
            return launch_on(self, configuration)
        except Exception as error:
            leave_the_users_frames(error)
            raise

    def _launch_in_python(self, configuration: Any) -> Callable[..., None]:
        """Makes the launches that native code leaves, and words the errors."""
        items: tuple[Any, ...] = (
            cast("tuple[Any, ...]", configuration) if isinstance(configuration, tuple) else ()
        )
        if len(items) not in (2, 3):
            raise SignatureError(
                "LAUNCH_CONFIGURATION",
                f"{self.function.__name__}[...] takes a grid, a block and possibly a stream, received "
                f"{brief(cast('object', configuration))}",
                hint=f"write {self.function.__name__}[grid, block](...)",
            )
        grid, block, stream = (*items, None)[:3]
        launch = imported("weft.compiler.bare_launch").bare_launch
        return launch(self, grid, block, stream, make_host=jit)

    @named("kernel.over")
    def over(self, iterations: Any) -> Callable[..., None]:
        """``kernel.over(n)(args)``: launches on a grid that suits `n` iterations of the kernel's ``weft.each``.

        Args:
            iterations: how many, or a tuple of extents, such as an array's shape.
        Raises:
            SignatureError: if it is neither.
        """
        try:
            return launch_over(self, iterations)
        except Exception as error:
            leave_the_users_frames(error)
            raise

    def _over_in_python(self, iterations: Any) -> Callable[..., None]:
        """Makes a launch over iterations as `_launch_in_python` does."""
        launch = imported("weft.compiler.bare_launch").bare_launch_over
        return launch(self, iterations, make_host=jit)

    def max_clusters(self, blocks: int) -> int:
        """Number of clusters of this kernel that the call's device holds at once: an i32, in a host function.

        A persistent kernel takes that many clusters, and each computes several tiles. It is the driver's answer
        for the kernel's block, which is constant, and its own shared memory; it is asked once per device. On the CPU it
        is what ``WEFT_CPU_MAX_CLUSTERS`` says, 2 by default, so that clusters compute several tiles there too.

        Args:
            blocks: of a cluster, as the kernel is launched in the host function; a constant.

        Raises:
            CompileError: for another number, or a block known only at run time.
            UnavailableError: outside a host function.
            RuntimeError: at the call, if no such cluster fits on the device.

        Example:
            ``kernel(a).launch(grid=2 * kernel.max_clusters(2), block=128, cluster=2)``
        """
        raise outside_kernel(f"kernel.max_clusters({blocks!r})")


@call_natively
class JitFunction(HostFunction):
    """A host function: computes with scalars and launches kernels. Made by ``@weft.jit``.

    A call compiles for the types of its arguments, once per set of types, and runs. Captured globals and closure
    constants are compiled in: a call notices changes and recompiles. Calls of known types do not reach `__call__`:
    native code finds and runs the compiled function, and leaves all others to it.
    """

    __slots__ = ("__dict__", "__weakref__", "_options", "_prepared")

    def __init__(self, function: Callable[..., Any], options: Sequence[CompileOption] = ()) -> None:
        super().__init__(function)
        self._options = tuple(options)
        # The result of `_prepare`; the first thread decides, in one dictionary operation, without a lock.
        self._prepared: dict[object, Any] = {}

    def __repr__(self) -> str:
        return f"<weft host function {self.function.__qualname__}>"

    def __reduce__(self) -> str:
        return self.function.__qualname__  # as a kernel's

    @left_to_python
    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Runs the function on these arguments, compiling it first for new types.

        ``stream=`` is the stream of its launches, unless that is one of its parameters.

        Raises:
            CompileError: if the function cannot be compiled for these types.
            TypeError: for arguments that match no parameter, or cannot be passed.
            ValueError: for invalid values.
        """
        try:
            specializations = self._specializations
            if (
                specializations is None
                or specializations.code is not self.function.__code__
                or overrides()
            ):
                specializations = self._prepare()
                if overridden("warmup") is not None:
                    specializations.find_for(arguments, keywords)
                    return None
            if "stream" in keywords:
                bare = imported("weft.compiler.bare_launch")
                if bare.takes_stream(self):
                    return bare.call_on_stream(self, arguments, keywords, jit)
            return specializations.call(arguments, keywords)
        except Exception as error:
            leave_the_users_frames(error)
            raise

    def compiled_for(self, arguments: tuple[Any, ...]) -> tuple[Any, tuple[int, ...]]:
        """The compiled function that a call with these arguments, none of them left out, runs; compiles it if needed.

        Returns:
            The function, and the positions of the arguments that it gets: all but ``Constexpr`` ones.
        """
        return self._prepare().find(arguments)

    def _prepare(self) -> Any:
        make = imported("weft.runtime.specializations").Specializations
        # A call inside `with weft.sanitize()`, or for another GPU of `weft.warmup`, has functions of its own.
        warmup: Any = overridden("warmup")
        architecture = None if warmup is None else warmup.architecture
        checks = overridden("sanitize")
        mode = checks if architecture is None else (checks, architecture)
        found = self._prepared.get(mode)
        if found is None or found.code is not self.function.__code__:
            made = make(self.function, self._compile)
            found = made if found is not None else self._prepared.setdefault(mode, made)
            self._prepared[mode] = found
        if mode is None:
            self._specializations = found
        return found

    def _compile(self, arguments: tuple[Any, ...]) -> Any:
        forms = imported("weft.compiler.options")
        warmup: Any = overridden("warmup")
        typed: Sequence[CompileOption] = ()
        if warmup is not None:
            warmup.compiled += 1
            if warmup.architecture is not None:
                typed = forms.options_from(f"--gpu-arch {warmup.architecture}")
        code = self.function.__code__
        count = code.co_argcount
        keyword_only = code.co_varnames[count : count + code.co_kwonlyargcount]
        return _compiled(
            self,
            arguments[:count],
            dict(zip(keyword_only, arguments[count:], strict=True)),
            forms.make_options(typed=typed, defaults=self._options),
            is_call=True,
        )

    @property
    def specializations(self) -> list[Any]:
        """The compiled functions that direct calls have made so far, one for each set of types; the newest is last."""
        return [one for made in list(self._prepared.values()) for one in made.compiled()]

    @property
    def default_options(self) -> tuple[CompileOption, ...]:
        """The options of ``@weft.jit(options=)``."""
        return self._options


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    max_threads: int | None = None,
    min_blocks: int | None = None,
    max_registers: int | None = None,
    cluster: int | tuple[int, ...] | None = None,
    fp_contract: bool | None = None,
    math: str | None = None,
    restrict: bool | str | Sequence[str] = (),
) -> Callable[[Callable[..., Any]], Kernel]: ...
@one_frame("kernel")
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    max_threads: int | None = None,
    min_blocks: int | None = None,
    max_registers: int | None = None,
    cluster: int | tuple[int, ...] | None = None,
    fp_contract: bool | None = None,
    math: str | None = None,
    restrict: bool | str | Sequence[str] = (),
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Makes a kernel from a function: the code of one thread.

    Args:
        function: the code of one thread; without it, returns a decorator with the bounds.
        max_threads: threads per block that launches will not exceed, 1 to 1024.
        min_blocks: blocks that must fit on a multiprocessor at once.
        max_registers: registers per thread, 16 to 255.
        cluster: blocks per cluster: an int or up to three.
        fp_contract: whether ``a * b + c`` is rounded once; None: as ``--fp-contract`` says.
        math: ``"fast"`` or ``"portable"`` mathematical functions; None: as ``--math`` says.
        restrict: names of parameters, or True for all tensors: while the kernel runs, nothing writes to the memory of
            these arguments except through them, and their writes are not read through others. Each
            launch checks it. Loads of restricted arguments that the kernel only reads move over stores, on GPUs as
            ``ld.global.nc``.
    Raises:
        TypeError: if an argument is of the wrong type, or `function` is not a function.
        ValueError: if a number is out of range, or `restrict` names no parameter.
    Example:
        >>> import weft
        >>> @weft.kernel
        ... def double(a: weft.Tensor):
        ...     a[weft.thread_idx.x] *= 2
        >>> double
        <weft kernel double>
    """
    check_bound("max_threads", max_threads, 1, MAX_THREADS)
    check_bound("min_blocks", min_blocks, 1, 32)
    check_bound("max_registers", max_registers, 16, 255)
    if not isinstance(fp_contract, bool | None):
        raise TypeError(f"fp_contract is {brief(fp_contract)}, expected True, False or None")
    if math is not None and math not in MATH:
        raise ValueError(f"math is {brief(math)}, expected one of {', '.join(MATH)}, or None")
    dims = None if cluster is None else as_sizes(cluster, "cluster", CLUSTER)
    restricted = restrict if isinstance(restrict, bool) else _names(restrict)

    @one_frame("kernel")
    def decorate(function: Callable[..., Any]) -> Kernel:
        _check_function(function, "kernel")
        _check_restricted(function, restricted)
        bounds = max_threads, min_blocks, max_registers, dims
        made = Kernel(function, *bounds, fp_contract, math, restricted)
        update_wrapper(made, function)
        return made

    return decorate if function is None else decorate(function)


def _names(restrict: object) -> tuple[str, ...]:
    """The names of ``restrict=``."""
    names: Any = (restrict,) if isinstance(restrict, str) else restrict
    if not isinstance(names, tuple | list) or not all(isinstance(one, str) for one in names):  # pyright: ignore[reportUnknownVariableType]
        raise TypeError(
            f"restrict is {brief(restrict)}, expected names of parameters, or True for all tensors"
        )
    return tuple(cast("Sequence[str]", names))


def _check_restricted(function: Callable[..., Any], restrict: bool | tuple[str, ...]) -> None:
    """Refuses names that no parameter has."""
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for name in restrict if isinstance(restrict, tuple) else ():
        if name not in known:
            raise ValueError(
                f"restrict names {name!r}, expected a parameter of {function.__name__}({', '.join(known)})"
            )


@overload
def jit(function: Callable[..., Any], /) -> JitFunction: ...
@overload
def jit(*, options: Any = "") -> Callable[[Callable[..., Any]], JitFunction]: ...
@one_frame("jit")
def jit(
    function: Callable[..., Any] | None = None, /, *, options: Any = ""
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Makes a host function, which computes with scalars and launches kernels.

    Args:
        function: the host function; without it, returns a decorator with the options.
        options: compile options for direct calls and defaults for `weft.compile`: a string, an option, or a
            tuple or list of these.
    Raises:
        TypeError: if `function` is not a function.
        OptionError: if an option is unknown, mistyped or out of range.
    Example:
        >>> import numpy, weft
        >>> @weft.kernel
        ... def fill_kernel(a: weft.Tensor, value):
        ...     a[weft.thread_idx.x] = value
        >>> @weft.jit
        ... def fill(a: weft.Tensor[weft.f32, ("n",)], value: weft.f32 = 1.0):
        ...     fill_kernel(a, value).launch(grid=1, block=a.shape[0])
        ...     return a.shape[0]
        >>> fill(a := numpy.zeros(3, numpy.float32), value=2.5)
        3
        >>> a.tolist()
        [2.5, 2.5, 2.5]
    """
    parsed: Sequence[CompileOption] = ()
    if not isinstance(options, str) or options:
        parsed = imported("weft.compiler.options").options_from(options)

    @one_frame("jit")
    def decorate(function: Callable[..., Any]) -> JitFunction:
        _check_function(function, "jit")
        made = JitFunction(function, parsed)
        update_wrapper(made, function)
        return made

    return decorate if function is None else decorate(function)


class Compile:
    """``weft.compile(function, *examples, options="")`` and ``weft.compile[options](function, ...)``.

    Compiles a host function for the types of example arguments (values, `weft.fake_tensor`, or the
    `signature` of an earlier compilation) and returns a native function: call it with any argument that
    the signature admits. Each call gives a new one, compiled, or read from the cache on disk (`docs/cache.md`).
    """

    __slots__ = ("_typed",)

    def __init__(self, typed: Sequence[CompileOption] = ()) -> None:
        self._typed = tuple(typed)

    def __repr__(self) -> str:
        return "weft.compile" + (f"[{', '.join(map(repr, self._typed))}]" if self._typed else "")

    @one_frame("weft.compile[...]")
    def __getitem__(self, options: Any) -> Compile:
        """Returns `compile` with these options.

        Raises:
            OptionError: if an item is not an option.
        """
        forms = imported("weft.compiler.options")
        return Compile((*self._typed, *forms.typed_options(options)))

    @one_frame("weft.compile")
    def __call__(
        self,
        function: JitFunction,
        /,
        *arguments: Any,
        options: Any = "",
        post_compile_hooks: Sequence[Callable[[Any], object]] = (),
        **keywords: Any,
    ) -> Any:
        """Compiles `function` for these example arguments.

        Args:
            function: made by ``@weft.jit``.
            arguments, keywords: one example per parameter.
            options: a string such as ``"--enable-tvm-ffi"``, an option, or a tuple or list of these; None as "".
            post_compile_hooks: called with the module after the passes, which is verified after each.
        Returns:
            A callable with the parameters of `function`, without its ``Constexpr`` ones.
        Raises:
            TypeError: if `function` was not made by ``@weft.jit``.
            CompileError: if it cannot be compiled; with the place in its source.
        Example:
            >>> import numpy, weft
            >>> @weft.kernel
            ... def double_kernel(a: weft.Tensor):
            ...     a[weft.thread_idx.x] *= 2
            >>> @weft.jit
            ... def double(a: weft.Tensor[weft.f32, ("n",)]):
            ...     double_kernel(a).launch(grid=1, block=a.shape[0])
            >>> fn = weft.compile(double, options="--opt-level 2")
            >>> fn(a := numpy.ones(4, numpy.float32))
            >>> a.tolist()
            [2.0, 2.0, 2.0, 2.0]
            >>> gpu = weft.compile[weft.GPUArch("sm_80")](double)
            >>> ".target sm_80" in gpu.ptx
            True
        """
        if isinstance(function, BoundFunction):
            arguments = (function.owner, *arguments)
            function = cast("JitFunction", function.function)
        if not isinstance(function, JitFunction):
            what = (
                "a kernel; compile the @weft.jit function that launches it"
                if isinstance(function, KernelFunction)
                else f"{type(function).__name__} {brief(function)}; decorate it with @weft.jit"
            )
            raise TypeError(f"weft.compile takes a @weft.jit function, received {what}")
        if not isinstance(post_compile_hooks, list | tuple):
            raise TypeError(
                f"post_compile_hooks must be a list of functions, received {brief(post_compile_hooks)}"
            )
        for hook in post_compile_hooks:
            if not callable(hook):
                raise TypeError(f"a post-compile hook must be callable, received {brief(hook)}")
        make_options = imported("weft.compiler.options").make_options
        return _compiled(
            function,
            arguments,
            keywords,
            make_options(options, self._typed, function.default_options),
            post_compile_hooks,
        )


compile = Compile()


def _compiled(
    function: JitFunction,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    options: CompileOptions,
    hooks: Sequence[Callable[[Any], object]] = (),
    is_call: bool = False,
) -> Any:
    return imported("weft.compiler.cached").find_or_compile(
        function, arguments, keywords, options, hooks, is_call
    )


def check_bound(name: str, value: object, low: int, high: int) -> None:
    """Checks an optional integer argument of a decorator.

    Raises:
        TypeError: if it is not an int.
        ValueError: if it is out of range.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int or None, received {brief(value)}")
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}, expected {low} to {high}")


@one_frame("device")
def device(function: Callable[Parameters, Any], /) -> MarkedFunction[Parameters]:
    """Marks a function that kernels call, a device function: it is inlined into them.

    A plain function works, too. A marked one is checked at each call: arguments by their annotations, as those of a
    kernel (``weft.f32`` converts a number, ``weft.Tensor`` and ``weft.fake_tensor(...)`` require such a tensor,
    ``weft.Constexpr`` a compile-time value), and the result by an element type after ``->``. Calls of it in Python or
    in a host function are errors that say so.

    Args:
        function: the code, with any parameters.
    Raises:
        TypeError: if it is not a Python function, or is decorated already.
    Example:
        >>> import weft
        >>> @weft.device
        ... def sigmoid(x: weft.f32) -> weft.f32:
        ...     return 1.0 / (1.0 + weft.math.exp(-x))
        >>> sigmoid
        <weft device function sigmoid>
    """
    _check_function(function, "device")
    made = MarkedFunction(function.__qualname__.rpartition("<locals>.")[2], function)
    update_wrapper(made, function)
    return made


def _check_function(function: object, decorator: str) -> None:
    if isinstance(function, KernelFunction | HostFunction | MarkedFunction):
        raise TypeError(
            f"@weft.{decorator} was applied to {brief(function)}, which is already decorated"
        )
    if not hasattr(function, "__code__"):
        raise TypeError(
            f"@weft.{decorator} takes a Python function, received {type(function).__name__} {brief(function)}"
        )
