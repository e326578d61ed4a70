# SPDX-License-Identifier: Apache-2.0
"""Writes compiled functions into a file for other programs.

In: compiled functions, a path, what to export for. Out: the file, and for machine code a C header beside it, which C++
reads, too, with the symbols and their contracts in comments. Constants and a constructor are LLVM text for
`Backend.emit_exported`; native/include/weft/exported.h is the contract with the runtime that it is linked with. For
another CPU or architecture a function is compiled again from its module's text. docs/export.md explains it.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft import __version__, _native
from weft.arguments.base import MISSING
from weft.arguments.complex import ComplexKind
from weft.backends.base import Job
from weft.backends.host import away_from_signals, machine_of
from weft.backends.registry import find_backend
from weft.codegen.llvm.types import quoted
from weft.compiler.artifacts import Artifacts
from weft.compiler.defects import deep_recursion
from weft.compiler.exported.linking import link_shared, make_archive, make_fatbin
from weft.compiler.exported.record import (
    HOST_CPUS,
    NATIVE,
    architecture_of,
    artifacts_of,
    default_cpu,
    make_record,
    this_cpu,
    unpickled,
)
from weft.compiler.module_text import parse_module
from weft.compiler.options import CompileOptions
from weft.errors import ExportError, brief
from weft.runtime.code_image import EXECUTORS, STATE_SYMBOL
from weft.runtime.compiled_function import CompiledDetails

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from weft.runtime.code_image import ObjectCode


_CODE: Final = (".so", ".a", ".o")
# Suffix → the stage that is written.
_TEXTS: Final = {".ptx": "ptx", ".cubin": "cubin", ".ll": "llvm"}
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def export(
    path: str | os.PathLike[str],
    functions: Sequence[Any],
    *,
    gpu_arch: str | Sequence[str] | None = None,
    cpu: str | None = None,
) -> tuple[Path, ...]:
    """Writes compiled functions into a file that programs in other languages load or link.

    The functions have the C ABI of TVM-FFI, as ``__tvm_ffi_<name>``; a header beside the file has their contracts. A
    shared library needs libtvm_ffi and, for GPUs, the driver; an object is linked with libweft_runtime.a
    (`weft.runtime_archive`), which an archive holds.

    Args:
        path: of the file, which is replaced at once. Its suffix selects the kind: ``.so``, ``.a``, ``.o``, or of one
            function's kernels ``.ptx``, ``.cubin`` or ``.ll``.
        functions: of `weft.compile`, with different names.
        gpu_arch: architectures such as ``"sm_80,sm_90a"``, for one file with code for each, and PTX for newer ones;
            None for those that the functions were compiled for.
        cpu: which CPUs run it: ``"x86-64-v2"``, ``"x86-64-v3"``, ``"x86-64-v4"``, ``"aarch64"`` or ``"native"``; None
            for ``"x86-64-v3"`` or ``"aarch64"``, by the machine. Another architecture than this machine's for ``.o``.

    Returns:
        The paths of the file and the header; that of the file for texts of kernels.

    Raises:
        ExportError: if the functions cannot be written so; the message says why.
        ToolchainError: if a compiler, linker or assembler is missing, or fails.
        TypeError: for something that is not a compiled function.

    Example:
        >>> weft.export("library.so", [fn])
        (PosixPath('library.so'), PosixPath('library.h'))
        >>> weft.load("library.so")(a, b)
    """
    return write_functions([_details_of(function) for function in functions], path, gpu_arch, cpu)


def write_functions(
    functions: Sequence[CompiledDetails],
    path: str | os.PathLike[str],
    gpu_arch: str | Sequence[str] | None,
    cpu: str | None,
) -> tuple[Path, ...]:
    """See `export`."""
    output = Path(path)
    if not functions:
        raise ExportError("EXPORT_EMPTY", f"no function was given for {output}")
    _check_names(functions)
    architectures = _architectures(functions, gpu_arch)
    if output.suffix in _TEXTS:
        return (_write_text(functions, output, architectures),)
    if output.suffix not in _CODE:
        raise ExportError(
            "EXPORT_SUFFIX",
            f"{output.name} ends with {output.suffix or 'no suffix'}, expected one of "
            f"{', '.join((*_CODE, *_TEXTS))}",
        )
    if output.suffix == ".o" and len(functions) > 1:
        raise ExportError(
            "EXPORT_SEVERAL",
            f"{output.name} holds one function, received {len(functions)}",
            hint="export a .so or an .a, or each function into an object of its own",
        )
    cpu = _check_cpu(cpu, output)
    beside = output.with_suffix(".h")
    with _folder_beside(output) as folder:
        objects = [folder / f"{number}.o" for number in range(len(functions))]
        for details, place in zip(functions, objects, strict=True):
            place.write_bytes(_object(details, architectures, cpu))
        made = objects[0] if output.suffix == ".o" else folder / "made"
        if output.suffix == ".so":
            link_shared(objects, made, output.name, folder)
        elif output.suffix == ".a":
            make_archive(objects, made, folder)
        header = folder / "header"
        header.write_text(header_text(functions, output.stem, __version__))
        header.replace(beside)
        made.replace(output)
    return output, beside


def _details_of(function: Any) -> CompiledDetails:
    details = getattr(function, "details", None)
    if isinstance(details, CompiledDetails):
        return details
    raise TypeError(
        f"expected a compiled function, received {brief(function)}; compile it first: weft.compile(function, ...)"
    )


def _check_names(functions: Sequence[CompiledDetails]) -> None:
    seen: set[str] = set()
    for details in functions:
        if not _IDENTIFIER.fullmatch(details.name):
            raise ExportError(
                "EXPORT_NAME",
                f"{brief(details.name)} is not a name for other languages, which have letters, digits and _",
                hint="rename the function",
            )
        if details.name in seen:
            raise ExportError(
                "EXPORT_NAME",
                f"two of the functions are called {details.name}",
                hint="a file has one function of a name; rename one, or write two files",
            )
        seen.add(details.name)


def _architectures(functions: Sequence[CompiledDetails], wanted: Any) -> tuple[str, ...]:
    """The GPUs asked for; empty for those that the functions were compiled for."""
    if wanted is None:
        return ()
    names = tuple(wanted.split(",")) if isinstance(wanted, str) else tuple(wanted)
    for details in functions:
        backend = find_backend(details.target)
        for name in names:
            if not isinstance(name, str) or not re.fullmatch(backend.architectures or "(?!)", name):
                raise ExportError(
                    "EXPORT_ARCHITECTURE",
                    f"{details.name} was compiled for {backend.name}, which has no architecture {brief(name)}",
                    hint="compile it for a GPU, with options='--gpu-arch sm_90a'"
                    if not backend.architectures
                    else "write names such as sm_80, separated by commas",
                )
    return names


def _check_cpu(cpu: str | None, output: Path) -> str:
    cpu = default_cpu() if cpu is None else cpu
    if cpu != NATIVE and cpu not in HOST_CPUS:
        raise ExportError(
            "EXPORT_CPU",
            f"cpu is {brief(cpu)}, expected one of {', '.join((*HOST_CPUS, NATIVE))}",
        )
    if output.suffix != ".o" and architecture_of(cpu) != architecture_of(NATIVE):
        raise ExportError(
            "EXPORT_CPU",
            f"{output.name} needs a linker and weft's runtime for {architecture_of(cpu)}, and those here are for "
            f"{architecture_of(NATIVE)}",
            hint="export an object (.o), and link it there with libweft_runtime.a and libtvm_ffi",
        )
    return cpu


@contextlib.contextmanager
def _folder_beside(output: Path) -> Generator[Path]:
    """A folder from which a file is moved to its place as a whole; what fails on the way is an `ExportError`."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=".weft-") as folder:
            yield Path(folder)
    except OSError as error:
        raise ExportError(
            "EXPORT_FOLDER", f"cannot write {output}: {error.strerror or error}"
        ) from error


