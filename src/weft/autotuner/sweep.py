# SPDX-License-Identifier: Apache-2.0
"""Many problems on many workers: each task makes its arguments where it runs, and returns a result as JSON.

In: a tuned function, problems, an executor. Out: results. Tasks share nothing but what is pickled: the function and the
maker by name, the problem, numbers of configurations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from weft.autotuner.results import Result, ranked
from weft.autotuner.tuned import Tuned, pieces
from weft.errors import TuningError, brief

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future


def sweep(
    tuned: Tuned,
    problems: Sequence[Mapping[str, Any]],
    make: Callable[..., Any],
    executor: Executor | None,
    each: int | None,
) -> list[Result]:
    """See `weft.autotune.sweep`."""
    _check(tuned, problems, make, each)
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


def _check(tuned: object, problems: object, make: object, each: object) -> None:
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
