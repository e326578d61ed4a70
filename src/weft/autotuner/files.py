# SPDX-License-Identifier: Apache-2.0
"""Results on disk: JSON that people read, and that a package can ship.

In: a path, a `Subject`. Out: the entry that fits it. Another file, or a damaged one, is an error with its path and the
place in it.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from weft.autotuner.results import STATES, Result, Subject, trial_from
from weft.autotuner.space import json_text
from weft.cache import store
from weft.cache.digest import blake2b
from weft.config import config
from weft.errors import TuningError, brief

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.autotuner.space import Space

FORMAT: Final = "weft autotune 1"

_ENTRY: Final[Mapping[str, tuple[type, ...]]] = {
    "signature": (str,),
    "key": (dict,),
    "device": (str,),
    "space": (str,),
    "best": (dict,),
    "trials": (list,),
    "refused": (int,),
    "seconds": (int, float),
    "weft": (str,),
}
_NUMBERS: Final = (
    *("microseconds", "low", "high", "samples", "registers", "spill_bytes"),
    "shared_memory_bytes",
)


def as_document(function: str, source: str, results: Sequence[Result]) -> str:
    """The text of a file: what the results of one function have in common, then each."""
    document = {
        "format": FORMAT,
        "function": function,
        "source": source,
        "entries": [result.as_json() for result in results],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_document(path: Path) -> dict[str, Any] | None:
    """A file of results; None if there is no such file.

    Raises:
        TuningError: if it is not such a file; the message names the place.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror}") from error
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(path, f"is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise _error(path, f"holds {brief(document)}, expected an object")  # pyright: ignore[reportUnknownArgumentType]
    checked = cast("dict[str, Any]", document)
    if checked.get("format") != FORMAT:
        raise _error(path, f'has the format {brief(checked.get("format"))}, expected "{FORMAT}"')
    for name in ("function", "source"):
        _check(path, name, checked, (str,))
    _check(path, "entries", checked, (list,))
    for number, entry in enumerate(checked["entries"]):
        _check_entry(path, f"entries[{number}]", entry)
    return checked


def _check_entry(path: Path, place: str, entry: Any) -> None:
    _check_object(path, place, entry)
    for name, kinds in _ENTRY.items():
        _check(path, f"{place}.{name}", entry, kinds)
    if not entry["trials"]:
        raise _error(path, f"has no {place}.trials")
    for number, trial in enumerate(entry["trials"]):
        inside = f"{place}.trials[{number}]"
        _check_object(path, inside, trial)
        _check(path, f"{inside}.configuration", trial, (dict,))
        _check(path, f"{inside}.state", trial, (str,))
        if trial["state"] not in STATES:
            raise _error(
                path,
                f"has {inside}.state {brief(trial['state'])}, expected one of {', '.join(STATES)}",
            )
        for name in _NUMBERS:
            if name in trial:
                _check(path, f"{inside}.{name}", trial, (int, float))
                if not math.isfinite(trial[name]) or trial[name] < 0:
                    raise _error(path, f"has {inside}.{name} {trial[name]}, expected 0 or more")
        if "reason" in trial:
            _check(path, f"{inside}.reason", trial, (str,))


def _check_object(path: Path, place: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise _error(path, f"has {brief(value)} at {place}, expected an object")


def _check(path: Path, place: str, owner: Any, kinds: tuple[type, ...]) -> None:
    name = place.rpartition(".")[2]
    value = owner.get(name)
    if not isinstance(value, kinds) or isinstance(value, bool):
        words = {str: "a text", dict: "an object", list: "a list", int: "a number"}
        raise _error(path, f"has {brief(value)} at {place}, expected {words[kinds[0]]}")


def _error(path: Path, what: str) -> TuningError:
    return TuningError(
        "AUTOTUNE_FILE",
        f"{path} {what}",
        hint="write it with the tuned function's save(), or remove it",
    )


def find_result(path: Path, subject: Subject, space: Space) -> Result | None:
    """The result of a file for a subject; None if it has none.

    Raises:
        TuningError: if the file is not one of results.
    """
    document = read_document(path)
    if document is None or document["source"] != subject.source:
        return None
    wanted = _identity(subject)
    for entry in document["entries"]:
        found = subject._replace(**{name: entry[name] for name in _SAME})
        if _identity(found) == wanted:
            return as_result(entry, subject, space)
    return None


_SAME: Final = ("signature", "key", "device", "space")


def _identity(subject: Subject) -> str:
    return json_text([getattr(subject, name) for name in _SAME])


def as_result(entry: Mapping[str, Any], subject: Subject, space: Space) -> Result | None:
    """The result of an entry; None if its configurations are not those of the space."""
    best = space.find(entry["best"])
    chosen = [space.find(trial["configuration"]) for trial in entry["trials"]]
    if best is None or None in chosen:
        return None
    trials = tuple(
        trial_from(trial, configuration)
        for trial, configuration in zip(entry["trials"], chosen, strict=True)
        if configuration is not None
    )
    return Result(subject, best, trials, entry["refused"], entry["seconds"], entry["weft"])


def store_path(subject: Subject) -> Path | None:
    """The file of one result in the user's cache; None without a cache."""
    folder = store.user_folder()
    if folder is None or config.no_cache:
        return None
    digest = blake2b(f"{subject.source} {_identity(subject)}".encode(), digest_size=12).hexdigest()
    name = "".join(c if c.isalnum() or c in "._" else "_" for c in subject.function)[-80:]
    return Path(folder) / "autotune" / f"{name}-{digest}.json"


def write(path: Path, text: str) -> None:
    """Writes a file that appears whole under its name.

    Raises:
        OSError: if it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{os.urandom(8).hex()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
