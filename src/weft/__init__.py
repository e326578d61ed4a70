# SPDX-License-Identifier: Apache-2.0
"""weft: write a GPU kernel in Python, compile it in milliseconds, call it from anywhere.

Maps public names to their modules, which are imported on first use (PEP 562), so that
`import weft` is quick and `import weft.runtime` loads no compiler.
"""

from __future__ import annotations

import os as _os
import sys as _sys

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from types import ModuleType

__version__ = "0.1.0"

# Module → the public names that it defines; docs/reference follows it. The names of the kernel
# language are in weft.language.LANGUAGE.
_PUBLIC = {
    "weft.api": ("compile", "device", "jit", "kernel"),
    "weft.autotuner.decorator": ("autotune",),
    "weft.compiler.exported.files": ("export",),
    "weft.compiler.exported.linking": ("runtime_archive",),
    "weft.compiler.exported.load": ("load",),
    "weft.compiler.options": (
        "CompileOption",
        "CompileTarget",
        "DumpDir",
        "EnableAssertions",
        "EnableTVMFFI",
        "GPUArch",
        "GenerateLineInfo",
        "KeepCUBIN",
        "KeepIR",
        "KeepLLVM",
        "KeepPTX",
        "KeepSASS",
        "OptLevel",
        "FPContract",
        "MathFunctions",
        "NoCache",
        "PtxasOptions",
        "Sanitize",
        "TimeStages",
        "UseExecutor",
        "VerifyIR",
    ),
    "weft.arguments.tensor_spec": ("Tensor", "TensorMap", "fake_tensor"),
    "weft.arguments.constant": ("Constexpr",),
    "weft.arguments.packed": ("pack", "unpack"),
    "weft.arguments.pointer": ("Pointer",),
    "weft.arguments.registered": ("register_argument",),
    "weft.arguments.shape": ("Shape",),
    "weft.arguments.stream": ("Stream", "environment_stream"),
    "weft.types.dims": ("sym",),
    "weft.types.launch_limits": ("MAX_THREADS", "VECTOR_BYTES", "WARP_SIZE"),
    "weft.types.dtype": (
        "DType",
        "bf16",
        "bool_",
        "c128",
        "c64",
        "f16",
        "f32",
        "f4e2m1",
        "f64",
        "f6e2m3",
        "f6e3m2",
        "f8e4m3",
        "f8e5m2",
        "f8e8m0",
        "i16",
        "i32",
        "i4",
        "i64",
        "i8",
        "u16",
        "u32",
        "u4",
        "u64",
        "u8",
    ),
    "weft.driver.device": ("synchronize",),
    "weft.driver.memory": (
        "copy",
        "empty",
        "full",
        "set_allocator",
        "set_profile_allocator",
        "zeros",
    ),
    "weft.runtime.warmup": ("warmup",),
    "weft.sanitizer.report": ("Report", "ReportPlace", "SanitizerError"),
    "weft.sanitizer.checks": ("sanitize",),
    "weft.errors": (
        "ArgumentValueError",
        "CompileError",
        "CudaError",
        "ExportError",
        "InternalCompilerError",
        "NameResolutionError",
        "OptionError",
        "SignatureError",
        "ToolchainError",
        "TuningError",
        "TypeMismatchError",
        "UnavailableError",
        "UnsupportedSyntaxError",
        "ValueRangeError",
        "WeftError",
    ),
}
# Public modules: `weft.profiler.capture`.
_MODULES = ("profiler",)
# Public too, but not exported by `from weft import *`: their names are common variable names.
_NAMESPACES = {
    "block": "weft.primitives.block",
    "cache": "weft.cache",
    "config": "weft.config",
    "driver": "weft.driver",
    "ffi": "weft.ffi",
    "kernels": "weft.kernels",
    "hf": "weft.hf",
    "jax": "weft.jax",
    "nn": "weft.nn",
    "random": "weft.primitives.random",
    "testing": "weft.testing",
    "torch": "weft.torch",
    "warp": "weft.primitives.warp",
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}


def _import(name: str) -> ModuleType:
    try:
        from weft.imports import imported

        return imported(name, here=name in ("weft.hf", "weft.jax", "weft.nn", "weft.torch"))
    except ImportError as error:
        if _sys.is_finalizing():
            raise ImportError(
                f"{name} is first used while the interpreter shuts down, when nothing can be imported; "
                f"import it at the top of the module"
            ) from error
        if error.name == "weft._native":
            raise ImportError(_why_not_here()) from None
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("weft."):
            raise ImportError(
                f"{error.name} is missing from {_os.path.dirname(__file__)}: another distribution may have "
                f"taken its place or removed it; `pip install --force-reinstall weft-lang` brings it back"
            ) from None
        raise


def _why_not_here() -> str:
    """Why this interpreter finds no extension, and what to do."""
    version = "{}.{}".format(*_sys.version_info)
    if _sys.platform != "linux":
        return f"weft runs on Linux, and this is {_sys.platform}; docs/platforms.md lists the missing parts"
    return (
        f"weft's extension was not built for this Python {version}; install weft with it, "
        f"or run `make native PYTHON=python{version}` in a checkout"
    )


def _warn_of_a_namesake() -> None:
    """Say so if the distribution called `weft`, another project's, owns files of this folder."""
    site = _os.path.dirname(_os.path.dirname(__file__))
    try:
        names = [name for name in _os.listdir(site) if name[:5].lower() == "weft-"]
    except OSError:
        return  # an archive
    for name in names:
        if name.endswith("-info"):
            import warnings

            warnings.warn(
                f"{site} also holds {name}, another project's distribution, whose import name is weft too: "
                f"each overwrites the other's files. `pip uninstall weft`, then "
                f"`pip install --force-reinstall weft-lang`, which is this project's",
                stacklevel=2,
            )


def _language_names() -> list[str]:
    """The kernel language's names outside namespaces, and the namespaces."""
    language = _import("weft.language")
    return [name for name in language.LANGUAGE if "." not in name] + list(language.NAMESPACES)


def _namespaced_names() -> list[str]:
    """Modules such as ``weft.kernels``."""
    spaces = {name: _import(_NAMESPACES[name]) for name in ("block", "kernels", "random", "warp")}
    return [f"{space}.{name}" for space, module in spaces.items() for name in module.__all__]


def _public_names() -> list[str]:
    return sorted([*_MODULE_OF, *_MODULES, *_language_names(), "__version__"])


def __getattr__(name: str) -> object:
    """Import what `name` needs, once; then it is an ordinary attribute of this module."""
    if name == "__all__":
        value: object = _public_names()
    elif name in _MODULE_OF:
        value = getattr(_import(_MODULE_OF[name]), name)
    elif name in _MODULES or name in _NAMESPACES:
        value = _import(_NAMESPACES.get(name, f"weft.{name}"))
    elif name.startswith("_") and (name.endswith("__") or not name.startswith("__")):
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    else:
        value = _language_name(name)
    globals()[name] = value
    return value


def _language_name(name: str) -> object:
    language = _import("weft.language")
    try:
        return language.language_name(name)
    except AttributeError:
        known = [*_public_names(), *_namespaced_names()]
        hint = language.hint_for(name, known, known)
        message = f"module 'weft' has no attribute {name!r}"
        raise AttributeError(f"{message}; {hint}" if hint else message) from None


def __dir__() -> list[str]:
    return sorted(
        {*_public_names(), *_NAMESPACES, *(name for name in globals() if name.startswith("__"))}
    )


_warn_of_a_namesake()
