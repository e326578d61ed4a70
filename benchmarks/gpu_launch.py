# SPDX-License-Identifier: Apache-2.0
"""Host time of a launch on a GPU: through each executor and prepared, beside a bare C loop and peers.

In: a GPU, and whichever peers this interpreter can import. Out: nanoseconds per launch, with 0, 1, 3 and 8
tensors; why there are none where there is no GPU. Each peer's module is in benchmarks/peers.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import site
import subprocess
import sys
import tempfile
import timeit
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import weft
from benchmarks.harness import (
    PEERS_PYTHON,
    ROOT,
    Figure,
    Missing,
    interleave,
    medians,
    parse_arguments,
    reason_of,
    report,
)
from weft import _native
from weft.driver.library import prepare_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LAUNCHES = 300  # fewer than the driver queues before a launch waits
COUNTS = (0, 1, 3, 8)
EXECUTORS = ("library", "context", "tvm-ffi")
PEERS = ("triton", "cupy", "numba", "cute")
Vector = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def kernel_none():
    """Take nothing and do nothing."""


@weft.kernel
def kernel_one(a: weft.Tensor):
    """Write to a vector."""
    a[0] = 0.0


@weft.kernel
def kernel_three(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    """Write to three vectors."""
    a[0] = 0.0
    b[0] = 0.0
    c[0] = 0.0


@weft.kernel
def kernel_eight(
    a: weft.Tensor,
    b: weft.Tensor,
    c: weft.Tensor,
    d: weft.Tensor,
    e: weft.Tensor,
    f: weft.Tensor,
    g: weft.Tensor,
    h: weft.Tensor,
):
    """Write to eight vectors."""
    a[0] = 0.0
    b[0] = 0.0
    c[0] = 0.0
    d[0] = 0.0
    e[0] = 0.0
    f[0] = 0.0
    g[0] = 0.0
    h[0] = 0.0


@weft.jit
def none():
    """Launch one block."""
    kernel_none().launch(grid=1, block=32)


@weft.jit
def one(a: Vector):
    """Launch one block."""
    kernel_one(a).launch(grid=1, block=32)


@weft.jit
def three(a: Vector, b: Vector, c: Vector):
    """Launch one block."""
    kernel_three(a, b, c).launch(grid=1, block=32)


@weft.jit
def eight(a: Vector, b: Vector, c: Vector, d: Vector, e: Vector, f: Vector, g: Vector, h: Vector):
    """Launch one block."""
    kernel_eight(a, b, c, d, e, f, g, h).launch(grid=1, block=32)


HOSTS = {0: none, 1: one, 3: three, 8: eight}


def time_calls(call: str, names: dict[str, Any], launches: int, wait: bool = True) -> float:
    """Nanoseconds of one evaluation of `call`, with an empty queue before it; the loop counts in.

    Args:
        call: an expression.
        names: what it sees.
        launches: how many times it is evaluated.
        wait: whether to empty the queue; False where the caller has done so.
    """
    if wait:
        _native.synchronize(0)
    return timeit.Timer(call, globals=names).timeit(launches) / launches * 1e9


def caller(
    function: Callable[..., Any], arrays: Sequence[Any], launches: int
) -> Callable[[], float]:
    """A measurement of `function(*arrays)`, which has been called once by then."""
    function(*arrays)
    names = {f"a{index}": array for index, array in enumerate(arrays)}
    call = f"f({', '.join(names)})"
    return partial(time_calls, call, {"f": function, **names}, launches)


def build_library(name: str, folder: str) -> Any:
    """A C++ file of this folder as a library, compiled now.

    Raises:
        Missing: if there is no C++ compiler, or it fails.
    """
    target = Path(folder) / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.cpp")
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", f"-I{ROOT / 'native'}"]
    command = [os.environ.get("CXX", "c++"), *flags, str(source), "-o", str(target), "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        raise Missing(str(error)) from None
    except subprocess.CalledProcessError as error:
        raise Missing(error.stderr.strip()) from None
    return ctypes.CDLL(str(target))


def build_bare_loop(folder: str) -> Any:
    """The C loop."""
    function = build_library("bare_launch", folder).bare_launch
    function.restype = ctypes.c_double
    return function


def bare_caller(
    loop: Any, driver: str, function: Any, addresses: Sequence[int], launches: int
) -> Callable[[], float]:
    """A measurement of the C loop over the kernel of a function that the executor `context` loaded."""
    (handle,) = function.preload(0).values()
    parameters = _native.function_parameters(handle)
    if parameters is not None and len(parameters) != len(addresses):
        raise Missing(f"the kernel has {len(parameters)} parameters, not {len(addresses)} pointers")
    pointers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)

    def measure() -> float:
        _native.synchronize(0)
        elapsed = loop(driver.encode(), ctypes.c_void_p(handle), len(addresses), pointers, launches)
        if elapsed < 0:
            raise RuntimeError(f"the bare loop failed with CUresult {-elapsed:.0f}")
        return elapsed

    return measure


def our_callers(
    count: int, arrays: Sequence[Any], options: str, launches: int
) -> tuple[dict[str, Callable[[], float]], Any]:
    """Measurements of each executor, prepared and tvm_ffi; and the function of the executor `context`."""
    functions = {
        executor: weft.compile(
            HOSTS[count], *arrays, options=f"--target cuda --executor {executor} {options}"
        )
        for executor in EXECUTORS
    }
    callers = {name: caller(function, arrays, launches) for name, function in functions.items()}
    callers["prepared"] = caller(functions["library"].prepare(*arrays), (), launches)
    return callers, functions["context"]


def peer_callers(
    count: int, arrays: Sequence[Any], launches: int
) -> tuple[dict[str, Callable[[], float]], dict[str, str]]:
    """Measurements of the peers that run here, and why the others do not."""
    callers: dict[str, Callable[[], float]] = {}
    missing: dict[str, str] = {}
    for name in PEERS:
        try:
            peer = importlib.import_module(f"benchmarks.peers.launch_{name}")
            callers[name] = caller(*peer.prepare(count, arrays), launches)
        except Exception as error:  # whatever stops a peer is said in its line
            missing[name] = reason_of(error)
    return callers, missing


def figures(
    make_array: Callable[[], tuple[Any, int]],
    repeats: int,
    *,
    driver: str = "libcuda.so.1",
    options: str = "",
    launches: int = LAUNCHES,
) -> Iterator[Figure]:
    """Nanoseconds per launch for each number of tensors.

    Args:
        make_array: makes a vector of f32 on device 0; gives it and its address.
        repeats: measurements of each kind.
        driver: the library that the bare loop opens.
        options: more options of `weft.compile`.
        launches: how many one measurement takes.
    """
    _native.set_current_device(0)  # the bare loop needs a context
    with tempfile.TemporaryDirectory() as folder:
        try:
            loop, no_loop = build_bare_loop(folder), ""
        except Missing as error:
            loop, no_loop = None, str(error).splitlines()[0]
        for count in COUNTS:
            made = [make_array() for _ in range(count)]
            arrays = [array for array, _ in made]
            ours, for_bare = our_callers(count, arrays, options, launches)
            peers, missing = peer_callers(count, arrays, launches)
            if loop is not None:
                addresses = [at for _, at in made]
                peers["bare"] = bare_caller(loop, driver, for_bare, addresses, launches)
            try:
                foreign = for_bare.as_tvm_ffi()
                peers["tvm_ffi"] = caller(foreign, arrays, launches)
            except Exception as error:  # as above
                missing["tvm_ffi"] = reason_of(error)
            failed: dict[str, str] = {}
            found = medians(interleave({**ours, **peers}, repeats, failed))
            missing |= {name: f"failed while it was measured: {failed[name]}" for name in failed}
            case = f"gpu_launch/{count} tensors"
            for name in ours:
                bare, note = found.get("bare"), missing.get(name) or missing.get("bare") or no_loop
                yield Figure(f"{case}, {name}", found.get(name), "ns", "C loop", bare, note)
            for name in (*PEERS, "tvm_ffi"):
                value, note = found.get("library"), missing.get(name, "")
                yield Figure(f"{case}, library", value, "ns", name, found.get(name), note)


def make_torch_array() -> tuple[Any, int]:
    """A tensor of torch, which the peers take, too."""
    import torch

    tensor = torch.zeros(16, device="cuda:0")
    return tensor, tensor.data_ptr()


def make_cupy_array() -> tuple[Any, int]:
    """An array of CuPy, for machines without torch."""
    import cupy

    array = cupy.zeros(16, dtype="float32")
    return array, array.data.ptr


class DriverArray:
    """Memory of the driver's, for machines with neither; weft asks its interface in Python."""

    def __init__(self) -> None:
        address = ctypes.c_uint64()
        code = ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(address), 64)
        if code != 0:
            raise RuntimeError(f"cuMemAlloc answered {code}")
        self.address = address.value

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Sixteen f32."""
        return {"shape": (16,), "typestr": "<f4", "data": (self.address, False), "version": 3}


def make_driver_array() -> tuple[Any, int]:
    """As much memory, kept until the process ends."""
    array = DriverArray()
    return array, array.address


def choose_array() -> Callable[[], tuple[Any, int]]:
    """The first maker of arrays that works here."""
    _native.set_current_device(0)
    for make_array in (make_torch_array, make_cupy_array):
        try:
            make_array()
        except Exception as error:  # the next one needs less
            print(f"gpu_launch: {make_array.__name__}: {error}", file=sys.stderr)
        else:
            return make_array
    return make_driver_array


def add_installed_peers() -> None:
    """Let this environment import what its own interpreter and the peers' environment have."""
    for prefix in (str(PEERS_PYTHON.parent.parent), sys.base_prefix):
        for folder in site.getsitepackages([prefix]):
            if Path(folder).is_dir():
                site.addsitedir(folder)


def gpu_missing() -> str:
    """Why there is no GPU to measure on, or an empty string."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "libcuda.so.1 is not installed"
    if (code := driver.cuInit(0)) != 0:
        return f"cuInit answered {code}"
    count = ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if count.value else "the driver sees no device"


def main() -> None:
    """Print every figure, or why there is none."""
    arguments = parse_arguments(__doc__ or "", repeats=15)
    if reason := gpu_missing():
        found = [Figure("gpu_launch", None, "ns", note=f"needs an NVIDIA GPU: {reason}")]
        report(found, arguments.json)
        return
    add_installed_peers()
    prepare_driver()
    report(figures(choose_array(), arguments.repeats), arguments.json)


if __name__ == "__main__":
    main()
