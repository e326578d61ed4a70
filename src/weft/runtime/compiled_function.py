# SPDX-License-Identifier: Apache-2.0
"""The result of `compile`: a native callable and its attributes.

In: a code image, a signature, an executor, what inspection needs. Out: a `_native.Function` with the attributes of
`CompiledDetails`. Calls never run code of this file. Captured values are its guards, compared at each direct call, most
at once, by identity, in C. The time of the first call, which loads its kernels, is a table on standard error, in the
form of the compiler's own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from weft import _native
from weft.driver.device import current_device, device_count, ordinal_of
from weft.errors import CudaError, brief
from weft.imports import imported
from weft.runtime.code_image import ENTRY_PREFIX
from weft.tracebacks import one_frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.runtime.code_image import Executor, KernelInfo, Remark, ScratchInfo


class InspectionProtocol(Protocol):
    """The compiler's access to a function's texts; see weft.compiler.artifacts."""

    def text(self, stage: str) -> str | None:
        """A stage's text."""
        ...

    def data(self, stage: str) -> bytes | None:
        """A stage's bytes."""
        ...

    def module_texts(self) -> Mapping[str, str]:
        """The module's text after each pass."""
        ...


class Engine:
    """The linked code: ``fn.engine.lookup("__tvm_ffi_add_one")`` gives an address for C.

    The address is valid as long as the function, or anything made from it, lives.
    """

    def __init__(self, image: _native.CodeImage) -> None:
        self._image = image

    def lookup(self, symbol: str) -> int:
        """The address of an exported symbol.

        Raises:
            KeyError: if the image exports no such symbol; the message lists its exports.
            TypeError: if it is not a string.
        """
        if not isinstance(symbol, str):
            raise TypeError(f"lookup() takes a symbol's name, received {brief(symbol)}")
        return self._image.lookup(symbol)


_INTERNAL: Final = frozenset(
    (
        *("calling", "captured", "constant_positions", "documentation", "image", "inspection"),
        *("module", "plan", "times"),
    )
)