def _object(details: CompiledDetails, architectures: tuple[str, ...], cpu: str) -> bytes:
    """The object of one function: its code, a record, and the constructor."""
    target = details.target
    host = None
    if cpu != NATIVE:
        known = HOST_CPUS[cpu]
        host = machine_of(known.cpu, known.features, known.triple)
    made = _compile_for(details, architectures, host)
    code = made[0].code
    if code.device_code:
        images = [
            (one.code.architecture, one.code.device_code, one.artifacts.data("ptx") or b"")
            for one in made
        ]
        names = ", ".join(name for name, _, _ in images)
        code = code.replaced(device_code=make_fatbin(images), architecture=names)
    record = make_record(details, code, this_cpu() if cpu == NATIVE else cpu, {})
    policy = EXECUTORS["tvm-ffi"].load_policy
    glue = glue_text(details.name, code, record, _native.RUNTIME_TABLE_VERSION, policy, cpu)
    data = find_backend(target).emit_exported(made[0].job, glue)
    if data is None:
        raise ExportError(
            "EXPORT_TARGET", f"{details.name}: functions for the target {target} cannot be exported"
        )
    return data


def _compile_for(
    details: CompiledDetails, architectures: tuple[str, ...], host: Any
) -> list[Again]:
    """The function for each architecture, whose host functions are the same."""
    artifacts = artifacts_of(details)
    if artifacts.data("ir") is None:
        raise ExportError(
            "EXPORT_AGAIN",
            f"{details.name} was loaded from a file, which does not hold the text to compile it again",
            hint="copy that file, or export the function where it was compiled",
        )
    made = [
        compile_again(artifacts, details.target, name, host)
        for name in architectures or (details.architecture,)
    ]
    for one in made:
        if one.artifacts.data("llvm-host") != made[0].artifacts.data("llvm-host"):
            raise ExportError(
                "EXPORT_ARCHITECTURE",
                f"{details.name} is launched differently on {one.code.architecture} and "
                f"{made[0].code.architecture}",
                hint="write a file for each",
            )
    return made


