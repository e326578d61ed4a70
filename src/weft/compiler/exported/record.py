# SPDX-License-Identifier: Apache-2.0
"""A compiled function as bytes, and a function of them again.

In: results of a compilation, and its CPU. Out: a record, which a pickle holds, and an exported file beside its
code; the function of a record, or what this machine lacks to run it. Needs no compiler, unless the record's machine
code is for another CPU.
"""

from __future__ import annotations

import functools
import pickle
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft import __version__, _native
from weft.backends.registry import find_backend
from weft.cache.entry import decode, encode
from weft.cache.versions import cpu_version
from weft.compiler.artifacts import restored_artifacts
from weft.compiler.call_plan import Calling, make_call_plan
from weft.compiler.options import CompileOptions
from weft.errors import ExportError
from weft.imports import imported
from weft.memo import kept
from weft.runtime.code_image import (
    EXECUTORS,
    KNOWS_THIS_MACHINE,
    KernelInfo,
    ObjectCode,
    Remark,
    ScratchInfo,
    link,
    link_object,
)
from weft.runtime.compiled_function import CompiledDetails, make_compiled_function

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.arguments.signature import Signature
    from weft.compiler.artifacts import Artifacts


_FORMAT: Final = 1
_TEXT: Final = "text:"


class Facts(NamedTuple):
    """Facts of a function in a record, beside machine code and texts.

    Attributes:
        version: weft's that made it.
        table_version: of the runtime table that the code calls.
        cpu: that its host code is for: a name of `HOST_CPUS`, or the digest of the one that made it.
        signature: of the function.
        kernels, entry_symbols, target, architecture, remarks, device_type: of `ObjectCode`.
        calling: how results and arguments are passed.
        scratch: each array of the host function.
        executor: its name.
        options: fields of `CompileOptions` that are set.
        modules: names of the module's stages; none without texts.
        documentation, module: of the Python function.
    """

    version: str
    table_version: int
    cpu: str
    signature: Signature
    kernels: tuple[KernelInfo, ...]
    entry_symbols: tuple[str, ...]
    target: str
    architecture: str
    remarks: tuple[Remark, ...]
    device_type: int
    calling: Calling
    scratch: tuple[ScratchInfo, ...]
    executor: str
    options: Mapping[str, Any]
    modules: tuple[str, ...]
    documentation: str | None
    module: str | None


def artifacts_of(details: CompiledDetails) -> Artifacts:
    """The texts of a function that this package compiled."""
    return cast("Artifacts", details.inspection)


def this_cpu() -> str:
    """The name of this machine's CPU in a record; empty if it is unknown, and then no machine has that CPU."""
    return cpu_version() or ""


def make_record(
    details: CompiledDetails,
    code: ObjectCode,
    cpu: str,
    texts: Mapping[str, bytes],
    modules: tuple[str, ...] = (),
) -> bytes:
    """The record of a function.

    Args:
        details: of the function.
        code: its machine code.
        cpu: see `Facts`.
        texts: stage → its text, compressed, to inspect or compile it again.
        modules: names of the module's stages, if there are texts.
    Raises:
        ExportError: if a class of its arguments or results cannot be named to another process.
    """
    facts = Facts(
        __version__,
        _native.RUNTIME_TABLE_VERSION,
        cpu,
        details.signature,
        code.kernels,
        code.entry_symbols,
        code.target,
        code.architecture,
        code.remarks,
        code.device_type,
        details.calling,
        details.scratch,
        details.executor.name,
        vars(artifacts_of(details).options),
        modules,
        details.documentation,
        details.module,
    )
    try:
        data = pickle.dumps((_FORMAT, tuple(facts)), protocol=5)
    except Exception as error:
        raise ExportError(
            "EXPORT_CLASS",
            f"{details.name} takes or returns something that another process cannot name: {error}",
            hint="define the class at the top level of a module that the other process can import",
        ) from error
    sections = {_TEXT + stage: text for stage, text in texts.items()}
    name = details.name.encode()
    code_sections = {"host": code.host_object, "device": code.device_code}
    return encode({"name": name, "facts": data, **code_sections, **sections})


def function_of(record: bytes, place: str) -> Any:
    """The function of a record.

    Args:
        record: of `make_record`; as with any library, loading it runs its code.
        place: where it is from, for messages.
    Raises:
        ExportError: if it is damaged, of another format, or for another CPU without the texts to compile it again.
    """
    sections = _sections(record, place)
    facts = _read_facts(sections["facts"], place)
    artifacts = restored_artifacts(
        facts.signature.name,
        _options(facts),
        facts.signature,
        find_backend(facts.target),
        facts.modules,
        {n.removeprefix(_TEXT): text for n, text in sections.items() if n.startswith(_TEXT)},
    )
    artifacts.origin = None if facts.modules else record
    code = ObjectCode(
        sections["host"],
        sections["device"],
        facts.kernels,
        facts.entry_symbols,
        facts.target,
        facts.architecture,
        facts.remarks,
        facts.device_type,
    )
    reason = _refusal(facts)
    if reason:
        code = _compiled_again(artifacts, facts, place, reason)
    elif code.device_code.startswith(b"\x7fELF"):
        artifacts.record("cubin", code.device_code)
    if artifacts.options.sanitize:
        imported("weft.sanitizer.report").register_reports()
    executor = EXECUTORS[facts.executor]
    load = link_object if KNOWS_THIS_MACHINE else _loader()
    image = link(code, functools.partial(load, debuggable=False), executor.load_policy)
    return make_compiled_function(
        CompiledDetails(
            image=image,
            plan=make_call_plan(facts.signature, *facts.calling),
            calling=facts.calling,
            signature=facts.signature,
            target=(facts.target, facts.architecture),
            executor=executor,
            captured=(),
            inspection=artifacts,
            remarks=code.remarks,
            scratch=facts.scratch,
            documentation=facts.documentation,
            module=facts.module,
        )
    )


