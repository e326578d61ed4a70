# SPDX-License-Identifier: Apache-2.0
"""The path of one choice: prune, compile, prune again, copy, compare, measure, rank.

In: a call and a space. Out: a `Result`. Read `Trials.run` first.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.arguments.stream import StreamKind
from weft.autotuner.copies import Set, UserArguments, check_no_pointers, differing
from weft.autotuner.machine import alone_on
from weft.autotuner.race import Entrant, EventClock, Race, WallClock, is_fatal
from weft.autotuner.results import Result, Subject, Trial, ranked, time_text
from weft.autotuner.workers import compile_all
from weft.blame import is_of_a_handler
from weft.driver.device import stream_handle, synchronize
from weft.errors import TuningError, WeftError
from weft.ffi.device import current_stream
from weft.types.capabilities import multiprocessor, resident_warps
from weft.types.device import CUDA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.arguments.signature import Signature
    from weft.autotuner.parameters import Parameters
    from weft.autotuner.race import Clock, Progress
    from weft.autotuner.space import Configuration, Space
    from weft.compiler.target_choice import TargetChoice


class Rules(NamedTuple):
    """Settings of a measurement: the arguments of `weft.autotune`, which documents them."""

    prune: Callable[..., object] | None = None
    prune_compiled: Callable[..., object] | None = None
    check: float | None = None
    samples: int = 30
    seconds: float = 0.25
    workers: int | None = None


class Place(NamedTuple):
    """Device and stream of a call.

    Attributes:
        target: backend and architecture.
        ordinal: of the device.
    """

    target: TargetChoice
    ordinal: int

    @property
    def device_type(self) -> int:
        """DLDeviceType."""
        return self.target.backend.device_type


class _Candidate:
    """A configuration on its way to the race."""

    def __init__(self, configuration: Configuration, built: Any) -> None:
        self.configuration = configuration
        self.compiled: Any = None if isinstance(built, Exception) else built
        self.trial = Trial(configuration, "failed", reason=_reason(built))
        self.error: Exception | None = built if isinstance(built, Exception) else None
        if self.compiled is not None:
            kernels = list(self.compiled.kernels.values())
            self.trial = self.trial._replace(
                registers=max((k.registers for k in kernels), default=0),
                spill_bytes=max(
                    (k.spill_store_bytes + k.spill_load_bytes for k in kernels), default=0
                ),
                shared_memory_bytes=max((k.shared_memory_bytes for k in kernels), default=0),
                reason="",
            )

    def drop(self, state: str, reason: str) -> None:
        """Takes it out of the race."""
        self.compiled = None
        self.trial = self.trial._replace(state=state, reason=reason)

    def fail(self, error: Exception) -> None:
        """Takes it out of the race for its error."""
        self.error = error
        self.drop("failed", _reason(error))


def occupancy(compiled: Any, threads: int, shared_memory_bytes: int = 0) -> float:
    """The share of a multiprocessor's warps that blocks of that many threads fill, the smallest of all kernels.

    1 on a target without registers to share. `shared_memory_bytes` are the launch's, beside the kernel's own.
    """
    if not compiled.architecture or compiled.target != "cuda":
        return 1.0
    most = multiprocessor(compiled.architecture).warps
    warps = [
        resident_warps(
            compiled.architecture,
            threads,
            kernel.registers,
            kernel.shared_memory_bytes + shared_memory_bytes,
        )
        for kernel in compiled.kernels.values()
    ]
    return min(warps, default=most) / most


class Trials:
    """Everything that one choice needs to know.

    Args:
        parameters: of the function.
        space: what may be chosen.
        rules: how.
        bound: the user's call.
        place: where it runs.
        progress: the line on standard error.
    """

    def __init__(
        self,
        parameters: Parameters,
        space: Space,
        rules: Rules,
        bound: Sequence[Any],
        place: Place,
        progress: Progress,
    ) -> None:
        self._parameters = parameters
        self._space = space
        self._rules = rules
        self._bound = bound
        self._place = place
        self._progress = progress
        self._name = parameters.function.function.__name__

    def run(self, subject: Subject, numbers: Sequence[int] | None = None) -> Result:
        """The result of trying the space, or the configurations with these numbers.

        Raises:
            TuningError: if none can run, or their results differ.
        """
        from weft import __version__

        began = time.perf_counter()
        kept = kept_by_user(self._parameters, self._space, self._rules, self._bound)
        refused = len(self._space.configurations) - len(kept)
        if numbers is not None:
            wanted = [self._space.configurations[number] for number in numbers]
            kept = [each for each in kept if each in wanted]
        built = compile_all(
            self._parameters,
            self._bound,
            kept,
            self._place.target,
            self._rules.workers,
            lambda done, of: self._progress.now(f"compiling {done + 1} of {of}"),
        )
        candidates = [_Candidate(*pair) for pair in zip(kept, built, strict=True)]
        self._drop_compiled(candidates)
        self._check_some_are_left(candidates)
        self._measure([candidate for candidate in candidates if candidate.compiled is not None])
        self._check_some_are_left(candidates)
        trials = ranked([candidate.trial for candidate in candidates])
        took = time.perf_counter() - began
        best = trials[0]
        chosen = ", ".join(f"{name}={value}" for name, value in best.configuration.items())
        self._progress.done(
            f"{chosen}, {time_text(best.median)}, of {len(trials)} tried in {took:.1f} s"
        )
        return Result(subject, best.configuration, trials, refused, took, __version__)

    def _drop_compiled(self, candidates: Sequence[_Candidate]) -> None:
        """Rule out trials by the kernels' resources."""
        alive = [candidate for candidate in candidates if candidate.compiled is not None]
        asked = self._rules.prune_compiled
        if asked is None:
            if any(not candidate.trial.spill_bytes for candidate in alive):
                for candidate in alive:
                    if candidate.trial.spill_bytes:
                        candidate.drop("dropped", "its registers spill, and those of others do not")
            return
        for candidate in alive:
            said = {
                **candidate.configuration,
                "kernels": candidate.compiled.kernels,
                "remarks": candidate.compiled.remarks,
                "occupancy": functools.partial(occupancy, candidate.compiled),
            }
            if not self._parameters.call_with(asked, "prune_compiled", self._bound, said):
                candidate.drop("dropped", "prune_compiled refuses it")

    def _check_some_are_left(self, candidates: Sequence[_Candidate]) -> None:
        if any(candidate.compiled is not None for candidate in candidates):
            return
        first = next((c.error for c in candidates if c.error is not None), None)
        reasons = dict.fromkeys(f"{c.trial.state}: {c.trial.reason}" for c in candidates)
        shown = "".join(f"\n  {reason}" for reason in list(reasons)[:_MOST_REASONS])
        raise TuningError(
            "AUTOTUNE_NOTHING_LEFT",
            f"{self._name}: none of {len(candidates)} configurations can run{shown}",
            hint="call it with all parameters of the space to see the whole error of one",
        ) from first

    def _measure(self, candidates: Sequence[_Candidate]) -> None:
        if self._place.device_type == CUDA:
            synchronize(self._place.ordinal)  # what writes the user's arguments is done
        signature = candidates[0].compiled.signature
        check_no_pointers(signature)
        written = {path for candidate in candidates for path in candidate.compiled.plan.written}
        user = UserArguments(self._bound, self._parameters.names, sorted(written))
        with alone_on(self._place.device_type, self._place.ordinal):
            sets = user.sets()
            if self._rules.check is not None:
                self._compare(candidates, sets[0], self._rules.check)
                candidates = [each for each in candidates if each.compiled is not None]
            entrants = [Entrant(self._call_of(candidate)) for candidate in candidates]
            race = Race(
                sets,
                self._clock(signature),
                self._rules.samples,
                self._rules.seconds,
                lambda samples, left: self._progress.now(f"sample {samples}, {left} left"),
            )
            race.run(entrants)
        for candidate, entrant in zip(candidates, entrants, strict=True):
            if entrant.error is not None:
                candidate.fail(entrant.error)
            else:
                candidate.trial = candidate.trial.timed(entrant.samples, entrant.is_stopped)

    def _call_of(self, candidate: _Candidate) -> Callable[[Sequence[Any]], object]:
        """Calls a compiled function with the values of a set."""
        constants = self._parameters.constants
        names, compiled = self._parameters.names, candidate.compiled
        count = self._parameters.function.function.__code__.co_argcount
        configuration = candidate.configuration

        def call(values: Sequence[Any]) -> object:
            filled = self._parameters.filled(values, configuration)
            positional = [v for i, v in enumerate(filled[:count]) if i not in constants]
            named = {names[i]: filled[i] for i in range(count, len(names)) if i not in constants}
            return compiled(*positional, **named)

        return call

    def _compare(self, candidates: Sequence[_Candidate], made: Set, tolerance: float) -> None:
        """Runs each once, and compares its outputs with the first one's.

        Raises:
            TuningError: if they differ.
        """
        expected: Set | None = None
        reference: Configuration = {}
        for candidate in candidates:
            made.restore()
            try:
                self._call_of(candidate)(made.values)
            except Exception as error:
                if is_of_a_handler(error) or is_fatal(error):
                    raise
                candidate.fail(error)
                continue
            if expected is None:
                expected, reference = made.copied(), candidate.configuration
                continue
            for name, difference in differing(expected.written(), made.written(), tolerance):
                raise TuningError(
                    "AUTOTUNE_RESULTS_DIFFER",
                    f"{self._name}: with {_words(candidate.configuration)}, argument '{name}' differs from that with "
                    f"{_words(reference)}: the largest difference is {difference:.3g}, allowed is {tolerance:g}",
                    hint="one of the two is wrong, or check= allows too little",
                )
        made.restore()

    def _clock(self, signature: Signature) -> Clock:
        if self._place.device_type == CUDA:
            return EventClock(self._place.ordinal, self._stream(signature))
        return WallClock()

    def _stream(self, signature: Signature) -> int:
        """Stream of the calls: one that was passed, or the environment's."""
        for parameter, value in zip(signature.parameters, self._bound, strict=True):
            if isinstance(parameter.kind, StreamKind):
                return stream_handle(value)
        return current_stream((CUDA, self._place.ordinal))


_MOST_REASONS: Final = 5


def kept_by_user(
    parameters: Parameters, space: Space, rules: Rules, bound: Sequence[Any]
) -> list[Configuration]:
    """The configurations that `prune` does not refuse.

    Raises:
        TuningError: if it refuses all.
    """
    if rules.prune is None:
        return list(space.configurations)
    kept: list[Configuration] = []
    for configuration in space.configurations:
        if parameters.call_with(rules.prune, "prune", bound, configuration):
            kept.append(configuration)
    if not kept:
        name, count = parameters.function.function.__name__, len(space.configurations)
        raise TuningError(
            "AUTOTUNE_NOTHING_LEFT",
            f"{name}: prune refuses all {count} configurations for this call",
            hint="prune returns True for configurations to keep",
        )
    return kept


def _reason(error: object) -> str:
    if not isinstance(error, Exception):
        return ""
    text = f"[{error.code}] {error.message}" if isinstance(error, WeftError) else str(error)
    return f"{type(error).__name__}: {text}"


def _words(configuration: Configuration) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in configuration.items())
