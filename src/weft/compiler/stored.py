# SPDX-License-Identifier: Apache-2.0
"""A compiled function as an entry of the cache, and back.

In: object code, what the trace said of it, its texts. Out: sections, and from these the arguments of
`make_compiled_function`. Plain data only: nothing of an entry is run before its checksum is compared, or unpickled.
`marshal`, which costs no import, reads only what the same Python wrote: its version is in the key.
"""

from __future__ import annotations

import marshal
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft import errors
from weft.arguments.base import MISSING
from weft.arguments.records import restored_parts, restorer
from weft.errors import WeftError
from weft.frontend.state.content import Unknown
from weft.imports import imported
from weft.runtime.object_code import KernelInfo, ObjectCode, Remark, ScratchInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.frontend.state.content import Manifest
    from weft.types.frozen import Frozen

_TEXT: Final = "text:"
_OURS: Final = b"weft\0"
_FACTS: Final = frozenset(
    (
        *("steps", "kernels", "remarks", "scratch", "entry_symbols", "target", "architecture"),
        *("device_type", "written", "returns_objects", "result", "modules", "refused"),
    )
)
_PLAIN: Final = frozenset((bool, int, float, str, type(None)))


class Stored(NamedTuple):
    """A compilation's stored result.

    Attributes:
        code: the machine code.
        scratch: each array of the host function.
        written: paths of the arguments that kernels write to.
        returns_objects: whether it returns an argument tensor.
        result: the conversion of a returned tuple; see `weft.frontend.functions.interface`.
        modules: names of the module's stages.
        texts: the stages' texts, compressed, or why there is none.
    """

    code: ObjectCode
    scratch: tuple[ScratchInfo, ...]
    written: tuple[str, ...]
    returns_objects: bool
    result: Any
    modules: tuple[str, ...]
    texts: Mapping[str, bytes | WeftError]

    def holds_any(self, paths: Iterable[str]) -> bool:
        """Whether the machine code holds one of these paths, as bytes of the system or as weft prints it."""
        utf8 = imported("weft.codegen.llvm.types").utf8
        whole = self.code.host_object + self.code.device_code
        return any(os.fsencode(path) in whole or utf8(path) in whole for path in paths)


def to_sections(stored: Stored, manifest: Manifest, files: Mapping[str, str]) -> dict[str, bytes]:
    """The sections of an entry.

    Args:
        stored: the compilation.
        manifest: what it read.
        files: path of each source → its name in the entry.
    Raises:
        Unknown: if the result cannot be used by another process.
    """
    code = stored.code
    facts = {
        "steps": manifest.steps,
        "kernels": [_values(kernel) for kernel in code.kernels],
        "remarks": [_values(_moved(remark, files)) for remark in code.remarks],
        "scratch": [_values(_moved(array, files)) for array in stored.scratch],
        "entry_symbols": code.entry_symbols,
        "target": code.target,
        "architecture": code.architecture,
        "device_type": code.device_type,
        "written": stored.written,
        "returns_objects": stored.returns_objects,
        "result": _result(stored.result, manifest.values),
        "modules": stored.modules,
        "refused": {
            name: (type(error).__name__, error.code, error.message, error.hint)
            for name, error in stored.texts.items()
            if isinstance(error, WeftError)
        },
    }
    texts = {_TEXT + n: kept for n, kept in stored.texts.items() if isinstance(kept, bytes)}
    meta = _OURS + marshal.dumps(facts)
    return {"meta": meta, "host": code.host_object, "device": code.device_code, **texts}


def facts_of(sections: Mapping[str, bytes] | None) -> dict[str, Any] | None:
    """Reads an entry's facts of its code, with its manifest's steps; None if there is no entry, or it is foreign."""
    if sections is None or not {"meta", "host", "device"}.issubset(sections):
        return None
    meta = sections["meta"]
    if not meta.startswith(_OURS):
        return None  # `marshal` takes any bytes for the length of a list, and asks for its memory
    try:
        said = marshal.loads(memoryview(meta)[len(_OURS) :])
    except (EOFError, TypeError, ValueError):
        return None
    facts = cast("dict[str, Any]", said if isinstance(said, dict) else {})
    return facts if _FACTS.issubset(facts) else None


def from_sections(
    sections: Mapping[str, bytes],
    facts: Mapping[str, Any],
    files: Mapping[str, str],
    values: Sequence[Any],
) -> Stored:
    """The compilation of an entry.

    Args:
        sections: of the entry.
        facts: of `facts_of`.
        files: name of each source in the entry → its path here.
        values: what stands where the compilation read.
    """
    code = ObjectCode(
        sections["host"],
        sections["device"],
        tuple(KernelInfo(*values) for values in facts["kernels"]),
        facts["entry_symbols"],
        facts["target"],
        facts["architecture"],
        tuple(_moved(Remark(*values), files) for values in facts["remarks"]),
        facts["device_type"],
    )
    texts: dict[str, bytes | WeftError] = {
        name.removeprefix(_TEXT): content
        for name, content in sections.items()
        if name.startswith(_TEXT)
    }
    for name, (kind, error_code, message, hint) in facts["refused"].items():
        texts[name] = getattr(errors, kind)(error_code, message, hint=hint)
    return Stored(
        code,
        tuple(_moved(ScratchInfo(*values), files) for values in facts["scratch"]),
        facts["written"],
        facts["returns_objects"],
        _restored(facts["result"], values),
        facts["modules"],
        texts,
    )


def _values(record: Frozen) -> list[Any]:
    return list(record.__reduce__()[1])


def _moved(record: Any, files: Mapping[str, str]) -> Any:
    return record.replaced(file=files.get(record.file, record.file))


def _result(result: Any, values: Sequence[Any]) -> Any:
    """The conversion of a result as plain data: what makes a tuple, and each item's; None to leave it as it is.

    A class is named by the number of the value that it is, its compile-time fields by their constants.
    """
    if result is None:
        return None
    make, items = result
    how: Any = make and "list"
    if make not in (None, list):
        kind, fields = restored_parts(make)
        number = next((n for n, value in enumerate(values) if value is kind), None)
        known = {name: value for name, value in fields.items() if value is not MISSING}
        if number is None or not _PLAIN.issuperset(map(type, known.values())):
            raise Unknown(f"a result of the class {kind.__qualname__}")
        how = [number, list(fields), known]
    return [how, [_result(item, values) for item in items]]


def _restored(result: Any, values: Sequence[Any]) -> Any:
    if result is None:
        return None
    how, items = result
    make: Any = list if how == "list" else None
    if isinstance(how, list):
        number, names, known = cast("list[Any]", how)
        make = restorer(values[number], {name: known.get(name, MISSING) for name in names})
    return make, tuple(_restored(item, values) for item in items)
