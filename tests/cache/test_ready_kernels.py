# SPDX-License-Identifier: Apache-2.0
"""Functions of `weft.kernels` are kept: a second process finds them; what reads a device is not repeatable."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest

import weft
from tests.cache.test_processes import ROOT, environment
from tests.sampling import sampled
from weft.driver.device import device_properties
from weft.frontend.state.repeatable import holds_foreign_code, is_repeatable
from weft.kernels.algorithms import operators
from weft.kernels.device import row_mapping
from weft.kernels.fourier import stockham
from weft.kernels.host import devices

PROGRAM = """
import sys, weft
from tests.kernels.calls import CALLS
from weft.cache import store
for name in sys.argv[1:]:
    getattr(weft.kernels, name)(*CALLS[name].arguments)
found = store.stats()
print(found.hits, found.misses, found.not_kept)
"""
# A user's function is combined in Python: what that reads is not known.
NOT_KEPT = {"reduce"}
KEPT = sorted(set(weft.kernels.__all__) - NOT_KEPT)
GROUPS = [KEPT[first::8] for first in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize("names", sampled(GROUPS, 8), ids=" ".join)
def test_a_second_process_finds_every_function(names, tmp_path):
    def run() -> str:
        command = [sys.executable, "-c", PROGRAM, *names]
        done = subprocess.run(
            command, env=environment(tmp_path), capture_output=True, text=True, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    hits, misses, not_kept = run().split(" ", 2)
    assert int(misses) >= len(names) > int(hits) and not_kept == "{}"
    assert run() == f"{int(hits) + int(misses)} 0 {{}}"


def of_user(a, b):
    return a + b


def test_python_is_repeatable_unless_it_reads_a_device():
    for function in (row_mapping.block_of, stockham.smem_padding, operators.acc_type):
        assert is_repeatable(function)
    for function in (
        devices.capabilities,
        device_properties,
        row_mapping.row_mapping_for,
        weft.compile,
    ):
        assert not is_repeatable(function)


def test_a_users_function_is_found_in_what_weft_is_given():
    assert not holds_foreign_code(
        ((1, row_mapping.block_of), {"x": row_mapping.RowMapping(1, 32, 4, 4)})
    )
    for given in (
        of_user,
        (1, (of_user,)),
        [{"x": of_user}],
        partial(of_user, 1),
        partial(max, of_user),
    ):
        assert holds_foreign_code((given,))
