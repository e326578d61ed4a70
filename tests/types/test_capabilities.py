# SPDX-License-Identifier: Apache-2.0
"""One table says what each architecture has; kernels ask it, and every room reads it."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT
from weft.backends.cuda.target import cuda_machine
from weft.types.capabilities import FEATURES, PTX_VERSIONS, capabilities, capabilities_of

CURRENT = [name for name in PTX_VERSIONS if int(re.sub(r"\D", "", name)) >= 75]
# Feature → the architectures from sm_75 on that have it.
WITH = {
    "wgmma": {"sm_90a"},
    "tcgen05": {
        *("sm_100a", "sm_100f", "sm_101a", "sm_103a", "sm_103f"),
        *("sm_110a", "sm_110f"),
    },
    "mma_block_scale": {"sm_120a", "sm_120f", "sm_121a", "sm_121f"},
    "setmaxnreg": {name for name in CURRENT if name[-1] in "af"},
    "tensormap": {name for name in CURRENT if name[-1] in "af"},
    "tma": {name for name in CURRENT if capabilities(name).number >= 90},
    "tma_multicast": {
        name for name in CURRENT if capabilities(name).number in (90, 100, 101, 103, 110)
    },
    "tma_gather": {name for name in CURRENT if capabilities(name).number >= 100},
    "clusters": {name for name in CURRENT if capabilities(name).number >= 90},
    "packed_f32x2": {name for name in CURRENT if capabilities(name).number in (100, 103)},
    "cp_async": set(CURRENT) - {"sm_75"},
    "mma": set(CURRENT) - {"sm_75"},
    "mma_f8": {name for name in CURRENT if capabilities(name).number >= 89},
    "ldmatrix": set(CURRENT),
}
SHARED_KB = {75: 64, 80: 163, 86: 99, 87: 163, 88: 163, 89: 99, 90: 227, 100: 227, 101: 227}
SHARED_KB |= {103: 227, 110: 227, 120: 99, 121: 99}


@pytest.mark.parametrize("feature", WITH)
def test_a_feature_is_of_the_architectures_that_have_it(feature):
    assert {name for name in CURRENT if capabilities(name).has(feature)} == WITH[feature]
    assert all(
        getattr(capabilities(name), feature) is capabilities(name).has(feature) for name in CURRENT
    )


@pytest.mark.joined
@pytest.mark.parametrize("name", CURRENT)
def test_shared_memory_of_a_block(name):
    found = capabilities(name)
    assert (
        found.max_shared == SHARED_KB[found.number] << 10 == cuda_machine(name).shared_memory_bytes
    )
    assert found.multiprocessor.shared >= found.max_shared >> 10


def test_devices_are_compiled_for_by_their_own_architecture():
    assert [capabilities_of(one).arch for one in ((7, 5), (8, 9), (9, 0), (12, 1), (0, 0))] == [
        *("sm_75", "sm_89", "sm_90a", "sm_121a", "cpu"),
    ]
    assert capabilities_of((13, 0)).tma  # newer than the table


def test_the_cpu_runs_what_the_language_has():
    cpu = capabilities("cpu")
    assert cpu.wgmma and cpu.tma and cpu.mma and not cpu.packed_f32x2 and not cpu.tcgen05
    assert not any(capabilities("gfx942").has(feature) for feature in FEATURES)


def test_unknown_features_are_refused():
    with pytest.raises(ValueError, match=r"no feature is called 'wgmmma'; there are: .*wgmma"):
        capabilities("sm_90a").has("wgmmma")
    with pytest.raises(AttributeError):
        _ = capabilities("sm_90a").wgmmma


# Comparisons with a compute capability, and names of architectures that code compares with.
PRIVATE = re.compile(
    r"(compute_capability|capability\([^)]*\)|version|capability) *(<|>|==|!=) *\(?\d+|== *\"sm_|FIRST_WITH"
)


def test_no_room_has_a_table_of_its_own():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name not in ("capabilities.py", "devices.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PRIVATE.search(line)
    ]
    assert found == []


def test_the_page_lists_all_features():
    page = (ROOT / "docs" / "architectures.md").read_text()
    for name, feature in FEATURES.items():
        cpu = "yes" if feature.on_cpu else ""
        assert f"| `{name}` | {feature.text} | {feature.needed} | {cpu} |" in page
