# SPDX-License-Identifier: Apache-2.0
"""The main path: a Python function in, a compiled function out. Read this file first.

In: a function of ``@weft.jit``, example arguments or a signature, options. Out: a callable over a code image.
Each line of `compile_function` is a stage; its import names the package.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Final

from weft.backends.base import Job
from weft.backends.host import away_from_signals
from weft.codegen.llvm.optimize import load_object
from weft.codegen.operations.host_function import scratch_arrays
from weft.compiler.artifacts import Artifacts
from weft.compiler.cached import Stored
from weft.compiler.call_plan import Calling, make_call_plan, requested_signature
from weft.compiler.defects import deep_recursion, explained, reported
from weft.compiler.logs import show_logs
from weft.compiler.module_text import Hooks, module_text, parse_module, placed_lines
from weft.compiler.options import CompileOptions
from weft.compiler.target_choice import choose_target
from weft.config import config
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.ffi_wrapper import attach_ffi_wrapper
from weft.frontend.source import read_source
from weft.frontend.trace import trace, trace_into
from weft.passes.arguments import (
    add_scratch_arguments,
    find_written_arguments,
    use_restrictions,
    written_arguments,
)
from weft.passes.arithmetic import fuse_multiply_adds, split_addresses
from weft.passes.blocks import find_block_sizes, lay_out_shared_memory
from weft.passes.check_accesses import check_accesses, skip_bad_accesses, trace_accesses
from weft.passes.check_arithmetic import ARITHMETIC, check_arithmetic
from weft.passes.check_fragments import check_fragments
from weft.passes.expand_profiler_events import expand_profiler_events
from weft.passes.instrument_memory import instrument_memory
from weft.passes.loads import hoist_loads, keep_spin_loads
from weft.passes.map_each import map_each
from weft.passes.remove_unused import remove_unused_operations, remove_unused_parameters
from weft.runtime.code_image import choose_executor, link
from weft.runtime.compiled_function import CallTimes, CompiledDetails, make_compiled_function
from weft.types.device import CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute

    from weft.arguments.signature import Signature
    from weft.backends.base import Backend
    from weft.compiler.module_text import PostCompileHook
    from weft.frontend.source import FunctionSource
    from weft.frontend.trace import TracedModule
    from weft.language.functions import HostFunction


_log = logging.getLogger("weft")


def compile_function(
    function: HostFunction,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    options: CompileOptions,
    hooks: Sequence[PostCompileHook] = (),
    is_call: bool = False,
    keep: Callable[[TracedModule, Stored], None] | None = None,
) -> Any:
    """Compiles a host function and the kernels that it launches.

    Args:
        function: made by ``@weft.jit``.
        arguments, keywords: example values, fakes or stand-ins, one per parameter; or one `Signature`, from
            ``fn.signature``.
        options: see `weft.compiler.options`.
        hooks: called in order with the module after the passes, which is verified after them.
        is_call: whether the arguments are a direct call's, not examples.
        keep: called with the parts that a cache can keep.
    Raises:
        CompileError: if the function cannot be compiled; with the place in its source.
        SignatureError: if no signature can be made from the arguments.
        ToolchainError: if an assembler is missing or failed.
    """
    show_logs()
    source = read_source(function)
    artifacts = Artifacts(source.name, options)
    with artifacts.stage("signature"), reported("the signature", source):
        signature = requested_signature(source, arguments, keywords, is_call)
        backend, architecture = choose_target(signature, options, is_call)
        signature = signature.for_device(backend.device_type)
    edits = Hooks(hooks)
    with explained(source, arguments, keywords):
        traced = lower(source, signature, backend, artifacts, edits, architecture)
    with deep_recursion(), edits.blamed(), reported(f"the target {backend.name}", source):
        code = away_from_signals(
            lambda: backend.compile(Job(traced.module, architecture, options, artifacts))
        )
    artifacts.write("object", code.host_object)
    artifacts.offer(("sass",), lambda kept: {"sass": backend.disassemble(kept)})
    artifacts.finish(backend.name if code.kernels else None)
    with artifacts.stage("load host code"):
        executor, reason = choose_executor(options.executor, options.enable_tvm_ffi)
        debuggable = options.generate_line_info and backend.runs_on_host
        load = functools.partial(load_object, debuggable=debuggable)
        with edits.blamed(), reported("linking", source):
            image = away_from_signals(lambda: link(code, load, executor.load_policy))
    _log.info("%s: executor %s, because of %s", source.name, executor.name, reason)
    scratch, calling = scratch_arrays(traced.module), _calling(signature, traced)
    if keep is not None:
        keep(traced, Stored(code, scratch, *calling, artifacts.modules, artifacts.kept()))
    if timed := options.time or config.time:
        artifacts.print_report()
    return make_compiled_function(
        CompiledDetails(
            image=image,
            plan=make_call_plan(signature, *calling),
            calling=calling,
            signature=signature,
            target=(backend.name, code.architecture),
            executor=executor,
            captured=traced.captured,
            inspection=artifacts,
            remarks=code.remarks,
            scratch=scratch,
            times=CallTimes(source.name, image) if timed else None,
            documentation=source.function.__doc__,
            module=source.function.__module__,
        )
    )


def _calling(signature: Signature, traced: TracedModule) -> Calling:
    """The arguments that kernels write to, and how results are returned."""
    paths = [argument.path for argument in signature.host_arguments()]
    written = tuple(paths[index] for index in written_arguments(traced.module))
    return Calling(written, traced.returns_objects, traced.restored_result, traced.returns_new)


@deep_recursion()
def lower(
    source: FunctionSource,
    signature: Signature,
    backend: Backend,
    artifacts: Artifacts,
    hooks: Hooks | None = None,
    architecture: str = "",
) -> TracedModule:
    """The machine-independent part of the path: trace, passes, wrapper, hooks.

    Out: a module with the kernels, the host function and its TVM-FFI wrapper, ready for a backend.
    """
    hooked = hooks is not None and bool(hooks.functions)
    verified = hooked or artifacts.options.verify
    passes = _passes_of(signature, artifacts.options)
    artifacts.modules = ("trace", *passes)
    with artifacts.stage("trace"):
        checks = artifacts.options.sanitize.split(",")
        traced = trace(
            source,
            signature,
            architecture=architecture or backend.default_architecture or backend.name,
            marks_signed="overflow" in checks,
            tells_events="trace" in checks,
            undefines_reused=_undefines_reused(artifacts.options),
        )
    module = traced.module
    with artifacts.stage("keep IR"):
        artifacts.record("trace", module_text(module))
    if verified:
        _verify(module, "trace")
    for name, change in passes.items():
        with artifacts.stage(name), reported(f"the pass {name}", source):
            change(module)
        if verified:
            _verify(module, name)
        if artifacts.writes(name):
            artifacts.record(name, module_text(module))
    if hooks is not None:
        hooks.run(module)
    if hooked or artifacts.writes("ir"):
        artifacts.record("ir", module_text(module))
    artifacts.offer((*passes, "ir"), functools.partial(lower_again, signature))
    return traced


def _passes_of(signature: Signature, options: CompileOptions) -> dict[str, Any]:
    return passes_for(signature, options.fp_contract == "on", options.sanitize)


_NUMBERS: Final = frozenset(ARITHMETIC)
# Checks for which a kernel's own code is enough.
_IN_CODE: Final = _NUMBERS | {"bounds"}


def passes_for(
    signature: Signature, fp_contract: bool = True, sanitize: str = ""
) -> dict[str, Callable[[ModuleOp], object]]:
    """The passes over a traced module, by name and in order; `weft.passes` has a file for each except the wrapper.

    A row binds a pass's other arguments. map_each chooses grids, which recorders count; expand_profiler_events traces
    these, and remove_unused_operations removes what traces leave over, so that no other counts it.
    """
    on_host = getattr(signature, "device_type", None) == CPU
    checks = set(sanitize.split(",")) - {""}
    rows: tuple[Any, ...] = (
        # First, so that it sees indices as users wrote them, and no access of weft's own.
        *((functools.partial(check_arithmetic, checks=sanitize),) if checks & _NUMBERS else ()),
        *((check_accesses,) if "bounds" in checks else ()),
        *((skip_bad_accesses,) if checks and not on_host else ()),
        *((functools.partial(instrument_memory, checks=sanitize),) if checks - _IN_CODE else ()),
        *((trace_accesses,) if "trace" in checks else ()),
        functools.partial(map_each, on_host=on_host),
        functools.partial(expand_profiler_events, inline=trace_into),
        check_fragments,
        remove_unused_operations,
        find_block_sizes,
        add_scratch_arguments,
        find_written_arguments,
        keep_spin_loads,  # before loads move: volatile ones stay
        functools.partial(hoist_loads, on_host=on_host),
        lay_out_shared_memory,
        # Rewrites of arithmetic and addresses stand before this: what they leave unused is not passed.
        functools.partial(fuse_multiply_adds, by_default=fp_contract),
        functools.partial(split_addresses, on_host=on_host),
        use_restrictions,  # of addresses as they are now
        remove_unused_parameters,
        functools.partial(attach_ffi_wrapper, signature=signature),
    )
    return {getattr(row, "func", row).__name__: row for row in rows}


def _undefines_reused(options: CompileOptions) -> bool:
    """Whether elements in reused memory begin with all bits set: not where a check reports that they are unwritten."""
    return not {"trace", "uninit", "all"} & set(options.sanitize.split(","))


@deep_recursion()
def lower_again(signature: Signature, artifacts: Artifacts) -> dict[str, str]:
    """The module's text after each change, recomputed on demand from its trace."""
    module = parse_module(artifacts.text("trace") or "")
    texts: dict[str, str] = {}
    passes = _passes_of(signature, artifacts.options)
    for name, change in passes.items():
        change(module)
        texts[name] = texts["ir"] = module_text(module)
    return texts


@deep_recursion()
def placed_stages(
    source: FunctionSource, signature: Signature, options: CompileOptions, architecture: str
) -> dict[str, list[tuple[str, Attribute | None]]]:
    """The lines of the module after its trace and after each pass, with the locations that the texts leave out.

    In: a function that has been compiled for this signature and architecture, with these options.
    """
    undefines = _undefines_reused(options)
    module = trace(source, signature, architecture=architecture, undefines_reused=undefines).module
    stages = {"trace": placed_lines(module)}
    for name, change in _passes_of(signature, options).items():
        change(module)
        stages[name] = placed_lines(module)
    return stages


def _verify(module: ModuleOp, last: str) -> None:
    try:
        module.verify()
    except Exception as error:
        raise InternalCompilerError(
            "INVALID_IR", f"the module is invalid after {last}: {error}", hint=REPORT_HINT
        ) from error
