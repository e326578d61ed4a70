# SPDX-License-Identifier: Apache-2.0
"""The race: losers are stopped early, noise stops none, arguments are restored and take turns."""

from __future__ import annotations

import random

import pytest

import weft
from weft.autotuner.race import LEAST_SAMPLES, Entrant, Race


class Arguments:
    def __init__(self):
        self.values = []
        self.calls = self.restored = 0

    def restore(self):
        self.restored += 1


class Clock:
    """A call's time is what it returns."""

    def seconds(self, call):
        return call()


def race(*calls, samples=30, seconds=1e9, sets=2):
    arguments = [Arguments() for _ in range(sets)]
    entrants = [Entrant(call) for call in calls]
    Race(arguments, Clock(), samples, seconds).run(entrants)
    return entrants, arguments


def noisy(seconds, seed):
    source = random.Random(seed)
    return lambda values: seconds * source.uniform(0.9, 1.3)


def test_slower_candidates_are_left_early():
    (slow, best, hopeless), _ = race(noisy(1.5, 1), noisy(1.0, 2), noisy(9.0, 3))
    assert (slow.is_stopped, best.is_stopped, hopeless.is_stopped) == (True, False, True)
    assert len(hopeless.samples) == 1
    assert len(slow.samples) == LEAST_SAMPLES
    assert len(best.samples) > len(slow.samples)


def test_what_is_as_fast_but_for_noise_is_not_stopped():
    entrants, _ = race(*(noisy(1.0, seed) for seed in range(6)))
    assert [len(entrant.samples) for entrant in entrants] == [30] * 6


def test_time_is_limited_after_the_least_samples():
    entrants, _ = race(lambda values: 1.0, lambda values: 1.0, seconds=0.5)
    assert [len(entrant.samples) for entrant in entrants] == [LEAST_SAMPLES] * 2


def test_what_raises_is_out_and_the_others_go_on():
    def fails(values):
        raise ValueError("no")

    (broken, good), arguments = race(fails, lambda values: 1.0)
    assert str(broken.error) == "no"
    assert (broken.samples, good.error) == ([], None)
    assert all(each.restored for each in arguments)


def test_sets_take_turns():
    _, arguments = race(lambda values: 1.0, sets=3)
    restored = [each.restored for each in arguments]
    assert max(restored) - min(restored) <= 1


def test_an_error_after_which_a_device_runs_nothing_ends_the_race():
    def fails(values):
        raise weft.CudaError("illegal address", 700)

    with pytest.raises(weft.CudaError):
        race(fails, lambda values: 1.0)
