# SPDX-License-Identifier: Apache-2.0
"""The kernels of kernels.cu in weft, line for line, and one host function that launches any of them."""

from __future__ import annotations

import weft

INFINITY = float("inf")


@weft.jit
def launch(kernel: weft.Constexpr, block: weft.Constexpr, grid: tuple, arguments: tuple):
    """Launch a kernel on arguments; `grid` is up to three numbers of blocks."""
    kernel(*arguments).launch(grid=grid, block=block)


@weft.kernel
def copy(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * 256 + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i]


@weft.kernel
def saxpy(factor: weft.f32, x: weft.Tensor, y: weft.Tensor):
    i = weft.block_idx.x * 256 + weft.thread_idx.x
    if i < x.shape[0]:
        y[i] = factor * x[i] + y[i]


@weft.kernel
def saxpy_vec4(factor: weft.f32, x: weft.Tensor, y: weft.Tensor):
    i = 4 * (weft.block_idx.x * 256 + weft.thread_idx.x)
    if i + 4 <= x.shape[0]:
        u = weft.load_vector(x, i, 4)
        v = weft.load_vector(y, i, 4)
        weft.store_vector(y, i, tuple(factor * u[k] + v[k] for k in range(4)))


@weft.kernel
def reduction(a: weft.Tensor, sums: weft.Tensor):
    partial = weft.shared(256, weft.f32)
    t = weft.thread_idx.x
    total = 0.0
    for i in range(weft.block_idx.x * 256 + t, a.shape[0], weft.grid_dim.x * 256):
        total += a[i]
    partial[t] = total
    weft.sync_threads()
    for half in (128, 64, 32, 16, 8, 4, 2, 1):
        if t < half:
            partial[t] += partial[t + half]
        weft.sync_threads()
    if t == 0:
        sums[weft.block_idx.x] = partial[0]


