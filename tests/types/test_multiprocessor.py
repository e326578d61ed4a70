# SPDX-License-Identifier: Apache-2.0
"""Warps that a multiprocessor holds, beside CUDA's occupancy calculator."""

from __future__ import annotations

import pytest

from weft.types.capabilities import multiprocessor, resident_warps


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared_bytes", "warps"),
    [
        ("sm_90a", 256, 32, 0, 64),
        ("sm_90a", 256, 33, 0, 48),
        ("sm_90a", 256, 150, 8192, 8),
        ("sm_90a", 128, 95, 8192, 20),
        ("sm_90a", 32, 16, 0, 32),
        ("sm_90a", 1024, 64, 0, 32),
        ("sm_90a", 256, 16, 100 * 1024, 16),
        ("sm_90a", 256, 16, 228 * 1024, 0),
        ("sm_90a", 1, 0, 0, 32),
        ("sm_75", 1024, 32, 64 * 1024, 32),
        ("sm_86", 512, 40, 0, 48),
        ("sm_120a", 256, 32, 0, 48),
    ],
)
def test_warps_are_those_of_cudas_occupancy_calculator(
    architecture: str, threads: int, registers: int, shared_bytes: int, warps: int
):
    assert resident_warps(architecture, threads, registers, shared_bytes) == warps


def test_an_architecture_without_a_row_is_like_the_one_before_it():
    assert multiprocessor("sm_103a") == multiprocessor("sm_100") == multiprocessor("sm_90a")
    assert multiprocessor("sm_121") == multiprocessor("sm_120") != multiprocessor("sm_100")
