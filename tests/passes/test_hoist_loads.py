# SPDX-License-Identifier: Apache-2.0
"""Loads start before what branches in machine code, as many as the registers bear."""

from __future__ import annotations

import re

import weft
from weft.compiler.module_text import module_text, parse_module
from weft.passes.loads import hoist_loads

ARRAY = "!simt.tensor<f32, [?], contiguous, {space}, dims 32, offsets 64, align 4>"


def order(*names: str, space: str = "global") -> str:
    """The kinds of a block's operations after the pass, which are given as `load`, `sqrt`, `sin`, `store`, `fma`."""
    kind = ARRAY.format(space=space)
    texts = {
        "load": f"%x{{}} = simt.load %a[%i : i32] : {kind} -> f32",
        "store": f"simt.store %x, %a[%i : i32] : f32, {kind}",
        "sqrt": "%x{} = math.sqrt %x : f32",
        "sin": "%x{} = math.sin %x : f32",
        "fma": "%x{} = math.fma %x, %x, %x : f32",
        "divide": "%x{} = arith.divf %x, %x : f32",
        "barrier": "simt.barrier",
    }
    lines = [texts[name].format(number) for number, name in enumerate(names)]
    module = parse_module(
        f"simt.kernel @k(%a: {kind}, %i: i32, %x: f32) {{\n" + "\n".join(lines) + "\nsimt.return\n}"
    )
    hoist_loads(module)
    module.verify()
    found = re.findall(
        r"(?:simt|math|arith)\.(load|store|sqrt|sin|fma|divf|barrier)\b", module_text(module)
    )
    return " ".join(found).replace("divf", "divide")


def test_loads_are_hoisted_over_pure_operations_alone():
    assert order("sqrt", "load", "load") == "load load sqrt"
    assert order("fma", "divide", "fma", "load") == "fma load divide fma"
    assert order("load", "sin", "load", "sqrt", "load") == "load load load sin sqrt"
    assert order("fma", "load") == "fma load"
    assert order("sqrt", "store", "load", "sin", "load") == "sqrt store load load sin"
    assert order("sqrt", "barrier", "load") == "sqrt barrier load"


def test_no_more_than_eight_loads_start_at_one_place():
    twelve = order("sqrt", *["load", "divide"] * 12).split()
    assert twelve[:10] == [*["load"] * 8, "sqrt", "divide"]
    assert twelve[-6:].count("load") <= 1


def test_other_memory_is_near_and_its_loads_stay():
    assert order("sqrt", "load", space="shared") == "sqrt load"


def test_black_scholes_waits_once_for_its_three_inputs():
    @weft.kernel
    def price(spot, strike, years, call):
        i = weft.block_idx.x * 256 + weft.thread_idx.x
        if i < spot.shape[0]:
            root = weft.math.sqrt(years[i])
            call[i] = weft.math.log(spot[i] / strike[i]) / root

    @weft.jit
    def host(spot: weft.Tensor, strike: weft.Tensor, years: weft.Tensor, call: weft.Tensor):
        price(spot, strike, years, call).launch(grid=1, block=256)

    array = weft.fake_tensor(weft.f32, (None,), device="cuda")
    ptx = weft.compile(host, *[array] * 4, options="--gpu-arch sm_90a --keep-ptx").ptx
    assert re.findall(r"ld\.global|sqrt\.rn|div\.rn", ptx)[:4] == [*["ld.global"] * 3, "sqrt.rn"]
