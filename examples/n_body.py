# SPDX-License-Identifier: Apache-2.0
"""One time step of n bodies that attract each other, all pairs.

Shapes: `bodies` and `moved` are n x 4, float32: position x, y, z and mass; `velocities` is n x 3
and changed in place. The 4 and the 3 are part of the type, so a call with other columns is refused.
`seconds` is the time step; `softening` keeps close bodies from flying apart, in the unit of the
positions.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show


def attraction(x, y, z, mass, softening):
    """The pull of a body at (x, y, z) from here, as three components."""
    distance_squared = x * x + y * y + z * z + softening * softening
    inverse = weft.math.rsqrt(distance_squared)
    strength = mass * inverse * inverse * inverse
    return x * strength, y * strength, z * strength


@weft.kernel
def step_kernel(
    bodies: weft.Tensor,
    velocities: weft.Tensor,
    moved: weft.Tensor,
    seconds: weft.f32,
    softening: weft.f32,
):
    """One thread: one body, pulled by all."""
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i >= bodies.shape[0]:
        return
    x, y, z = bodies[i, 0], bodies[i, 1], bodies[i, 2]
    ax, ay, az = 0.0, 0.0, 0.0
    for j in range(bodies.shape[0]):
        pull_x, pull_y, pull_z = attraction(
            bodies[j, 0] - x, bodies[j, 1] - y, bodies[j, 2] - z, bodies[j, 3], softening
        )
        ax += pull_x
        ay += pull_y
        az += pull_z
    acceleration, position = (ax, ay, az), (x, y, z)
    for axis in weft.static_range(3):
        velocity = velocities[i, axis] + acceleration[axis] * seconds
        velocities[i, axis] = velocity
        moved[i, axis] = position[axis] + velocity * seconds
    moved[i, 3] = bodies[i, 3]


@weft.jit
def n_body_step(
    bodies: weft.Tensor[weft.f32, ("n", 4)],
    velocities: weft.Tensor[weft.f32, ("n", 3)],
    moved: weft.Tensor[weft.f32, ("n", 4)],
    seconds: weft.f32,
    softening: weft.f32 = 0.05,
):
    """Advance the velocities by one step, and write the new positions."""
    step_kernel(bodies, velocities, moved, seconds, softening).launch(
        grid=weft.ceil_div(bodies.shape[0], 128), block=128
    )


def make_arguments(n: int) -> Arguments:
    """A ball of bodies at rest."""
    random = np.random.default_rng(5)
    bodies = random.standard_normal((n, 4), dtype=np.float32)
    bodies[:, 3] = random.random(n, dtype=np.float32) / n
    return {
        "bodies": bodies,
        "velocities": np.zeros((n, 3), np.float32),
        "moved": np.empty((n, 4), np.float32),
        "seconds": 0.01,
        "softening": 0.05,
    }


def fake_arguments():
    """Any number of bodies."""
    n = weft.sym("n")
    return (
        weft.fake_tensor(weft.f32, (n, 4)),
        weft.fake_tensor(weft.f32, (n, 3)),
        weft.fake_tensor(weft.f32, (n, 4)),
        0.01,
        0.05,
    )


def reference(
    bodies: np.ndarray, velocities: np.ndarray, moved: np.ndarray, seconds: float, softening: float
) -> Arrays:
    """What NumPy says: all pairs as matrices."""
    position, mass = bodies[:, :3], bodies[:, 3]
    offsets = [position[None, :, axis] - position[:, None, axis] for axis in range(3)]
    squared = sum(offset * offset for offset in offsets) + np.float32(softening) ** 2
    strength = mass[None, :] * squared ** np.float32(-1.5)
    acceleration = np.stack([(offset * strength).sum(axis=1) for offset in offsets], axis=1)
    after = velocities + acceleration * np.float32(seconds)
    return {
        "velocities": after,
        "moved": np.concatenate((position + after * np.float32(seconds), mass[:, None]), axis=1),
    }


EXAMPLE = Example(
    name="n_body",
    function=n_body_step,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n} bodies",
    size=2048,
    test_size=131,
    tolerance=1e-5,
    instructions=("sqrt", "ld.global", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