def _write_text(
    functions: Sequence[CompiledDetails], output: Path, architectures: tuple[str, ...]
) -> Path:
    """One stage of one function's kernels."""
    if len(functions) > 1 or len(architectures) > 1:
        raise ExportError(
            "EXPORT_SEVERAL",
            f"{output.name} holds the kernels of one function for one architecture",
            hint="write a file for each, or export a .so",
        )
    (details,) = functions
    artifacts = artifacts_of(details)
    if architectures and architectures != (details.architecture,):
        (again,) = _compile_for(details, architectures, None)
        artifacts = again.artifacts
    data = artifacts.data(_TEXTS[output.suffix])
    if data is None:
        raise ExportError(
            "EXPORT_TARGET",
            f"{details.name} has no {output.suffix[1:]}: it was compiled for {details.target}",
            hint="compile it for a GPU, with options='--gpu-arch sm_90a'",
        )
    with _folder_beside(output) as folder:
        made = folder / "made"
        made.write_bytes(data)
        made.replace(output)
    return output


def reduced(details: CompiledDetails) -> tuple[Any, ...]:
    """Pickles a function: a record, and the device it is bound to."""
    origin = artifacts_of(details).origin
    return unpickled, (_record_of(details) if origin is None else origin, details.device)


def _record_of(details: CompiledDetails) -> bytes:
    """Machine code for this CPU, and the texts of its stages."""
    artifacts = artifacts_of(details)
    (again,) = _compile_for(details, (), None)
    texts = {
        stage: text
        for stage, text in {**again.artifacts.kept(), **artifacts.kept()}.items()
        if isinstance(text, bytes) and stage not in ("cubin", "object")
    }
    texts.setdefault("ir", zlib.compress((artifacts.text("ir") or "").encode(), 1))
    return make_record(details, again.code, this_cpu(), texts, artifacts.modules)


_HEAD: Final = """\
/* Functions made by weft {version}: the C ABI of TVM-FFI.
 *
 * `arguments` are borrowed. 0 is success, and the result is in `result`, which the caller owns; -1 is an error, which
 * TVMFFIErrorMoveFromRaised gives. `handle` is NULL. A tensor is a DLTensor* (kTVMFFIDLTensorPtr) or an ffi.Tensor;
 * work on a GPU runs on the stream of TVMFFIEnvGetStream. A tensor that a function makes is the caller's, who drops it
 * by TVMFFIObjectDecRef; its memory is that of TVMFFIEnvGetDLPackManagedTensorAllocator, without one its own.
 * Thread-safe.
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>
#include <tvm/ffi/c_api.h>

#ifdef __cplusplus
extern "C" {{
#endif
"""
_TAIL: Final = """
#ifdef __cplusplus
}}  // extern "C"
#endif

#endif  /* {guard} */
"""


def header_text(functions: Sequence[CompiledDetails], stem: str, version: str) -> str:
    """The header of functions.

    Args:
        functions: in their order.
        stem: of the file's name; the guard is made of it.
        version: weft's.
    """
    guard = "WEFT_" + re.sub(r"\W", "_", stem, flags=re.ASCII).upper() + "_H_"
    parts = [_HEAD.format(version=version, guard=guard)]
    for details in functions:
        parts.append(
            f"\n/* {_contract(details)}\n */\n"
            f"int32_t __tvm_ffi_{details.name}(void* handle, const TVMFFIAny* arguments, int32_t count,\n"
            "    TVMFFIAny* result);\n"
        )
    parts.append(_TAIL.format(guard=guard))
    return "".join(parts)


