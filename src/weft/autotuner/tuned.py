# SPDX-License-Identifier: Apache-2.0
"""The tuned function: a call finds the configuration of its key, and tunes when it meets a key first.

In: a host function, a space, a key. Out: the results of calls. Results are kept in a dictionary.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import _native
from weft.autotuner.machine import describe_device
from weft.autotuner.parameters import UNSET, Key, Parameters, parameter_names, refuse_partial
from weft.autotuner.race import Progress
from weft.autotuner.results import Subject, as_document, find_result, store_path, write
from weft.autotuner.space import Space, source_digest
from weft.autotuner.trials import Place, Rules, Trials, kept_by_user
from weft.compiler.call_plan import requested_signature
from weft.compiler.options import make_options
from weft.compiler.target_choice import choose_target
from weft.config import config, overridden
from weft.dynamo import left_to_python
from weft.errors import TuningError, UnavailableError
from weft.frontend.source import read_source
from weft.language.functions import TunedFunction
from weft.tracebacks import leave_the_users_frames, one_frame

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from weft.api import JitFunction
    from weft.autotuner.results import Result
    from weft.autotuner.space import Configuration

__tracebackhide__ = True


class Tuned(TunedFunction):
    """A host function whose constants and launch parameters are chosen by measuring; made by ``@weft.autotune``.

    Call it as the function, without the parameters of the space. With all of them it is the plain function.
    """

    def __init__(
        self,
        function: JitFunction,
        space: object,
        key: object,
        rules: Rules,
        file: str | os.PathLike[str] | None,
        progress: bool | None,
    ) -> None:
        self.tuned_function = function
        self.rules = rules
        self._name = function.function.__name__
        self._space = Space(space, function.function.__name__, parameter_names(function))
        self.chosen = tuple(self._space.names)
        self._parameters = Parameters(function, self._space.names)
        self._key = Key(key, self._parameters)
        self._file = file
        self._progress = progress
        self._chosen: dict[Hashable, Configuration] = {}
        self._turns: dict[Hashable, threading.RLock] = {}
        self._tuning: set[Hashable] = set()
        self._results: list[Result] = []
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        count = len(self._space.configurations)
        return (
            f"<weft tuned function {self.tuned_function.function.__qualname__}: {count} configurations "
            f"of {', '.join(self._space.names)}>"
        )

    def __reduce__(self) -> str:
        return self.tuned_function.function.__qualname__  # as a host function's

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """In a class it is a method: its first argument is the instance."""
        return self if instance is None else functools.partial(self, instance)

    @left_to_python
    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Runs the function with the best configuration for these arguments; measures for new ones.

        Raises:
            TuningError: if no configuration can run, or results differ.
        """
        try:
            bound = self._parameters.bind(*arguments, **keywords)
            missing = [bound[place] is UNSET for place in self._parameters.chosen]
            if any(missing):
                if overridden("warmup") is not None:
                    raise TypeError(
                        "weft.warmup measures nothing; pass the parameters of the space, too"
                    )
                if not all(missing):
                    refuse_partial(self._parameters, bound)
                bound = self._parameters.filled(bound, self._choose(bound))
            return self._parameters.call(bound)
        except Exception as error:
            leave_the_users_frames(error)
            raise

    @property
    def function(self) -> JitFunction:
        """The host function itself, for `weft.compile`.

        Example:
            >>> fn = weft.compile(scale.function, a, out, **scale.best(a, out))
        """
        return self.tuned_function

    @property
    def space(self) -> tuple[Mapping[str, Any], ...]:
        """All configurations, in order.

        Example:
            >>> scale.space[0]
            {'threads': 64, 'items': 1}
        """
        return self._space.configurations

    @property
    def results(self) -> list[Result]:
        """Results that this process measured or found; printing one shows a table of its trials.

        Example:
            >>> scale(a, out)
            >>> scale.results[-1].best in scale.space
            True
        """
        return list(self._results)

    @one_frame("best")
    def best(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """The configuration that a call with these arguments runs; measures as the call does.

        Example:
            >>> sorted(scale.best(a, out))
            ['items', 'threads']
        """
        return dict(self._choose(self._bound(arguments, keywords)))

    @one_frame("tune")
    def tune(self, *arguments: Any, **keywords: Any) -> Result:
        """Measures for these arguments, whatever is known and whatever ``WEFT_AUTOTUNE`` says.

        The arguments are only read. Later calls use the result, which is kept on disk.

        Raises:
            TuningError: if no configuration can run, or results differ.
        Example:
            >>> scale.tune(a, out).best == scale.best(a, out)
            True
        """
        return self.tune_some(self._bound(arguments, keywords), None)

    @one_frame("save")
    def save(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Writes the results of this process to one JSON file, which a package can ship and ``file=`` reads.

        Args:
            path: None: that of ``file=``.
        Returns:
            The path.
        Raises:
            UnavailableError: if neither names a file.
            OSError: if it cannot be written.
        Example:
            ``scale.save("scale.tuning.json")``
        """
        chosen = Path(path) if path is not None else self._shipped()
        if chosen is None:
            raise UnavailableError(
                "AUTOTUNE_NO_FILE",
                f"{self._name}: save() needs a path, since the function was made without file=",
                hint='write save("results.json")',
            )
        newest = {repr(result.subject): result for result in self._results}
        source = source_digest(self.tuned_function)
        write(chosen, as_document(self._title(), source, list(newest.values())))
        return chosen

    @one_frame("forget")
    def forget(self) -> None:
        """Drops what this process knows: the next call of each key looks at the files again.

        Example:
            >>> scale.forget()
        """
        self._chosen.clear()
        self._results.clear()

    def tune_some(self, bound: Sequence[Any], numbers: Sequence[int] | None) -> Result:
        """Measures the configurations with these numbers, or all; only all are kept."""
        key = self._key_of(bound)
        with self._turn(key):
            subject, place = self._subject(bound)
            result = self._measured(bound, subject, place, numbers)
            if numbers is None:
                self.learn(result)
                self._chosen[key] = result.best
        return result

    def bound_call(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Sequence[Any]:
        """A call bound as Python binds it."""
        return self._bound(arguments, keywords)

    def learn(self, result: Result) -> None:
        """Keeps a result, in this process and on disk."""
        self._results.append(result)
        path = store_path(result.subject)
        if path is not None:
            try:
                write(path, as_document(self._title(), result.subject.source, [result]))
            except OSError as error:
                warnings.warn(f"weft cannot keep a tuning in {path}: {error}", stacklevel=2)

    def _bound(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Sequence[Any]:
        bound = self._parameters.bind(*arguments, **keywords)
        if any(bound[place] is not UNSET for place in self._parameters.chosen):
            refuse_partial(self._parameters, bound)
        return bound

    def _choose(self, bound: Sequence[Any]) -> Configuration:
        key = self._key_of(bound)
        chosen = self._chosen.get(key)
        return self._decide(key, bound) if chosen is None else chosen

    def _key_of(self, bound: Sequence[Any]) -> Hashable:
        constants, chosen = self._parameters.constants, self._parameters.chosen
        passed = [i for i in range(len(bound)) if i not in chosen]
        types = tuple([bound[i] for i in passed if i not in constants])
        fixed = tuple([_native.constant_key(bound[i]) for i in passed if i in constants])
        try:
            return _native.argument_key(types), fixed, self._key.values(bound)
        except (TypeError, ValueError):
            # The compiler's error is better: it has the parameter's name.
            values = self._parameters.filled(bound, self._space.configurations[0])
            arguments, keywords = self._parameters.split(values)
            requested_signature(read_source(self.tuned_function), arguments, keywords)
            raise

    def _turn(self, key: Hashable) -> threading.RLock:
        # A fork keeps another thread's lock, but not the thread.
        return self._turns.setdefault((os.getpid(), key), threading.RLock())

    def _decide(self, key: Hashable, bound: Sequence[Any]) -> Configuration:
        """Once for each key, in whichever thread comes first."""
        with self._turn(key):
            chosen = self._chosen.get(key)
            if chosen is not None:
                return chosen
            mode = config.autotune or "full"
            if mode != "off":
                subject, place = self._subject(bound)
                result = self._known(subject)
                if result is None and mode == "full":
                    result = self._measured(bound, subject, place, None)
                    self.learn(result)
                elif result is not None:
                    self._results.append(result)
                if result is not None:
                    return self._chosen.setdefault(key, result.best)
            first = kept_by_user(self._parameters, self._space, self.rules, bound)[0]
            return self._chosen.setdefault(key, first)

    def _measured(
        self, bound: Sequence[Any], subject: Subject, place: Place, numbers: Sequence[int] | None
    ) -> Result:
        turn = repr(subject), threading.get_ident()
        if turn in self._tuning:
            raise UnavailableError(
                "AUTOTUNE_NEEDS_ITSELF",
                f"{self._name} was called by code that its own tuning runs",
                hint="prune, prune_compiled, key and adapters of arguments cannot call it",
            )
        progress = Progress(self._name, self._progress)
        parts = self._parameters, self._space, self.rules
        self._tuning.add(turn)
        try:
            return Trials(*parts, bound, place, progress).run(subject, numbers)
        finally:
            self._tuning.discard(turn)
            progress.gone()

    def _subject(self, bound: Sequence[Any]) -> tuple[Subject, Place]:
        values = self._parameters.filled(bound, self._space.configurations[0])
        arguments, keywords = self._parameters.split(values)
        function = self.tuned_function
        signature = requested_signature(read_source(function), arguments, keywords, is_call=True)
        options = make_options(defaults=function.default_options)
        target = choose_target(signature, options, is_call=True)
        placed = [t.kind.example_device for t in signature.tensors() if t.kind.example_device]
        place = Place(target, placed[0][1] if placed else 0)
        types = [p.text for p in signature.parameters if p.name not in self._space.names]
        subject = Subject(
            self._title(),
            source_digest(function),
            self._space.digest,
            f"{signature.name}({', '.join(types)})",
            self._key.named(self._key.values(bound)),
            describe_device(place.device_type, place.ordinal, target.architecture),
        )
        return subject, place

    def _known(self, subject: Subject) -> Result | None:
        """From the shipped file, else from the user's own; a damaged one of these is a warning, and replaced."""
        shipped = self._shipped()
        found = None if shipped is None else find_result(shipped, subject, self._space)
        path = store_path(subject)
        if found is not None or path is None:
            return found
        try:
            return find_result(path, subject, self._space)
        except TuningError as error:
            warnings.warn(f"{error.message}; it is measured again", stacklevel=2)
            return None

    def _shipped(self) -> Path | None:
        """The path of ``file=``, which begins at the function's file."""
        if self._file is None:
            return None
        return Path(self.tuned_function.function.__code__.co_filename).parent / self._file

    def _title(self) -> str:
        function = self.tuned_function.function
        module = function.__module__
        if module in (None, "__main__", "__mp_main__"):  # a program's name in this process only
            module = Path(function.__code__.co_filename).stem
        return f"{module}.{function.__qualname__}"


def pieces(tuned: Tuned, each: int | None) -> Sequence[Sequence[int] | None]:
    """The numbers of a space's configurations in groups of a size; None stands for all."""
    if each is None:
        return [None]
    count = len(tuned.space)
    return [range(first, min(first + each, count)) for first in range(0, count, each)]
