# SPDX-License-Identifier: Apache-2.0
"""One LLVM module under construction: functions, constants, library functions, metadata; the facts of its machine.

In: `Target`, filled in once per backend; operations that hold functions (kernels, the host function, the wrapper),
printed by table. Out: LLVM text. Functions request everything else they need here, where it is printed once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.debug_info import DebugInfo
from weft.codegen.llvm.types import quoted, utf8
from weft.dialects.builder import source_location
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.types.capabilities import Capabilities
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from xdsl.ir import Operation

    from weft.codegen.llvm.module_printer import Target

    LibraryEntry = Callable[["ModulePrinter"], str]
    SymbolPrinter = Callable[["ModulePrinter", Any], None]


class ModulePrinter:
    """Collects the text of one LLVM module.

    Attributes:
        target: the target machine.
        operations: printer of each operation class inside a function; a function's printer calls them.
        symbols: printer of each operation class at the top of a module.
        library_functions: printers of weft's library functions, by name.
        debug: locations, or None to leave them out.
        enable_assertions: whether `simt.assert` is printed on targets where it is off by default.
        fast_math: whether the function that is printed takes the library's forms `fast.<name>`, where it has them.
    """

    __slots__ = (
        "_declarations",
        "_functions",
        "_globals",
        "_library",
        "_strings",
        "_structs",
        "debug",
        "enable_assertions",
        "fast_math",
        "library_functions",
        "operations",
        "symbols",
        "target",
    )

    def __init__(
        self,
        target: Target,
        operations: Mapping[type[Operation], Callable[..., None]],
        symbols: Mapping[type[Operation], SymbolPrinter],
        library_functions: Mapping[str, LibraryEntry],
        debug: DebugInfo | None = None,
        enable_assertions: bool = False,
    ) -> None:
        self.target = target
        self.operations = operations
        self.symbols = symbols
        self.library_functions = library_functions
        self.debug = debug
        self.enable_assertions = enable_assertions
        self.fast_math = False
        self._functions: list[str] = []
        self._globals: list[str] = []
        self._declarations: dict[str, str] = {}
        self._strings: dict[bytes, str] = {}
        self._library: dict[str, str] = {}
        self._structs: dict[str, str] = {}

    def print_symbols(self, operations: Iterable[Operation]) -> None:
        """Prints functions by the table `symbols`."""
        for operation in operations:
            printer = self.symbols.get(type(operation))
            if printer is None:
                raise unprintable(operation, self.target)
            printer(self, operation)

    def add_function(self, text: str) -> None:
        """Adds a whole function, and a line break."""
        self._functions.append(text)

    def add_global(self, definition: str, stem: str) -> str:
        """Adds a global and returns its name, such as `@site.3`; `definition` follows ` = `."""
        name = f"@{stem}.{len(self._globals)}"
        self._globals.append(f"{name} = {definition}")
        return name

    def string(self, text: str | bytes) -> str:
        """The name of a constant that holds the text and a terminating zero; equal texts share one."""
        data = utf8(text) if isinstance(text, str) else text
        name = self._strings.get(data)
        if name is None:
            body = quoted(data + b"\0")
            name = self._strings[data] = self.add_global(
                f"private unnamed_addr constant [{len(data) + 1} x i8] c{body}", "text"
            )
        return name

    def struct(self, member: str, count: int) -> str:
        """The name of a struct of `count` equal members, which is shorter than the list of them."""
        name = f"%{member}s.{count}"
        self._structs.setdefault(name, f"{name} = type {{ {', '.join([member] * count)} }}")
        return name

    def declare(self, name: str, signature: str) -> str:
        """Declares an external function once; `signature` as in `i32 (ptr, ...)`. Returns `@name`."""
        result, _, parameters = signature.partition(" ")
        known = self._declarations.setdefault(name, f"declare {result} @{name}{parameters}")
        if known != f"declare {result} @{name}{parameters}":
            raise InternalCompilerError(
                "CODEGEN_DECLARATION", f"{name} is declared with two types", hint=REPORT_HINT
            )
        return f"@{name}"

    def declare_global(self, name: str, definition: str) -> str:
        """Declares a named global once; `definition` follows ` = `. Returns `@name`."""
        self._declarations.setdefault(name, f"@{name} = {definition}")
        return f"@{name}"

    def intrinsic(self, name: str, suffix: str = "") -> str:
        """The name of an LLVM intrinsic supported by this target.

        Raises:
            InternalCompilerError: if the target does not support it; LLVM would end the process.
        """
        if name not in self.target.intrinsics:
            raise InternalCompilerError(
                "CODEGEN_INTRINSIC",
                f"{name} is not selectable on {self.target.name}",
                hint=REPORT_HINT,
            )
        return f"@{name}{suffix}"

    def library(self, name: str) -> str:
        """The name of a function of weft's library, such as `exp.f32`, which is then printed too."""
        if name not in self._library:
            entry = self.library_functions.get(name)
            if entry is None:
                raise InternalCompilerError(
                    "CODEGEN_LIBRARY", f"weft's library has no {name}", hint=REPORT_HINT
                )
            self._library[name] = ""  # reserved meanwhile: a function may request others
            self._library[name] = entry(self)
        return f"@weft.{name}"

    def text(self) -> str:
        """The whole module."""
        parts = [
            f'target datalayout = "{self.target.data_layout}"\n'
            f'target triple = "{self.target.triple}"\n'
        ]
        if self._structs:
            parts.append("\n".join(self._structs.values()) + "\n")
        if self._globals:
            parts.append("\n".join(self._globals) + "\n")
        parts += self._functions
        parts += self._library.values()
        if self._declarations:
            parts.append("\n".join(self._declarations.values()) + "\n")
        if self.debug is not None:
            parts.append(self.debug.text())
        return "\n".join(parts)