def _contract(details: CompiledDetails) -> str:
    lines = [details.signature.text]
    if details.documentation:
        lines += ["", *details.documentation.strip().splitlines()]
    lines.append("")
    for position, parameter in enumerate(details.signature.passed):
        default = "" if parameter.default is MISSING else f" (from Python {parameter.default!r})"
        written = any(
            path == parameter.name or path.startswith((f"{parameter.name}[", f"{parameter.name}."))
            for path in details.calling.written
        )
        note = ", written" if written else ""
        if isinstance(parameter.kind, ComplexKind):
            note = ", an ffi.Array of two floats"
        lines.append(f"arguments[{position}]: {parameter.text}{default}{note}")
    return "\n *".join(f" {line}".replace("*/", "* /").rstrip() for line in lines).lstrip()


SECTION: Final = ".weft"
"""The section of records in a file: the bytes of each after their number, from multiples of 8."""


def glue_text(
    name: str, code: ObjectCode, record: bytes, table_version: int, policy: int, cpu: str
) -> str:
    """LLVM text beside a host function.

    Args:
        name: of the function.
        code: its machine code; the device code is a part of the record.
        record: of `make_record`.
        table_version: of the runtime table that the code calls.
        policy: the executor's.
        cpu: that the host code is for.
    """
    framed = len(record).to_bytes(8, "little") + record
    framed += bytes(-len(framed) % 8)
    kernels = [kernel.name for kernel in code.kernels]
    start = framed.index(code.device_code) if code.device_code else 0
    size = f"[{len(framed)} x i8]"
    device = f"ptr getelementptr (i8, ptr @weft.export.record, i64 {start})"
    lines = [
        "",
        f'@weft.export.record = internal constant {size} c{quoted(framed)}, section "{SECTION}", align 8',
        _text("name", name),
        _text("architecture", code.architecture),
        _text("cpu", cpu),
        *(_text(f"kernel.{number}", kernel) for number, kernel in enumerate(kernels)),
        f"@weft.export.kernels = internal constant [{len(kernels)} x ptr] ["
        + ", ".join(f"ptr @weft.export.kernel.{number}" for number in range(len(kernels)))
        + "], align 8",
        "@weft.export.function = internal constant { i64, ptr, ptr, ptr, i64, ptr, i64, ptr, i64, ptr } "
        f"{{ i64 {table_version}, ptr @weft.export.name, ptr @weft.export.record, {device}, "
        f"i64 {len(code.device_code)}, ptr @weft.export.architecture, i64 {len(kernels)}, "
        f"ptr @weft.export.kernels, i64 {policy}, ptr @weft.export.cpu }}, align 8",
        "declare void @weft_open_exported(ptr, ptr)",
        "define internal void @weft.export.open() nounwind {",
        f"  call void @weft_open_exported(ptr @weft.export.function, ptr @{STATE_SYMBOL})",
        "  ret void",
        "}",
        "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
        "[{ i32, ptr, ptr } { i32 65535, ptr @weft.export.open, ptr null }]",
    ]
    return "\n".join(lines) + "\n"


def _text(what: str, text: str) -> str:
    data = text.encode() + b"\0"
    return f"@weft.export.{what} = internal constant [{len(data)} x i8] c{quoted(data)}"


class Again(NamedTuple):
    """A second compilation, whose artifacts are its own."""

    job: Job
    artifacts: Artifacts
    code: ObjectCode


def compile_again(artifacts: Artifacts, target: str, architecture: str, host: Any = None) -> Again:
    """Compiles a module again; writes no file.

    Args:
        artifacts: of the first compilation.
        target: the backend's name.
        architecture: of the kernels.
        host: see `Job`.
    """
    options = CompileOptions()
    vars(options).update(vars(artifacts.options))
    options.keep, options.dump_dir = frozenset(), None
    fresh = Artifacts(artifacts.name, options)
    backend = find_backend(target)
    with deep_recursion():
        module = parse_module(artifacts.text("ir") or "")
        job = Job(module, architecture, options, fresh, host)
        return Again(job, fresh, away_from_signals(lambda: backend.compile(job)))
