# SPDX-License-Identifier: Apache-2.0
"""The hand-written declarations of the driver's ABI are those of the real cuda.h."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DRIVER = ROOT / "native" / "driver" / "library"


def find_cuda_header() -> Path | None:
    spec = find_spec("nvidia")
    for folder in (
        spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    ):
        for path in Path(folder).glob("*/include/cuda.h"):
            return path
    return None


# Two types are the same to the ABI: both pointers, or numbers of one size and kind; an enum is an int.
PROGRAM = """
#include <cuda.h>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include "driver/library/driver_functions.h"
template <typename T> constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;
template <typename A, typename B> constexpr bool same() {{
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) return std::is_pointer_v<A> && std::is_pointer_v<B>;
  else return is_number<A> && is_number<B> && sizeof(A) == sizeof(B);
}}
template <typename A, typename B> struct Compare;
template <typename R, typename... A, typename S, typename... B> struct Compare<R (*)(A...), S (*)(B...)> {{
  static constexpr bool value() {{
    if constexpr (sizeof...(A) != sizeof...(B)) return false;
    else return same<R, S>() && (same<A, B>() && ...);
  }}
}};
{checks}
int main() {{ return 0; }}
"""


@pytest.mark.skipif(find_cuda_header() is None, reason="needs cuda.h: pip install weft-lang[cuda]")
def test_every_declaration_agrees_with_the_real_header(tmp_path: Path):
    header = find_cuda_header()
    assert header is not None
    abi = (DRIVER / "cuda_abi.h").read_text()
    table = (DRIVER / "driver_functions.h").read_text()
    constants = re.findall(r"inline constexpr \w+ (CU\w+) =", abi)
    functions = re.findall(r"ROW\((cu\w+), (\d+)", table)
    fields = [
        (struct, field)
        for struct in ("CUlaunchConfig", "CUDA_MEMCPY3D")
        for field in re.findall(
            r"^  .*?\b(\w+);$", abi.split(f"struct {struct}")[1].split("};")[0], re.M
        )
    ]
    assert len(constants) > 80
    assert len(functions) > 45
    assert len(fields) == 10 + 25
    checks = [
        f"static_assert(static_cast<long long>({name}) == weft::cuda::{name});"
        for name in constants
    ]
    checks += [
        f"static_assert(Compare<decltype(&::{name}), "
        f"decltype(weft::cuda::DriverFunctions::{name})>::value(), "
        f'"{name}");'
        for name, _ in functions
    ]
    checks += [
        f"static_assert(offsetof(::{struct}, {field}) == offsetof(weft::cuda::{struct}, {field}));"
        for struct, field in fields
    ]
    for name in ("CUlaunchConfig", "CUlaunchAttribute", "CUtensorMap", "CUDA_MEMCPY3D"):
        checks.append(f"static_assert(sizeof(::{name}) == sizeof(weft::cuda::{name}));")
        checks.append(f"static_assert(alignof(::{name}) == alignof(weft::cuda::{name}));")
    checks.append(
        "static_assert(offsetof(::CUlaunchAttribute, value) == offsetof(weft::cuda::CUlaunchAttribute, value));"
    )
    source = tmp_path / "compare.cpp"
    source.write_text(PROGRAM.format(checks="\n".join(checks)))
    command = [
        "c++",
        "-std=c++17",
        "-fsyntax-only",
        f"-I{ROOT}/native",
        f"-isystem{header.parent}",
        str(source),
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:4000]


@pytest.mark.skipif(find_cuda_header() is None, reason="needs cuda.h: pip install weft-lang[cuda]")
def test_functions_are_asked_for_in_a_version_that_had_them():
    header = find_cuda_header()
    assert header is not None
    # cudaTypedefs.h names each function's variants by the version that brought them: PFN_cuFuncLoad_v12040.
    typedefs = (header.parent / "cudaTypedefs.h").read_text()
    for name, version in re.findall(
        r"ROW\((cu\w+), (\d+)", (DRIVER / "driver_functions.h").read_text()
    ):
        variants = [int(found) for found in re.findall(rf"PFN_{name}_v(\d+)(?!\w)", typedefs)]
        assert variants, name
        assert min(variants) <= int(version), name
        if int(version) > 12000:
            assert int(version) in variants, name