def name_of(record: bytes, place: str) -> str:
    """The name of a record's function."""
    return _sections(record, place)["name"].decode()


def unpickled(record: bytes, device: int | None) -> Any:
    """The function of a pickle."""
    function = function_of(record, "the pickle")
    return function if device is None else function.to(device)


def _sections(record: bytes, place: str) -> dict[str, bytes]:
    sections = decode(record)
    if sections is None or "facts" not in sections:
        raise ExportError(
            "EXPORT_DAMAGED",
            f"{place} is truncated, damaged, or not of this version of weft",
            hint=f"export the function again with weft {__version__}",
        )
    return sections


def _read_facts(data: bytes, place: str) -> Facts:
    try:
        form, values = pickle.loads(data)
        facts = Facts(*values) if form == _FORMAT else None
    except Exception as error:
        raise ExportError(
            "EXPORT_CLASS",
            f"{place} names something that is not here: {error}",
            hint="make the module importable that defines the classes of its arguments and results",
        ) from error
    if facts is None:
        raise ExportError(
            "EXPORT_DAMAGED",
            f"{place} is of another version of weft",
            hint=f"export the function again with weft {__version__}",
        )
    return facts


def _options(facts: Facts) -> CompileOptions:
    options = CompileOptions()
    vars(options).update(facts.options)
    return options


def _refusal(facts: Facts) -> str:
    """Why the machine code cannot run here; empty if it can."""
    if facts.table_version > _native.RUNTIME_TABLE_VERSION:
        return f"was made by weft {facts.version}, which is newer than this one, {__version__}"
    if facts.cpu and facts.cpu == this_cpu():
        return ""
    missing = missing_features(facts.cpu)
    if missing is None:
        return "is for the CPU of the machine that made it"
    return f"is for CPUs with {', '.join(missing)}" if missing else ""


def _compiled_again(artifacts: Artifacts, facts: Facts, place: str, reason: str) -> ObjectCode:
    if artifacts.data("ir") is None:
        raise ExportError(
            "EXPORT_CPU",
            f"{place}: {facts.signature.name} {reason}, and its text is not in the file",
            hint="export it for a CPU that this machine has: fn.export(..., cpu='x86-64-v2')",
        )
    again = imported("weft.compiler.exported.files").compile_again(
        artifacts, facts.target, facts.architecture
    )
    artifacts.restore(again.artifacts.kept())
    return again.code


def _loader() -> Any:
    return imported("weft.codegen.llvm.optimize").load_object


class HostCpu(NamedTuple):
    """A CPU that code can be exported for.

    Attributes:
        triple, cpu, features: as LLVM names them.
        flags: Linux's names of its features beyond the architecture's baseline.
    """

    triple: str
    cpu: str
    features: str
    flags: tuple[str, ...]


_X86: Final = "x86_64-unknown-linux-gnu"
_V2: Final = ("sse4_2", "popcnt")
_V3: Final = (*_V2, "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe")
_V4: Final = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_LLVM: Final = {"sse4_2": "sse4.2", "bmi1": "bmi", "abm": "lzcnt"}


def _features(flags: tuple[str, ...]) -> str:
    return ",".join(f"+{_LLVM.get(flag, flag)}" for flag in flags)


# The levels of the x86-64 psABI, and the first version of 64-bit Arm.
HOST_CPUS: Final = {
    "x86-64-v2": HostCpu(_X86, "x86-64-v2", _features(_V2), _V2),
    "x86-64-v3": HostCpu(_X86, "x86-64-v3", _features(_V3), _V3),
    "x86-64-v4": HostCpu(_X86, "x86-64-v4", _features(_V4), _V4),
    "aarch64": HostCpu("aarch64-unknown-linux-gnu", "generic", "+neon", ()),
}
NATIVE: Final = "native"
"""The CPU of this process, with all that it has."""


def default_cpu() -> str:
    """The default CPUs of an exported library: CPUs of this architecture of the last ten years."""
    return "aarch64" if platform.machine() == "aarch64" else "x86-64-v3"


def architecture_of(cpu: str) -> str:
    """The architecture of a name of `HOST_CPUS`, or of this process, as `platform.machine` says it."""
    return HOST_CPUS[cpu].triple.partition("-")[0] if cpu in HOST_CPUS else platform.machine()


def missing_features(cpu: str) -> tuple[str, ...] | None:
    """Features that this machine lacks to run code for a CPU; None for an unknown CPU.

    Example:
        >>> missing_features("a digest of another machine") is None
        True
    """
    known = HOST_CPUS.get(cpu)
    if known is None:
        return None
    if architecture_of(cpu) != platform.machine():
        return (f"the architecture {architecture_of(cpu)}",)
    return tuple(flag for flag in known.flags if flag not in _flags())


@kept
def _flags() -> frozenset[str]:
    """Features of this CPU by Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(found.partition(":")[2].split())