class CompiledDetails:
    """The attributes of a compiled function, available without any ``--keep`` option.

    Attributes:
        name: the host function's name.
        signature: of the compiled function; accepted by `weft.compile` as its only argument.
        target: the backend's name.
        architecture: of the kernels, such as ``"sm_90a"``; empty on the CPU.
        calling: what `plan` was made of, beside the signature.
        inspection: the texts of the stages.
        plan: how calls marshal their arguments.
        executor: how kernels are loaded; its `name` is one of those of ``--executor``.
        image: the native code image; holds code, state and libraries.
        captured: compiled-in globals and closure constants.
        remarks: how each kernel was compiled, the assembler's warnings, spills and arrays in local memory.
        scratch: each `weft.scratch` of the host function, with the known part of its size.
        times: prints the times of loading and of the first launch, or None.
        constant_positions: positions of ``Constexpr`` parameters, which calls do not pass.
        documentation, module: ``fn.__doc__`` and ``fn.__module__``, those of the host function.
    """

    # A `__dict__` would be the function's, too.
    __slots__ = (
        "architecture",
        "calling",
        "captured",
        "constant_positions",
        "documentation",
        "executor",
        "image",
        "inspection",
        "module",
        "name",
        "plan",
        "remarks",
        "scratch",
        "signature",
        "target",
        "times",
    )

    def __init__(
        self,
        image: _native.CodeImage,
        plan: _native.CallPlan,
        calling: Any,
        signature: Any,
        target: tuple[str, str],
        executor: Executor,
        captured: Sequence[Captured],
        inspection: InspectionProtocol,
        remarks: Sequence[Remark] = (),
        scratch: Sequence[ScratchInfo] = (),
        times: CallTimes | None = None,
        documentation: str | None = None,
        module: str | None = None,
    ) -> None:
        self.image = image
        self.plan = plan
        self.calling = calling
        self.target, self.architecture = target
        self.signature = signature
        self.name: str = signature.name
        self.executor = executor
        self.captured = grouped(captured)
        self.constant_positions: tuple[int, ...] = signature.constant_positions
        self.remarks = tuple(remarks)
        self.scratch = tuple(scratch)
        self.times = times
        self.documentation = documentation
        self.module = module
        self.inspection = inspection

    def __dir__(self) -> list[str]:
        """The public attributes; the package's own are left out."""
        names = super().__dir__()
        return [name for name in names if not name.startswith("_") and name not in _INTERNAL]

    @property
    def __signature__(self) -> Any:
        """For `inspect.signature`: parameters of a call, each with kind and default.

        Example:
            >>> import inspect
            >>> inspect.signature(fn)
            <Signature (a: Tensor[f32, (n,)], b: Tensor[f32, (n,)])>
        """
        from inspect import Parameter, Signature

        return Signature(
            [
                Parameter(
                    p.name,
                    Parameter.KEYWORD_ONLY
                    if p.keyword_only
                    else Parameter.POSITIONAL_ONLY
                    if p.positional_only
                    else Parameter.POSITIONAL_OR_KEYWORD,
                    default=self.plan.defaults.get(p.name, Parameter.empty),
                    annotation=p.kind,
                )
                for p in self.signature.passed
            ]
        )

    @property
    def kernels(self) -> Mapping[str, KernelInfo]:
        """Name → registers, spills, shared memory and other resources of each kernel.

        Example:
            >>> fn.kernels['add_kernel'].max_threads
            1024
            >>> gpu.kernels['add_kernel'].registers > 0
            True
        """
        return {kernel.name: kernel for kernel in self.image.kernels}

    @property
    def engine(self) -> Engine:
        """The linked code, for looking up symbols.

        Example:
            >>> fn.engine.lookup('__tvm_ffi_add') > 0
            True
        """
        return Engine(self.image)

    @property
    def ir_module(self) -> str:
        """The module of kernels, host function and wrapper; ``.generic()`` gives MLIR's generic form.

        Example:
            >>> 'simt.kernel @add_kernel' in fn.ir_module
            True
        """
        return self.inspection.text("ir") or ""

    @property
    def stages(self) -> Mapping[str, str]:
        """The module after each pass, by the pass's name and in order, beginning with ``"trace"``.

        ``fn.ir_module`` is the last, as post-compile hooks left it. The texts are made on request from that of the
        trace.

        Example:
            >>> list(fn.stages)[:2], list(fn.stages)[-1]
            (['trace', 'map_each'], 'attach_ffi_wrapper')
            >>> fn.stages['attach_ffi_wrapper'] == fn.ir_module
            True
        """
        return self.inspection.module_texts()

    @property
    def llvm_ir(self) -> str | None:
        """The LLVM text of the kernels, and of the host function if they share a module.

        Example:
            >>> 'define' in fn.llvm_ir
            True
        """
        return self.inspection.text("llvm")

    @property
    def host_llvm_ir(self) -> str | None:
        """The LLVM text of the host function and its wrapper.

        Example:
            >>> '@__tvm_ffi_add(' in fn.host_llvm_ir
            True
        """
        return self.inspection.text("llvm-host") or self.inspection.text("llvm")

    @property
    def ptx(self) -> str | None:
        """The PTX text, or None on a target without PTX.

        Example:
            >>> fn.ptx is None, '.visible .entry add_kernel' in gpu.ptx
            (True, True)
        """
        return self.inspection.text("ptx")

    @property
    def cubin(self) -> bytes | None:
        """The cubin, or None on a target without cubins.

        Raises:
            ToolchainError: if no assembler for the architecture is installed.

        Example:
            >>> gpu.cubin[1:4]
            b'ELF'
        """
        return self.inspection.data("cubin")

    @property
    def sass(self) -> str | None:
        """The disassembled cubin, or None on a target without cubins.

        Raises:
            ToolchainError: if nvdisasm, or an assembler for the architecture, is not installed.

        Example:
            >>> 'EXIT' in gpu.sass
            True
        """
        return self.inspection.text("sass")

    @property
    def device(self) -> int | None:
        """The device that ``.to(device)`` bound the function to; None: it follows its arguments.

        Example:
            >>> fn.device, fn.to(0).device
            (None, 0)
        """
        return self.image.bound_device

    @one_frame("to")
    def to(self, device: object = None) -> _native.Function:
        """The same code, bound to one device: tensors on other devices are refused.

        Args:
            device: an ordinal, ``"cuda:1"``, or a device object; None: the current device.

        Raises:
            TypeError: it names no device.
            ValueError: it names a non-CUDA device, is negative, or there is no such device here. Where there is no
                driver, any ordinal is taken.

        Example:
            >>> fn.to(0)(a, b)
        """
        image = self.image.bind(self._ordinal(device))
        times = None if self.times is None else CallTimes(self.name, image)
        bound = object.__new__(CompiledDetails)
        for name in self.__slots__:
            setattr(bound, name, getattr(self, name))
        bound.image, bound.times = image, times
        return make_compiled_function(bound)

    @one_frame("preload")
    def preload(self, device: object = None) -> Mapping[str, int]:
        """Load the kernels on a device now, so that calls need not: under graph capture they cannot.

        Args:
            device: an ordinal, ``"cuda:1"``, or a device object; None: the current device.

        Returns:
            Kernel name → CUkernel or CUfunction handle, by executor; empty on the CPU. The function owns them.

        Raises:
            weft.CudaError: there is no usable driver, or it refuses the code.
            TypeError: it names no device.
            ValueError: there is no such device.

        Example:
            >>> fn.preload(0)  # on the CPU there is nothing to load
            {}
        """
        handles = self.image.preload(self._ordinal(device))
        if self.times is not None:
            self.times.preloaded()
        return handles

    @one_frame("code_handle")
    def code_handle(self, device: object = None) -> int | None:
        """The handle of the code on a device, loaded now if it is not: for other tools.

        Args:
            device: an ordinal, ``"cuda:1"``, or a device object; None: the current device.

        Returns:
            A CUmodule of the context executor, a CUlibrary of the others, which the function owns; None on the CPU.

        Raises:
            weft.CudaError, TypeError, ValueError: as for `preload`.

        Example:
            >>> fn.code_handle() is None  # on the CPU
            True
        """
        return self.image.code_handle(self._ordinal(device))

    def _ordinal(self, device: object) -> int:
        """The device's ordinal: one that is here, if its functions are for a GPU and there is a driver."""
        ordinal = None if device is None else ordinal_of(device)
        if self.target == "cpu":
            return ordinal or 0
        try:
            count = device_count()
        except CudaError:
            return ordinal or 0
        if ordinal is None:
            return current_device()
        if ordinal >= count:
            devices = f"{count} device{'s' * (count > 1)}"
            raise ValueError(f"there is no device cuda:{ordinal}; the driver sees {devices}")
        return ordinal

    @one_frame("export")
    def export(self, path: Any, *, gpu_arch: Any = None, cpu: str | None = None) -> Any:
        """Writes the function into a file for other programs; `weft.export` does so for several, and explains it.

        Args:
            path: of the file; its suffix selects the kind.
            gpu_arch: architectures, for one file with code for each; None for that of the function.
            cpu: which CPUs run it.

        Raises:
            ExportError: the function cannot be written so.
            ToolchainError: a compiler, linker or assembler is missing, or fails.

        Example:
            >>> fn.export("add.so")
            (PosixPath('add.so'), PosixPath('add.h'))
        """
        return _exported("files").write_functions([self], path, gpu_arch, cpu)

    def _reduced(self) -> tuple[Any, ...]:
        """Pickles the function: its machine code, and the texts to compile it for another CPU."""
        return _exported("files").reduced(self)

    @one_frame("as_tvm_ffi")
    def as_tvm_ffi(self) -> Any:
        """A ``tvm_ffi.Function`` over the same image, which it keeps alive; imports `tvm_ffi`.

        Raises:
            ImportError: if the package is not installed.

        Example:
            >>> fn.as_tvm_ffi()(a, b)
        """
        import_module("tvm_ffi")  # by name: running a function does not require the package
        return make_compiled_function(self).__tvm_ffi_object__()


