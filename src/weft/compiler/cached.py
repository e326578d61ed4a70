# SPDX-License-Identifier: Apache-2.0
"""Compiles, or finds what another process compiled.

In: a function, arguments, options, as `compile_function` takes them. Out: its result. A function that is found needs no
compiler: neither xDSL nor llvmlite is imported. An entry of the cache has object code, facts from the trace, its
texts: plain data only; nothing of an entry is run before its checksum is compared, or unpickled. `marshal`, which costs
no import, reads only data of the same Python: its version is in the key.
"""

from __future__ import annotations

import functools
import marshal
import os
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft import errors
from weft.arguments.base import MISSING
from weft.arguments.records import restored_parts, restorer
from weft.blame import is_of_a_handler
from weft.cache import store
from weft.cache.entry import SUFFIX, blake2b, encode
from weft.cache.versions import compiler_version
from weft.compiler.artifacts import restored_artifacts
from weft.compiler.call_plan import Calling, make_call_plan, requested_signature
from weft.compiler.target_choice import choose_target
from weft.config import config, misspelled_variables
from weft.errors import WeftError
from weft.frontend.source import read_source
from weft.frontend.state.content import ROOT, Content, Unknown, describe, read_again
from weft.imports import imported
from weft.runtime.code_image import (
    KNOWS_THIS_MACHINE,
    KernelInfo,
    ObjectCode,
    Remark,
    ScratchInfo,
    choose_executor,
    link,
    link_object,
)
from weft.runtime.compiled_function import CompiledDetails, make_compiled_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from weft.arguments.signature import Signature
    from weft.backends.base import Backend
    from weft.compiler.options import CompileOptions
    from weft.frontend.source import FunctionSource
    from weft.frontend.state.content import Manifest
    from weft.language.functions import HostFunction
    from weft.types.frozen import Frozen


# Those that change the machine code or the texts; the architecture is the target's.
_OPTIONS: Final = (
    *("opt_level", "generate_line_info", "enable_assertions", "fp_contract", "math"),
    "sanitize",
    "ptxas_options",
)


def find_or_compile(
    function: HostFunction,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    options: CompileOptions,
    hooks: Sequence[Callable[[Any], object]] = (),
    is_call: bool = False,
) -> Any:
    """`compile_function` with the cache on disk around it; see there for arguments and errors."""
    if options.sanitize:
        imported("weft.sanitizer.report").register_reports()
    request = None
    if _is_wanted(options) and not hooks:
        request = _request(function, arguments, keywords, options, is_call)
    if request is not None:
        found = _find(request, options)
        if found is not None:
            store.stats().hits += 1
            _tell(request.source.name, found, options)
            return found
        store.stats().misses += 1
    imported("logging")  # before forks learn to wait for the rest, see `weft.imports`

    compile_function = imported("weft.compiler.pipeline").compile_function
    keep = None if request is None else functools.partial(_keep, request)
    return compile_function(function, arguments, keywords, options, hooks, is_call, keep)


def _is_wanted(options: CompileOptions) -> bool:
    """Whether a result may come from the cache: nothing else is to be written, printed or checked on the way."""
    effects = options.keep or options.dump_dir or options.verify or options.time or config.time
    return KNOWS_THIS_MACHINE and not (options.no_cache or config.no_cache or effects or config.log)


def _tell(name: str, found: Any, options: CompileOptions) -> None:
    """Logs a hit, without importing `logging` if nothing is to be logged."""
    if "logging" in sys.modules or misspelled_variables():
        _, reason = choose_executor(options.executor, options.enable_tvm_ffi)
        imported("weft.compiler.logs").log_found(name, found.executor.name, reason)


class _Request(NamedTuple):
    """One compilation, by all that it depends on before it is traced.

    Attributes:
        key: a digest of the rest; never of a value of an argument, an address, a path or a time.
        has_lines: whether the code is to name lines of files.
    """

    key: str
    source: FunctionSource
    signature: Signature
    backend: Backend
    has_lines: bool


def _request(
    function: HostFunction,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    options: CompileOptions,
    is_call: bool,
) -> _Request | None:
    try:
        source = read_source(function)
        signature = requested_signature(source, arguments, keywords, is_call)
        backend, architecture = choose_target(signature, options, is_call)
        signature = signature.for_device(backend.device_type)
        content = Content(source.texts)
        content.say(function.function.__qualname__, source.name)
        content.source(source)
        content.say(*(f"{name}={getattr(options, name)!r}" for name in _OPTIONS))
        content.say(backend.name, architecture)
        content.add(signature)
    except Unknown as reason:
        store.stats().refuse(str(reason))
        return None
    except Exception as error:
        if is_of_a_handler(error):
            raise
        return None  # the compiler comes to it again, and reports it with its place
    versions = compiler_version(), backend.tools_version()
    if None in versions:
        store.stats().refuse("tools of unknown versions")
        return None
    content.say(*versions)
    return _Request(content.digest(), source, signature, backend, options.generate_line_info)