def unprintable(operation: Operation, target: Target) -> InternalCompilerError:
    """The error for an operation that no table lists."""
    return InternalCompilerError(
        "CODEGEN_OPERATION",
        f"{operation.name} cannot be compiled for {target.name}",
        hint=REPORT_HINT,
        location=source_location(operation.location),
    )


def unprinted(operation: Operation, error: Exception) -> InternalCompilerError:
    """The error for an operation whose printer failed."""
    return InternalCompilerError(
        "INTERNAL",
        f"printing {operation.name} as LLVM failed with {type(error).__name__}: {error}",
        hint=REPORT_HINT,
        location=source_location(operation.location),
    )


# What LLVM expands inline on every machine that weft has met, GPUs and 64-bit CPUs.
COMMON_INTRINSICS: Final = frozenset(
    f"llvm.{name}"
    for name in (
        "abs ceil copysign ctlz ctpop cttz fabs floor fma fptosi.sat fptoui.sat fshl fshr maxnum minnum "
        "roundeven smax smin sqrt trunc umax umin"
    ).split()
)


@dataclass(frozen=True)
class Target:
    """A target machine of LLVM text.

    Attributes:
        name: its name for users, such as ``"sm_90a"`` or ``"cpu"``; for messages.
        triple: LLVM's target triple.
        data_layout: LLVM's data layout string.
        intrinsics: names of LLVM intrinsics that this machine selects, without their type suffix. LLVM ends
            the process on an intrinsic that it cannot select, so nothing else is printed.
        native_small_floats: LLVM may be given arithmetic and conversions of half and bfloat; otherwise they
            are done in float, with conversions in integer code where the machine has none.
        half_conversions: the machine converts between half and float itself, without a library call.
        address_spaces: LLVM's number of the spaces `global`, `shared`, `cluster`, `local` (the stack's) and
            `constant`.
        sync_scopes: LLVM's syncscope of the memory scopes `block`, `device` and `system`.
        coordinates: of a GPU, the intrinsics that read `thread_idx` and the others, without the axis.
        pointer_copy: assembly that copies a pointer into a register, if constant addresses are worth keeping in one.
        warp_size: threads that it issues together. The language's warps have 32.
        capabilities: of NVIDIA's GPUs; None for any other machine.
    """

    name: str
    triple: str
    data_layout: str
    intrinsics: frozenset[str]
    native_small_floats: bool = True
    half_conversions: bool = True
    address_spaces: dict[str, int] = field(
        default_factory=lambda: {"global": 0, "shared": 0, "cluster": 0, "local": 0, "constant": 0}
    )
    sync_scopes: dict[str, str] = field(
        default_factory=lambda: {"block": "", "device": "", "system": ""}
    )
    coordinates: dict[str, str] = field(default_factory=dict[str, str])
    pointer_copy: str = ""
    warp_size: int = WARP_SIZE
    capabilities: Capabilities | None = None

    def pointer(self, space: str) -> str:
        """LLVM's type of a pointer into an address space."""
        number = self.address_spaces[space]
        return f"ptr addrspace({number})" if number else "ptr"