def _exported(module: str) -> Any:
    """A module of the compiler, by name: running a function requires none of it."""
    return imported(f"weft.compiler.exported.{module}")


def make_compiled_function(details: CompiledDetails) -> _native.Function:
    """The callable for these details; it owns them, and they own the image."""
    image = details.image
    function = _native.Function.from_address(
        image.lookup(ENTRY_PREFIX + details.name), image.state, image, details.plan, details
    )
    if details.times is not None:
        function.report_first_call(details.times.called)
    return function


def times_table(heading: str, rows: Sequence[tuple[str, float]]) -> str:
    """Names and milliseconds, one row each under a heading.

    Example:
        >>> print(times_table("add_one: stages", [("trace", 1.25)]))
        weft: add_one: stages, in milliseconds
          trace      1.25
    """
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"weft: {heading}, in milliseconds"]
    lines += [f"  {name:<{width}}  {milliseconds:8.2f}" for name, milliseconds in rows]
    return "\n".join(lines)


class CallTimes:
    """Prints the times of loading and of a function's first launch; made for ``--time`` and WEFT_TIME only.

    Args:
        name: the function's.
        image: its code, which knows its loading time on each device.
    """

    def __init__(self, name: str, image: _native.CodeImage) -> None:
        self._name = name
        self._image = image
        self._told: set[int] = set(image.load_times)

    def _loads(self) -> list[tuple[str, float]]:
        """Devices that the code was loaded on since the last call."""
        new = {d: s for d, s in self._image.load_times.items() if d not in self._told}
        self._told |= new.keys()
        return [(f"load on cuda:{device}", seconds * 1e3) for device, seconds in new.items()]

    def preloaded(self) -> None:
        """Prints the time of a preload, if it loaded anything."""
        if loads := self._loads():
            print(times_table(f"{self._name}: preload", loads), file=sys.stderr)

    def called(self, seconds: float) -> None:
        """Prints the parts of the first call: the launch is the time not spent loading."""
        loads = self._loads()
        launch = seconds * 1e3 - sum(milliseconds for _, milliseconds in loads)
        rows = [*loads, ("first launch", launch)]
        print(times_table(f"{self._name}: first call", rows), file=sys.stderr)


class Captured(Protocol):
    """A global or closure constant that a compilation read."""

    @property
    def places(self) -> tuple[Any, ...]:
        """Places that were read; it is current if each still holds the same object. May be empty."""
        ...

    def is_current(self) -> bool:
        """Whether the name still has the same value."""
        ...


class Places:
    """Many captured values, compared at once by identity and, if one differs, one by one.

    Args:
        values: each with its places.

    Attributes:
        guards: say whether each place holds the same object still, mostly from a few versions.
    """

    __slots__ = ("_values", "guards", "places")

    def __init__(self, values: Sequence[Captured]) -> None:
        self._values = values
        self.places = tuple(place for value in values for place in value.places)
        self.guards = _native.Guards(self.places)

    def is_current(self) -> bool:
        """Whether all of them are."""
        return self.guards.is_current() or all(v.is_current() for v in self._values)


def grouped(values: Sequence[Captured]) -> tuple[Captured, ...]:
    """The same values, those with places as one."""
    placed = [value for value in values if value.places]
    others = [value for value in values if not value.places]
    return (Places(placed), *others) if placed else tuple(others)