def _find(request: _Request, options: CompileOptions) -> Any:
    """The function of an entry whose manifest holds, or None."""
    tried: set[str] = set()
    names = store.names(request.key)
    for place, name in names:
        shape = name.partition("-")[0]
        if shape in tried:
            continue
        sections = store.read(place, name)
        facts = facts_of(sections)
        if sections is None or facts is None:
            continue  # another entry of this shape may be whole
        tried.add(shape)
        try:
            now = read_again(request.source, request.signature, facts["steps"])
        except Unknown:
            continue
        if now is None:
            continue
        wanted = _file_name(now)
        if wanted == name:
            return _load(request, now, sections, facts, options)
        for other in (folder for folder, found in names if found == wanted):
            sections = store.read(other, wanted)
            facts = facts_of(sections)
            if sections is not None and facts is not None:
                return _load(request, now, sections, facts, options)
    return None


def _file_name(manifest: Manifest) -> str:
    """Digests of an entry: of its inputs, and of its contents."""
    shape = blake2b(repr(manifest.steps).encode(), digest_size=8).hexdigest()
    return f"{shape}-{manifest.digest}{SUFFIX}"


def _files(request: _Request, manifest: Manifest) -> dict[str, str]:
    """The name in an entry of each source file: which of the functions it holds."""
    files = {request.source.file: f"<{ROOT}>"}
    for number, function in enumerate(manifest.functions.values()):
        files.setdefault(function.__code__.co_filename, f"<{number}>")
    files.pop("<string>", None)  # made by Python for a class; a word of LLVM's too
    return files


def _keep(request: _Request, traced: Any, stored: Stored) -> None:
    """Adds a compilation to the cache, if another process can know that it may use it."""
    read = request.source, request.signature, traced.captures, traced.traced
    try:
        manifest = describe(*read)
        files = _files(request, manifest)
        if request.has_lines or stored.holds_any(files):
            manifest = describe(*read, has_paths=True)
        sections = to_sections(stored, manifest, files)
    except Unknown as reason:
        store.stats().refuse(str(reason))
        return
    if not store.write(request.key, _file_name(manifest), encode(sections)):
        store.stats().refuse("the folder cannot be written")


def _load(
    request: _Request,
    manifest: Manifest,
    sections: Mapping[str, bytes],
    facts: Mapping[str, Any],
    options: CompileOptions,
) -> Any:
    paths = {name: path for path, name in _files(request, manifest).items()}
    stored = from_sections(sections, facts, paths, manifest.values)
    source, signature, backend = request.source, request.signature, request.backend
    executor, _ = choose_executor(options.executor, options.enable_tvm_ffi)
    debuggable = options.generate_line_info and backend.runs_on_host
    load = functools.partial(link_object, debuggable=debuggable)
    image = link(stored.code, load, executor.load_policy)
    calling = Calling(stored.written, stored.returns_objects, stored.result, stored.returns_new)
    return make_compiled_function(
        CompiledDetails(
            image=image,
            plan=make_call_plan(signature, *calling),
            calling=calling,
            signature=signature,
            target=(backend.name, stored.code.architecture),
            executor=executor,
            captured=manifest.captures.values(),
            inspection=restored_artifacts(
                source.name, options, signature, backend, stored.modules, stored.texts
            ),
            remarks=stored.code.remarks,
            scratch=stored.scratch,
            documentation=source.function.__doc__,
            module=source.function.__module__,
        )
    )


_TEXT: Final = "text:"
_OURS: Final = b"weft\0"
_FACTS: Final = frozenset(
    (
        *("steps", "kernels", "remarks", "scratch", "entry_symbols", "target", "architecture"),
        *(
            "device_type",
            "written",
            "returns_objects",
            "returns_new",
            "result",
            "modules",
            "refused",
        ),
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
        returns_new: whether it returns a tensor that it makes.
        modules: names of the module's stages.
        texts: the stages' texts, compressed, or why there is none.
    """

    code: ObjectCode
    scratch: tuple[ScratchInfo, ...]
    written: tuple[str, ...]
    returns_objects: bool
    result: Any
    returns_new: bool
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
        manifest: its inputs.
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
        "returns_new": stored.returns_new,
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
        facts["returns_new"],
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
