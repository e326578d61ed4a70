# SPDX-License-Identifier: Apache-2.0
"""Compiles the configurations of a space, in several processes if that is faster.

In: a call's values for each configuration. Out: a compiled function for each, or the error. Other processes hand their
results on through the cache on disk; what they have compiled is found there.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.autotuner.reference import reference_to
from weft.autotuner.workers import Failure, compile_elsewhere
from weft.blame import is_of_a_handler
from weft.compiler.cached import find_or_compile
from weft.compiler.option_forms import make_options
from weft.config import config

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from weft.autotuner.parameters import Parameters
    from weft.autotuner.space import Configuration
    from weft.compiler.target_choice import TargetChoice

# Starting processes takes about as long, so what takes less is compiled here.
_WORTH_SECONDS: Final = 1.0
_MOST_WORKERS: Final = 32

Built = Any
"""A compiled function, or the exception that compiling raised."""


def compile_all(
    parameters: Parameters,
    bound: Sequence[Any],
    configurations: Sequence[Configuration],
    target: TargetChoice,
    workers: int | None,
    told: Callable[[int, int], object],
) -> list[Built]:
    """A compiled function or an exception for each configuration, in order.

    Args:
        parameters: of the function.
        bound: the call's values; those of the configurations are filled in.
        configurations: to compile.
        target: where the call runs.
        workers: processes beside this one; None: as many as CPUs, if it is worth it.
        told: called with the number of compilations that are done, and of all.
    """
    groups: dict[Hashable, list[int]] = {}
    for number, configuration in enumerate(configurations):
        groups.setdefault(_kind(parameters, configuration), []).append(number)
    waiting = [numbers[0] for numbers in groups.values()]
    values = {n: parameters.filled(bound, configurations[n]) for n in waiting}
    made: dict[int, Built] = {}
    failed: Mapping[int, Failure] = {}
    # The first also loads the compiler, so the second says how long the rest takes.
    for done, number in enumerate(waiting[: 0 if workers else 2]):
        told(done, len(waiting))
        began = time.perf_counter()
        made[number] = _compile(parameters, values[number])
        took = time.perf_counter() - began
        if workers is None and done and took * (len(waiting) - 2) > _WORTH_SECONDS:
            workers = min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
    rest_of_them = [number for number in waiting if number not in made]
    if workers and workers > 1 and len(rest_of_them) > 1 and _is_handed_on(parameters):
        reference = reference_to(parameters.function)
        if reference is not None:
            examples = {n: parameters.split(values[n]) for n in rest_of_them}
            failed = compile_elsewhere(
                reference,
                parameters.function,
                examples,
                target,
                workers,
                lambda done: told(len(made) + done, len(waiting)),
            )
    for number in rest_of_them:
        if number in failed:
            made[number] = failed[number].as_error()
        else:
            told(len(made), len(waiting))
            made[number] = _compile(parameters, values[number])
    return [made[groups[_kind(parameters, each)][0]] for each in configurations]


def _kind(parameters: Parameters, configuration: Configuration) -> Hashable:
    """Equal for configurations that one compiled function serves: those that differ in numbers of a launch."""
    constants = {parameters.names[position] for position in parameters.constants}
    return tuple(
        _native.constant_key(value) if name in constants else _native.argument_key((value,))
        for name, value in configuration.items()
    )


def _compile(parameters: Parameters, values: Sequence[Any]) -> Built:
    function = parameters.function
    options = make_options(defaults=function.default_options)
    try:
        return find_or_compile(function, *parameters.split(values), options, (), True)
    except Exception as error:
        if is_of_a_handler(error):
            raise
        return error


def _is_handed_on(parameters: Parameters) -> bool:
    """Whether the cache carries what another process compiles."""
    options = make_options(defaults=parameters.function.default_options)
    return not (options.no_cache or config.no_cache or config.log or options.keep)
