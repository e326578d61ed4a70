# SPDX-License-Identifier: Apache-2.0
"""Type stubs of weft: the names that __init__.py resolves on demand."""

from typing import Annotated, Any, TypeAlias, TypeVar

from weft import cache as cache
from weft import config as config
from weft import driver as driver
from weft import ffi as ffi
from weft import hf as hf
from weft import jax as jax
from weft import kernels as kernels
from weft import nn as nn
from weft import profiler as profiler
from weft import testing as testing
from weft import torch as torch
from weft.annotation_names import bf16 as bf16
from weft.annotation_names import bool_ as bool_
from weft.annotation_names import c64 as c64
from weft.annotation_names import c128 as c128
from weft.annotation_names import f4e2m1 as f4e2m1
from weft.annotation_names import f6e2m3 as f6e2m3
from weft.annotation_names import f6e3m2 as f6e3m2
from weft.annotation_names import f8e4m3 as f8e4m3
from weft.annotation_names import f8e5m2 as f8e5m2
from weft.annotation_names import f8e8m0 as f8e8m0
from weft.annotation_names import f16 as f16
from weft.annotation_names import f32 as f32
from weft.annotation_names import f64 as f64
from weft.annotation_names import i4 as i4
from weft.annotation_names import i8 as i8
from weft.annotation_names import i16 as i16
from weft.annotation_names import i32 as i32
from weft.annotation_names import i64 as i64
from weft.annotation_names import u4 as u4
from weft.annotation_names import u8 as u8
from weft.annotation_names import u16 as u16
from weft.annotation_names import u32 as u32
from weft.annotation_names import u64 as u64
from weft.api import compile as compile
from weft.api import device as device
from weft.api import jit as jit
from weft.api import kernel as kernel
from weft.arguments.packed import pack as pack
from weft.arguments.packed import unpack as unpack
from weft.arguments.pointer import Pointer as Pointer
from weft.arguments.registered import register_argument as register_argument
from weft.arguments.shape import Shape as Shape
from weft.arguments.stream import Stream as Stream
from weft.arguments.stream import environment_stream as environment_stream
from weft.arguments.tensor_spec import fake_tensor as fake_tensor
from weft.autotuner.decorator import autotune as autotune
from weft.compiler.exported.files import export as export
from weft.compiler.exported.linking import runtime_archive as runtime_archive
from weft.compiler.exported.load import load as load
from weft.compiler.options import CompileOption as CompileOption
from weft.compiler.options import CompileTarget as CompileTarget
from weft.compiler.options import DumpDir as DumpDir
from weft.compiler.options import EnableAssertions as EnableAssertions
from weft.compiler.options import EnableTVMFFI as EnableTVMFFI
from weft.compiler.options import FPContract as FPContract
from weft.compiler.options import GenerateLineInfo as GenerateLineInfo
from weft.compiler.options import GPUArch as GPUArch
from weft.compiler.options import KeepCUBIN as KeepCUBIN
from weft.compiler.options import KeepIR as KeepIR
from weft.compiler.options import KeepLLVM as KeepLLVM
from weft.compiler.options import KeepPTX as KeepPTX
from weft.compiler.options import KeepSASS as KeepSASS
from weft.compiler.options import MathFunctions as MathFunctions
from weft.compiler.options import NoCache as NoCache
from weft.compiler.options import OptLevel as OptLevel
from weft.compiler.options import PtxasOptions as PtxasOptions
from weft.compiler.options import Sanitize as Sanitize
from weft.compiler.options import TimeStages as TimeStages
from weft.compiler.options import UseExecutor as UseExecutor
from weft.compiler.options import VerifyIR as VerifyIR
from weft.driver.device import synchronize as synchronize
from weft.driver.memory import copy as copy
from weft.driver.memory import empty as empty
from weft.driver.memory import full as full
from weft.driver.memory import set_allocator as set_allocator
from weft.driver.memory import set_profile_allocator as set_profile_allocator
from weft.driver.memory import zeros as zeros
from weft.errors import ArgumentValueError as ArgumentValueError
from weft.errors import CompileError as CompileError
from weft.errors import CudaError as CudaError
from weft.errors import ExportError as ExportError
from weft.errors import InternalCompilerError as InternalCompilerError
from weft.errors import NameResolutionError as NameResolutionError
from weft.errors import OptionError as OptionError
from weft.errors import SignatureError as SignatureError
from weft.errors import ToolchainError as ToolchainError
from weft.errors import TuningError as TuningError
from weft.errors import TypeMismatchError as TypeMismatchError
from weft.errors import UnavailableError as UnavailableError
from weft.errors import UnsupportedSyntaxError as UnsupportedSyntaxError
from weft.errors import ValueRangeError as ValueRangeError
from weft.errors import WeftError as WeftError
from weft.language.asynchronous.cluster import cluster_rank as cluster_rank
from weft.language.asynchronous.cluster import cluster_shape as cluster_shape
from weft.language.asynchronous.cluster import map_shared as map_shared
from weft.language.asynchronous.cluster import sync_cluster as sync_cluster
from weft.language.asynchronous.mbarrier import PipelineState as PipelineState
from weft.language.asynchronous.mbarrier import mbarrier as mbarrier
from weft.language.asynchronous.mbarrier import st_async as st_async
from weft.language.asynchronous.tensor_map import im2col_map as im2col_map
from weft.language.asynchronous.tensor_map import tensor_map as tensor_map
from weft.language.asynchronous.tma import bulk_copy as bulk_copy
from weft.language.asynchronous.tma import bulk_reduce as bulk_reduce
from weft.language.asynchronous.tma import fence_proxy as fence_proxy
from weft.language.control import ceil_div as ceil_div
from weft.language.control import static as static
from weft.language.control import static_assert as static_assert
from weft.language.control import static_range as static_range
from weft.language.control import unroll as unroll
from weft.language.control import where as where
from weft.language.debug import assume as assume
from weft.language.debug import printf as printf
from weft.language.memory.arrays import dynamic_shared as dynamic_shared
from weft.language.memory.arrays import global_scratch as global_scratch
from weft.language.memory.arrays import local as local
from weft.language.memory.arrays import scratch as scratch
from weft.language.memory.arrays import shared as shared
from weft.language.memory.atomics import atomic_add as atomic_add
from weft.language.memory.atomics import atomic_and as atomic_and
from weft.language.memory.atomics import atomic_cas as atomic_cas
from weft.language.memory.atomics import atomic_exchange as atomic_exchange
from weft.language.memory.atomics import atomic_load as atomic_load
from weft.language.memory.atomics import atomic_max as atomic_max
from weft.language.memory.atomics import atomic_min as atomic_min
from weft.language.memory.atomics import atomic_or as atomic_or
from weft.language.memory.atomics import atomic_store as atomic_store
from weft.language.memory.atomics import atomic_sub as atomic_sub
from weft.language.memory.atomics import atomic_xor as atomic_xor
from weft.language.memory.atomics import red_add as red_add
from weft.language.memory.atomics import volatile_load as volatile_load
from weft.language.memory.atomics import volatile_store as volatile_store
from weft.language.memory.packed import packed as packed
from weft.language.memory.vectors import load_element as load_element
from weft.language.memory.vectors import load_vector as load_vector
from weft.language.memory.vectors import prefetch as prefetch
from weft.language.memory.vectors import store_element as store_element
from weft.language.memory.vectors import store_vector as store_vector
from weft.language.memory.views import assume_aligned as assume_aligned
from weft.language.numbers.complex import complex as complex
from weft.language.numbers.convert import bitcast as bitcast
from weft.language.numbers.words import dp4a as dp4a
from weft.language.numbers.words import lop3 as lop3
from weft.language.numbers.words import prmt as prmt
from weft.language.target import inline_ptx as inline_ptx
from weft.language.target import target as target
from weft.language.threads.barrier import fence_block as fence_block
from weft.language.threads.barrier import fence_device as fence_device
from weft.language.threads.barrier import fence_system as fence_system
from weft.language.threads.barrier import named_barrier as named_barrier
from weft.language.threads.barrier import sync_grid as sync_grid
from weft.language.threads.barrier import sync_threads as sync_threads
from weft.language.threads.barrier import sync_threads_and as sync_threads_and
from weft.language.threads.barrier import sync_threads_count as sync_threads_count
from weft.language.threads.barrier import sync_threads_or as sync_threads_or
from weft.language.threads.barrier import sync_warp as sync_warp
from weft.language.threads.each import each as each
from weft.language.threads.grid import block_dim as block_dim
from weft.language.threads.grid import block_idx as block_idx
from weft.language.threads.grid import clock32 as clock32
from weft.language.threads.grid import clock64 as clock64
from weft.language.threads.grid import globaltimer as globaltimer
from weft.language.threads.grid import grid as grid
from weft.language.threads.grid import grid_dependency_launch as grid_dependency_launch
from weft.language.threads.grid import grid_dependency_wait as grid_dependency_wait
from weft.language.threads.grid import grid_dim as grid_dim
from weft.language.threads.grid import multiprocessors as multiprocessors
from weft.language.threads.grid import nanosleep as nanosleep
from weft.language.threads.grid import sm_id as sm_id
from weft.language.threads.grid import thread_idx as thread_idx
from weft.language.threads.warp import ballot as ballot
from weft.language.threads.warp import elect_one as elect_one
from weft.language.threads.warp import lane_id as lane_id
from weft.language.threads.warp import match as match
from weft.language.threads.warp import match_all as match_all
from weft.language.threads.warp import setmaxnreg as setmaxnreg
from weft.language.threads.warp import shfl_down as shfl_down
from weft.language.threads.warp import shfl_idx as shfl_idx
from weft.language.threads.warp import shfl_up as shfl_up
from weft.language.threads.warp import shfl_xor as shfl_xor
from weft.language.threads.warp import sync_warpgroup as sync_warpgroup
from weft.language.threads.warp import warp_id as warp_id
from weft.language.threads.warp import warpgroup as warpgroup
from weft.language.threads.warp import warpgroup_id as warpgroup_id
from weft.primitives import block as block
from weft.primitives import random as random
from weft.primitives import warp as warp
from weft.primitives.fill import empty_like as empty_like
from weft.primitives.fill import full_like as full_like
from weft.primitives.fill import zeros_like as zeros_like
from weft.runtime.warmup import warmup as warmup
from weft.sanitizer.checks import sanitize as sanitize
from weft.sanitizer.report import Report as Report
from weft.sanitizer.report import ReportPlace as ReportPlace
from weft.sanitizer.report import SanitizerError as SanitizerError
from weft.types.dims import sym as sym
from weft.types.dtype import DType as DType
from weft.types.launch_limits import MAX_THREADS as MAX_THREADS
from weft.types.launch_limits import VECTOR_BYTES as VECTOR_BYTES
from weft.types.launch_limits import WARP_SIZE as WARP_SIZE

from weft.language.matrix import mma as mma  # isort: skip
from weft.language.asynchronous import cp_async as cp_async  # isort: skip
from weft.language.asynchronous import tma as tma  # isort: skip
from weft.language.matrix import wgmma as wgmma  # isort: skip
from weft.language.numbers import math as math  # isort: skip

_Value = TypeVar("_Value")

# A Constexpr has its own value.
Constexpr: TypeAlias = Annotated[_Value, "compile time"]

# A staged tensor; the types of its items, attributes and results depend on its element type and the function.
class Tensor(Any):
    def __class_getitem__(cls, items: Any) -> type[Tensor]: ...

# A tile in the registers of several threads.
class Fragment(Any): ...

# A tensor map that `weft.tensor_map` made.
class TensorMap(Any): ...

# One of the barriers of weft.mbarrier.
class Mbarrier(Any): ...

# One of the barriers of weft.named_barrier.
class NamedBarrier(Any): ...

__version__: str
