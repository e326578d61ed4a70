# SPDX-License-Identifier: Apache-2.0
"""`weft.autotune`, and `weft.autotune.sweep`, which tunes many problems on many workers.

In: a host function and a space; problems and an executor. Out: a `Tuned` function; results. Each task makes its
arguments where it runs, and returns a result as JSON. Tasks share only pickled objects: the function and the
maker by name, the problem, numbers of configurations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from weft.api import JitFunction
from weft.autotuner.results import Result, ranked
from weft.autotuner.trials import Rules
from weft.autotuner.tuned import Tuned, pieces
from weft.errors import ArgumentValueError, TuningError, brief
from weft.language.functions import KernelFunction
from weft.tracebacks import one_frame

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future


class Autotune:
    """``@weft.autotune(space=, key=)`` above ``@weft.jit``: the tuner chooses some of the function's parameters.

    Calls leave out the parameters of `space`. The first call with new argument types, a new key or on a new device
    tries the configurations on copies of the arguments, so that these are only read, keeps the result on disk, and runs
    the best. Your functions that the tuner calls select their arguments by name: parameters of the tuned
    function by name, and sizes by the symbolic dimensions of annotations.

    Example:
        >>> import numpy, weft
        >>> @weft.kernel
        ... def scale_kernel(a: weft.Tensor, out: weft.Tensor, items: weft.Constexpr[int]):
        ...     first = (weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x) * items
        ...     for i in weft.static_range(items):
        ...         if first + i < a.shape[0]:
        ...             out[first + i] = 2 * a[first + i]
        >>> VECTOR = weft.Tensor[weft.f32, ("n",)]
        >>> @weft.autotune(space={"threads": [64, 256], "items": [1, 4]}, key=["n"])
        ... @weft.jit
        ... def scale(a: VECTOR, out: VECTOR, threads: weft.i32, items: weft.Constexpr[int]):
        ...     grid = weft.ceil_div(a.shape[0], threads * items)
        ...     scale_kernel(a, out, items).launch(grid=grid, block=threads)
        >>> a = numpy.ones(1000, numpy.float32)
        >>> scale(a, out := numpy.empty_like(a))
        >>> float(out.sum()), scale.best(a, out) in scale.space
        (2000.0, True)
    """

    def __repr__(self) -> str:
        return "weft.autotune"

    @one_frame("weft.autotune")
    def __call__(
        self,
        *,
        space: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
        key: Sequence[str] | Callable[..., Any] = (),
        prune: Callable[..., object] | None = None,
        prune_compiled: Callable[..., object] | None = None,
        check: float | None = None,
        file: str | os.PathLike[str] | None = None,
        samples: int = 30,
        seconds: float = 0.25,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> Callable[[JitFunction], Tuned]:
        """Makes a decorator for a host function; the rules of its measurements.

        Args:
            space: parameter → values, all combinations of which are tried, or a list of configurations. A parameter is
                a ``Constexpr``, or a number that the host function uses in its launch.
            key: names of parameters and symbolic dimensions, or a function of them: what else a choice depends on. An
                array counts by its shape.
            prune: says before compiling, of the values of a configuration, whether to keep it.
            prune_compiled: says so after compiling; it can also name `kernels` (`fn.kernels`), `remarks`
                (`fn.remarks`) and `occupancy`, a function of a block's threads: the part of a multiprocessor's warps
                that they fill. None: what spills registers is dropped unless everything does.
            check: compares each trial's outputs with the first one's: the largest difference allowed,
                absolute below 1 and relative above; 0 is equality. None does not compare.
            file: a JSON file of results that ships with the program, relative to the function's file; it is read
                before the user's own, and written by `save`.
            samples: timed calls of each configuration, at most.
            seconds: time spent on the calls of each configuration, at most, after the fifth.
            workers: processes that compile; None: as many as CPUs if it is worth it, 0: none.
            progress: whether to show progress on standard error; None: if that is a terminal.
        Returns:
            A decorator, which returns a `Tuned` function.
        Raises:
            SignatureError: if a name is not that of a parameter or a dimension.
            ArgumentValueError: if the space is empty, or a value is not hashable.
            TypeError: if the function was not made by ``@weft.jit``.
        """
        rules = Rules(prune, prune_compiled, check, samples, seconds, workers)
        _check(rules)

        @one_frame("weft.autotune")
        def decorate(function: JitFunction) -> Tuned:
            if not isinstance(function, JitFunction):
                what = "a kernel" if isinstance(function, KernelFunction) else brief(function)
                raise TypeError(
                    f"weft.autotune takes a @weft.jit function, received {what}; write it above @weft.jit"
                )
            return Tuned(function, space, key, rules, file, progress)

        return decorate

    @one_frame("weft.autotune.sweep")
    def sweep(
        self,
        tuned: Tuned,
        problems: Sequence[Mapping[str, Any]],
        make: Callable[..., Any],
        *,
        executor: Executor | None = None,
        each: int | None = None,
    ) -> list[Result]:
        """Tunes a function for many problems, on the workers of any `concurrent.futures` executor.

        A worker makes the arguments of a problem itself, compiles, and measures on its own device, alone. The results
        come back, are kept on this machine's disk, and can be written by `tuned.save`.

        Args:
            tuned: made by ``@weft.autotune``. For executors of processes, at the top of a module.
            problems: what `make` receives by name, one mapping each.
            make: returns the arguments of a call: a mapping by name, or a tuple. For processes, at the top of a module.
            executor: None: this process measures, one problem after the other.
            each: configurations of one task; None: all of a problem. With fewer, a problem is shared by workers, which
                must have the same device to be compared.
        Returns:
            A result for each problem and device.
        Raises:
            TuningError: if a problem fails; the message names it.
            TypeError: if `tuned` is not tuned, or `problems` are not mappings.
        Example:
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> def vectors(n):
            ...     return {"a": weft.zeros(n, weft.f32), "out": weft.zeros(n, weft.f32)}
            >>> with ThreadPoolExecutor(2) as pool:
            ...     found = weft.autotune.sweep(scale, [{"n": 64}, {"n": 4096}], vectors, executor=pool)
            >>> [result.subject.key for result in found]
            [{'n': 64}, {'n': 4096}]
        """
        return sweep(tuned, problems, make, executor, each)


def _check(rules: Rules) -> None:
    """Refuses rules of wrong types or out of range.

    Raises:
        ArgumentValueError, TypeError: with the name of the argument.
    """
    counts = (("samples", rules.samples, 1), ("workers", rules.workers, 0))
    for name, value, least in counts:
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not is_count and not (name == "workers" and value is None):
            raise ArgumentValueError(
                "AUTOTUNE_RULE",
                f"{name} is {brief(value)}, expected an int of at least {least}",
            )
    for name, number in (("seconds", rules.seconds), ("check", rules.check)):
        is_number = isinstance(number, int | float) and not isinstance(number, bool) and number >= 0
        if not is_number and not (name == "check" and number is None):
            raise ArgumentValueError(
                "AUTOTUNE_RULE", f"{name} is {brief(number)}, expected a number of at least 0"
            )
    for name, asked in (("prune", rules.prune), ("prune_compiled", rules.prune_compiled)):
        if asked is not None and not callable(asked):
            raise TypeError(f"{name} is {brief(asked)}, expected a function or None")


autotune = Autotune()


def sweep(
    tuned: Tuned,
    problems: Sequence[Mapping[str, Any]],
    make: Callable[..., Any],
    executor: Executor | None,
    each: int | None,
) -> list[Result]:
    """See `weft.autotune.sweep`."""
    _check_sweep(tuned, problems, make, each)
    tasks = [(problem, numbers) for problem in problems for numbers in pieces(tuned, each)]
    if executor is None:
        found = [_named(problem, _measure, tuned, make, problem, n) for problem, n in tasks]
    else:
        futures: list[Future[Result]] = []
        try:
            for problem, numbers in tasks:
                futures.append(executor.submit(_measure, tuned, make, dict(problem), numbers))
            found = [
                _named(problem, future.result)
                for (problem, _), future in zip(tasks, futures, strict=True)
            ]
        finally:
            for future in futures:
                future.cancel()
    results = _joined(found)
    for result in results:
        tuned.learn(result)
    return results


def _measure(
    tuned: Tuned,
    make: Callable[..., Any],
    problem: Mapping[str, Any],
    numbers: Sequence[int] | None,
) -> Result:
    """One task."""
    made = make(**problem)
    if isinstance(made, Mapping):
        bound = tuned.bound_call((), cast("Mapping[str, Any]", made))
    else:
        bound = tuned.bound_call(made if isinstance(made, tuple | list) else (made,), {})  # pyright: ignore[reportUnknownArgumentType]
    return tuned.tune_some(bound, numbers)


def _named(problem: Mapping[str, Any], run: Callable[..., Result], *arguments: Any) -> Result:
    """A task's result; its error names the problem."""
    try:
        return run(*arguments)
    except Exception as error:
        raise TuningError(
            "AUTOTUNE_SWEEP",
            f"the problem {brief(dict(problem))} failed: {type(error).__name__}: {error}",
            hint="for executors of processes, the tuned function and make stand at the top of a module",
        ) from error


