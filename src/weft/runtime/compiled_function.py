# SPDX-License-Identifier: Apache-2.0
"""What `compile` returns: a native callable, and everything that can be asked of it.

In: a code image, a signature, an executor, what inspection needs. Out: a `_native.Function` whose attributes
are those of `CompiledDetails`. Calls never come through this file. Next: code_image, executor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from weft import _native

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.runtime.executor.base import Executor
    from weft.runtime.object_code import KernelInfo
    from weft.runtime.specialisations import Captured

ENTRY_PREFIX = "__tvm_ffi_"


class InspectionProtocol(Protocol):
    """What the compiler hands in so that texts can be asked for; see weft.compiler.inspection."""

    def ir_module(self) -> str:
        """The module before lowering."""
        ...

    def text(self, stage: str) -> str | None:
        """A stage's text."""
        ...

    def data(self, stage: str) -> bytes | None:
        """A stage's bytes."""
        ...

    def sass(self) -> str | None:
        """The disassembled cubin."""
        ...


class SignatureProtocol(Protocol):
    """What a signature must tell to make a callable of an image; see weft.arguments.signature."""

    name: str
    text: str

    def call_plan(self, written: frozenset[str], returns_objects: bool) -> Any:
        """The marshaller's plan: names, defaults, masks."""
        ...


class Engine:
    """The linked code: ``fn.engine.lookup("__tvm_ffi_add_one")`` gives an address for C.

    The address is good as long as the function, or anything made from it, lives.
    """

    __slots__ = ("_image",)

    def __init__(self, image: _native.CodeImage) -> None:
        self._image = image

    def lookup(self, symbol: str) -> int:
        """The address of an exported symbol.

        Raises:
            KeyError: if the image exports no such symbol; the message lists what it does.
        """
        return self._image.lookup(symbol)


class CompiledDetails:
    """The attributes of a compiled function. They work without any ``--keep`` option.

    Attributes:
        name: the host function's name.
        signature: what was compiled for; `weft.compile` takes it as its only argument.
        executor: the load policy, an object with a `name`.
        image: the native code image; holds code, state and libraries.
        captured: globals and closure constants that were compiled in.
        constant_positions: positions of ``Constexpr`` parameters, which calls do not pass.
    """

    __slots__ = (
        "_inspection",
        "captured",
        "constant_positions",
        "executor",
        "image",
        "name",
        "signature",
        "written_arguments",
    )

    def __init__(
        self,
        image: _native.CodeImage,
        signature: Any,
        executor: Executor,
        written_arguments: frozenset[str],
        captured: Sequence[Captured],
        inspection: InspectionProtocol,
    ) -> None:
        self.image = image
        self.signature = signature
        self.name: str = signature.name
        self.executor = executor
        self.written_arguments = written_arguments
        self.captured = tuple(captured)
        self.constant_positions: tuple[int, ...] = signature.constant_positions
        self._inspection = inspection

    @property
    def kernels(self) -> Mapping[str, KernelInfo]:
        """Name → registers, spills, shared memory and other resources of each kernel."""
        return {kernel.name: kernel for kernel in self.image.kernels}

    @property
    def engine(self) -> Engine:
        """The linked code, for looking up symbols."""
        return Engine(self.image)

    @property
    def ir_module(self) -> str:
        """The module of kernels, host function and wrapper; ``.generic()`` gives MLIR's generic form."""
        return self._inspection.ir_module()

    @property
    def llvm_ir(self) -> str | None:
        """The LLVM text of the kernels, and of the host function where they are one module."""
        return self._inspection.text("llvm")

    @property
    def host_llvm_ir(self) -> str | None:
        """The LLVM text of the host function and its wrapper."""
        return self._inspection.text("llvm-host") or self._inspection.text("llvm")

    @property
    def ptx(self) -> str | None:
        """The PTX text, or None on a target that has none."""
        return self._inspection.text("ptx")

    @property
    def cubin(self) -> bytes | None:
        """The cubin, or None on a target that has none."""
        return self._inspection.data("cubin")

    @property
    def sass(self) -> str | None:
        """The disassembled cubin, or None on a target that has none.

        Raises:
            ToolchainError: if nvdisasm is not installed.
        """
        return self._inspection.sass()