def block_max(value, shared):
    for lanes in (16, 8, 4, 2, 1):
        value = max(value, weft.shfl_xor(value, lanes))
    if weft.thread_idx.x % 32 == 0:
        shared[weft.thread_idx.x // 32] = value
    weft.sync_threads()
    value = shared[0]
    for warp in weft.static_range(1, 8):
        value = max(value, shared[warp])
    weft.sync_threads()
    return value


def block_sum(value, shared):
    for lanes in (16, 8, 4, 2, 1):
        value += weft.shfl_xor(value, lanes)
    if weft.thread_idx.x % 32 == 0:
        shared[weft.thread_idx.x // 32] = value
    weft.sync_threads()
    value = shared[0]
    for warp in weft.static_range(1, 8):
        value += shared[warp]
    weft.sync_threads()
    return value


@weft.kernel
def softmax(x: weft.Tensor, y: weft.Tensor):
    shared = weft.shared(8, weft.f32)
    row = weft.block_idx.x
    largest = -INFINITY
    for c in range(weft.thread_idx.x, x.shape[1], 256):
        largest = max(largest, x[row, c])
    largest = block_max(largest, shared)
    total = 0.0
    for c in range(weft.thread_idx.x, x.shape[1], 256):
        total += weft.math.exp(x[row, c] - largest)
    scale = 1 / block_sum(total, shared)
    for c in range(weft.thread_idx.x, x.shape[1], 256):
        y[row, c] = weft.math.exp(x[row, c] - largest) * scale


@weft.kernel
def layernorm(x: weft.Tensor, gain: weft.Tensor, bias: weft.Tensor, y: weft.Tensor):
    shared = weft.shared(8, weft.f32)
    row = weft.block_idx.x
    total = 0.0
    squares = 0.0
    for c in range(weft.thread_idx.x, x.shape[1], 256):
        value = x[row, c]
        total += value
        squares += value * value
    mean = block_sum(total, shared) / weft.f32(x.shape[1])
    variance = block_sum(squares, shared) / weft.f32(x.shape[1]) - mean * mean
    scale = weft.math.rsqrt(variance + 1e-5)
    for c in range(weft.thread_idx.x, x.shape[1], 256):
        y[row, c] = (x[row, c] - mean) * scale * gain[c] + bias[c]


@weft.kernel
def transpose(a: weft.Tensor, b: weft.Tensor):
    tile = weft.shared((32, 33), weft.f32)
    x = weft.thread_idx.x
    y = weft.thread_idx.y
    column = weft.block_idx.x * 32
    row = weft.block_idx.y * 32
    for k in weft.static_range(0, 32, 8):
        if row + y + k < a.shape[0] and column + x < a.shape[1]:
            tile[y + k, x] = a[row + y + k, column + x]
    weft.sync_threads()
    for k in weft.static_range(0, 32, 8):
        if column + y + k < a.shape[1] and row + x < a.shape[0]:
            b[column + y + k, row + x] = tile[x, y + k]


@weft.kernel
def matmul_naive(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    column = weft.block_idx.x * 32 + weft.thread_idx.x
    row = weft.block_idx.y * 8 + weft.thread_idx.y
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@weft.kernel
def matmul_tiled(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    tile_a = weft.shared((16, 16), weft.f32)
    tile_b = weft.shared((16, 16), weft.f32)
    (m, n), depth = c.shape, a.shape[1]
    x = weft.thread_idx.x
    y = weft.thread_idx.y
    row = weft.block_idx.y * 16 + y
    column = weft.block_idx.x * 16 + x
    total = 0.0
    for first in range(0, depth, 16):
        tile_a[y, x] = a[row, first + x] if row < m and first + x < depth else 0.0
        tile_b[y, x] = b[first + y, column] if first + y < depth and column < n else 0.0
        weft.sync_threads()
        for k in weft.static_range(16):
            total += tile_a[y, k] * tile_b[k, x]
        weft.sync_threads()
    if row < m and column < n:
        c[row, column] = total


@weft.kernel
def sgemm(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    tile_a = weft.shared((8, 128), weft.f32)
    tile_b = weft.shared((8, 128), weft.f32)
    sums = weft.local((8, 8), weft.f32)
    for i, j in ((i, j) for i in range(8) for j in range(8)):
        sums[i, j] = 0.0
    t = weft.thread_idx.x
    x = t % 16 * 8
    y = t // 16 * 8
    row = weft.block_idx.y * 128
    column = weft.block_idx.x * 128
    for first in range(0, a.shape[1], 8):
        for s in weft.static_range(4):
            tile_a[t % 8, t // 8 + 32 * s] = a[row + t // 8 + 32 * s, first + t % 8]
            tile_b[t // 128 + 2 * s, t % 128] = b[first + t // 128 + 2 * s, column + t % 128]
        weft.sync_threads()
        for k in weft.static_range(8):
            for i in weft.static_range(8):
                for j in weft.static_range(8):
                    sums[i, j] += tile_a[k, y + i] * tile_b[k, x + j]
        weft.sync_threads()
    for i in weft.static_range(8):
        for j in weft.static_range(8):
            c[row + y + i, column + x + j] = sums[i, j]


@weft.kernel
def stencil5x5(a: weft.Tensor, weights: weft.Tensor, b: weft.Tensor):
    x = weft.block_idx.x * 32 + weft.thread_idx.x
    y = weft.block_idx.y * 8 + weft.thread_idx.y
    if 2 <= x < a.shape[1] - 2 and 2 <= y < a.shape[0] - 2:
        total = 0.0
        for i in weft.static_range(5):
            for j in weft.static_range(5):
                total += weights[i, j] * a[y + i - 2, x + j - 2]
        b[y, x] = total


@weft.kernel
def fft_step(
    span: weft.i32, re: weft.Tensor, im: weft.Tensor, out_re: weft.Tensor, out_im: weft.Tensor
):
    i = weft.block_idx.x * 256 + weft.thread_idx.x
    if i < re.shape[0] // 2:
        k = i & (span - 1)
        low = 2 * i - k
        angle = -3.14159265 * weft.f32(k) / weft.f32(span)
        c = weft.math.cos(angle)
        s = weft.math.sin(angle)
        u = c * re[low + span] - s * im[low + span]
        v = s * re[low + span] + c * im[low + span]
        out_re[low] = re[low] + u
        out_im[low] = im[low] + v
        out_re[low + span] = re[low] - u
        out_im[low + span] = im[low] - v


@weft.kernel
def nbody(x: weft.Tensor, y: weft.Tensor, z: weft.Tensor, mass: weft.Tensor, force: weft.Tensor):
    i = weft.block_idx.x * 256 + weft.thread_idx.x
    if i < x.shape[0]:
        fx = 0.0
        fy = 0.0
        fz = 0.0
        for j in range(x.shape[0]):
            dx = x[j] - x[i]
            dy = y[j] - y[i]
            dz = z[j] - z[i]
            inverse = weft.math.rsqrt(dx * dx + dy * dy + dz * dz + 1e-3)
            pull = mass[j] * inverse * inverse * inverse
            fx += pull * dx
            fy += pull * dy
            fz += pull * dz
        force[i, 0] = fx
        force[i, 1] = fy
        force[i, 2] = fz


def normal(x):
    return 0.5 * (1 + weft.math.erf(x * 0.70710678))


@weft.kernel
def black_scholes(
    spot: weft.Tensor, strike: weft.Tensor, years: weft.Tensor, call: weft.Tensor, put: weft.Tensor
):
    i = weft.block_idx.x * 256 + weft.thread_idx.x
    if i < spot.shape[0]:
        root = 0.3 * weft.math.sqrt(years[i])
        d1 = (weft.math.log(spot[i] / strike[i]) + (0.02 + 0.045) * years[i]) / root
        d2 = d1 - root
        later = strike[i] * weft.math.exp(-0.02 * years[i])
        call[i] = spot[i] * normal(d1) - later * normal(d2)
        put[i] = later * normal(-d2) - spot[i] * normal(-d1)


@weft.kernel
def spmv(
    first: weft.Tensor, columns: weft.Tensor, values: weft.Tensor, x: weft.Tensor, y: weft.Tensor
):
    row = weft.block_idx.x * 256 + weft.thread_idx.x
    if row < y.shape[0]:
        total = 0.0
        for k in range(first[row], first[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


@weft.kernel
def histogram(a: weft.Tensor, bins: weft.Tensor):
    counts = weft.shared(256, weft.i32)
    counts[weft.thread_idx.x] = 0
    weft.sync_threads()
    for i in range(weft.block_idx.x * 256 + weft.thread_idx.x, a.shape[0], weft.grid_dim.x * 256):
        weft.atomic_add(counts, a[i], 1)
    weft.sync_threads()
    weft.atomic_add(bins, weft.thread_idx.x, counts[weft.thread_idx.x])


@weft.kernel
def blur_u8(a: weft.Tensor, b: weft.Tensor):
    x = weft.block_idx.x * 32 + weft.thread_idx.x
    y = weft.block_idx.y * 8 + weft.thread_idx.y
    if 1 <= x < a.shape[1] - 1 and 1 <= y < a.shape[0] - 1:
        total = weft.i32(0)
        for i in weft.static_range(3):
            for j in weft.static_range(3):
                total += a[y + i - 1, x + j - 1]
        b[y, x] = weft.u8(weft.u32(total) // 9)


@weft.kernel
def scan(a: weft.Tensor, b: weft.Tensor, sums: weft.Tensor):
    totals = weft.shared(8, weft.f32)
    t = weft.thread_idx.x
    i = weft.block_idx.x * 256 + t
    value = a[i] if i < a.shape[0] else 0.0
    for step in weft.static_range(5):
        other = weft.shfl_up(value, 1 << step)
        if t % 32 >= 1 << step:
            value += other
    if t % 32 == 31:
        totals[t // 32] = value
    weft.sync_threads()
    for warp in weft.static_range(8):
        if warp < t // 32:
            value += totals[warp]
    if i < a.shape[0]:
        b[i] = value
    if t == 255:
        sums[weft.block_idx.x] = value


@weft.kernel
def attention(q: weft.Tensor, k: weft.Tensor, v: weft.Tensor, out: weft.Tensor):
    tile_k = weft.shared((32, 32), weft.f32)
    tile_v = weft.shared((32, 32), weft.f32)
    t = weft.thread_idx.x
    row = weft.block_idx.x * 128 + t
    query = weft.local(32, weft.f32)
    sums = weft.local(32, weft.f32)
    for d in weft.static_range(32):
        query[d] = q[row, d] if row < q.shape[0] else 0.0
        sums[d] = 0.0
    largest = -INFINITY
    total = 0.0
    for first in range(0, k.shape[0], 32):
        for s in weft.static_range(8):
            tile_k[t // 32 + 4 * s, t % 32] = k[first + t // 32 + 4 * s, t % 32]
            tile_v[t // 32 + 4 * s, t % 32] = v[first + t // 32 + 4 * s, t % 32]
        weft.sync_threads()
        for j in range(32):
            score = 0.0
            for d in weft.static_range(32):
                score += query[d] * tile_k[j, d]
            before = largest
            largest = max(largest, score)
            shrink = weft.math.exp(before - largest)
            weight = weft.math.exp(score - largest)
            total = total * shrink + weight
            for d in weft.static_range(32):
                sums[d] = sums[d] * shrink + weight * tile_v[j, d]
        weft.sync_threads()
    if row < q.shape[0]:
        for d in weft.static_range(32):
            out[row, d] = sums[d] / total


@weft.kernel
def gelu(x: weft.Tensor, y: weft.Tensor):
    i = weft.block_idx.x * 256 + weft.thread_idx.x
    if i < x.shape[0]:
        u = x[i]
        y[i] = 0.5 * u * (1 + weft.math.tanh(0.79788456 * (u + 0.044715 * u * u * u)))