def _joined(found: Sequence[Result]) -> list[Result]:
    """One result for each problem and device, of the trials of all its tasks."""
    groups: dict[str, list[Result]] = {}
    for result in found:
        groups.setdefault(repr(result.subject), []).append(result)
    return [_one(group) for group in groups.values()]


def _one(group: Sequence[Result]) -> Result:
    trials = ranked([trial for result in group for trial in result.trials])
    seconds = sum(result.seconds for result in group)
    return group[0]._replace(best=trials[0].configuration, trials=trials, seconds=seconds)


def _check_sweep(tuned: object, problems: object, make: object, each: object) -> None:
    if not isinstance(tuned, Tuned):
        raise TypeError(
            f"weft.autotune.sweep takes a function of weft.autotune, received {brief(tuned)}"
        )
    if not isinstance(problems, list | tuple) or not all(isinstance(p, Mapping) for p in problems):  # pyright: ignore[reportUnknownVariableType]
        raise TypeError(f"problems is {brief(problems)}, expected a list of mappings")  # pyright: ignore[reportUnknownArgumentType]
    if not callable(make):
        raise TypeError(f"make is {brief(make)}, expected a function")
    if each is not None and (not isinstance(each, int) or each < 1):
        raise TypeError(f"each is {brief(each)}, expected an int of at least 1, or None")
