// SPDX-License-Identifier: Apache-2.0
// The kernels of kernels.py in CUDA C++, line for line. No pointer is __restrict__, as no tensor of weft is.
#define INFINITY __int_as_float(0x7f800000)
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)

KERNEL(256) copy(const float* a, float* b, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n)
    b[i] = a[i];
}

KERNEL(256) saxpy(float factor, const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n)
    y[i] = factor * x[i] + y[i];
}

KERNEL(256) saxpy_vec4(float factor, const float* x, float* y, int n) {
  int i = 4 * (blockIdx.x * 256 + threadIdx.x);
  if (i + 4 <= n) {
    float4 u = *(const float4*)(x + i);
    float4 v = *(const float4*)(y + i);
    *(float4*)(y + i) = {factor * u.x + v.x, factor * u.y + v.y, factor * u.z + v.z, factor * u.w + v.w};
  }
}

KERNEL(256) reduction(const float* a, float* sums, int n) {
  __shared__ float partial[256];
  int t = threadIdx.x;
  float total = 0;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256)
    total += a[i];
  partial[t] = total;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half)
      partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t == 0)
    sums[blockIdx.x] = partial[0];
}

__device__ float block_max(float value, float* shared) {
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0u, value, lanes));
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < 8; ++warp)
    value = fmaxf(value, shared[warp]);
  __syncthreads();
  return value;
}

__device__ float block_sum(float value, float* shared) {
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value += __shfl_xor_sync(~0u, value, lanes);
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < 8; ++warp)
    value += shared[warp];
  __syncthreads();
  return value;
}

KERNEL(256) softmax(const float* x, float* y, int columns) {
  __shared__ float shared[8];
  int row = blockIdx.x;
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < columns; c += 256)
    largest = fmaxf(largest, x[row * columns + c]);
  largest = block_max(largest, shared);
  float total = 0;
  for (int c = threadIdx.x; c < columns; c += 256)
    total += expf(x[row * columns + c] - largest);
  float scale = 1 / block_sum(total, shared);
  for (int c = threadIdx.x; c < columns; c += 256)
    y[row * columns + c] = expf(x[row * columns + c] - largest) * scale;
}

KERNEL(256) layernorm(const float* x, const float* gain, const float* bias, float* y, int columns) {
  __shared__ float shared[8];
  int row = blockIdx.x;
  float total = 0;
  float squares = 0;
  for (int c = threadIdx.x; c < columns; c += 256) {
    float value = x[row * columns + c];
    total += value;
    squares += value * value;
  }
  float mean = block_sum(total, shared) / float(columns);
  float variance = block_sum(squares, shared) / float(columns) - mean * mean;
  float scale = rsqrtf(variance + 1e-5f);
  for (int c = threadIdx.x; c < columns; c += 256)
    y[row * columns + c] = (x[row * columns + c] - mean) * scale * gain[c] + bias[c];
}

KERNEL(256) transpose(const float* a, float* b, int rows, int columns) {
  __shared__ float tile[32][33];
  int x = threadIdx.x;
  int y = threadIdx.y;
  int column = blockIdx.x * 32;
  int row = blockIdx.y * 32;
  for (int k = 0; k < 32; k += 8)
    if (row + y + k < rows && column + x < columns)
      tile[y + k][x] = a[(row + y + k) * columns + column + x];
  __syncthreads();
  for (int k = 0; k < 32; k += 8)
    if (column + y + k < columns && row + x < rows)
      b[(column + y + k) * rows + row + x] = tile[x][y + k];
}

KERNEL(256) matmul_naive(const float* a, const float* b, float* c, int m, int n, int depth) {
  int column = blockIdx.x * 32 + threadIdx.x;
  int row = blockIdx.y * 8 + threadIdx.y;
  if (row < m && column < n) {
    float total = 0;
    for (int k = 0; k < depth; ++k)
      total += a[row * depth + k] * b[k * n + column];
    c[row * n + column] = total;
  }
}

KERNEL(256) matmul_tiled(const float* a, const float* b, float* c, int m, int n, int depth) {
  __shared__ float tile_a[16][16];
  __shared__ float tile_b[16][16];
  int x = threadIdx.x;
  int y = threadIdx.y;
  int row = blockIdx.y * 16 + y;
  int column = blockIdx.x * 16 + x;
  float total = 0;
  for (int first = 0; first < depth; first += 16) {
    tile_a[y][x] = row < m && first + x < depth ? a[row * depth + first + x] : 0;
    tile_b[y][x] = first + y < depth && column < n ? b[(first + y) * n + column] : 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k)
      total += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  if (row < m && column < n)
    c[row * n + column] = total;
}

KERNEL(256) sgemm(const float* a, const float* b, float* c, int m, int n, int depth) {
  __shared__ __align__(16) float tile_a[8][128];
  __shared__ __align__(16) float tile_b[8][128];
  float sums[8][8] = {};
  int t = threadIdx.x;
  int x = t % 16 * 8;
  int y = t / 16 * 8;
  int row = blockIdx.y * 128;
  int column = blockIdx.x * 128;
  for (int first = 0; first < depth; first += 8) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      tile_a[t % 8][t / 8 + 32 * s] = a[(row + t / 8 + 32 * s) * depth + first + t % 8];
      tile_b[t / 128 + 2 * s][t % 128] = b[(first + t / 128 + 2 * s) * n + column + t % 128];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j)
          sums[i][j] += tile_a[k][y + i] * tile_b[k][x + j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j)
      c[(row + y + i) * n + column + x + j] = sums[i][j];
  }
}

KERNEL(256) stencil5x5(const float* a, const float* weights, float* b, int rows, int columns) {
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 8 + threadIdx.y;
  if (x >= 2 && x < columns - 2 && y >= 2 && y < rows - 2) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < 5; ++i) {
#pragma unroll
      for (int j = 0; j < 5; ++j)
        total += weights[i * 5 + j] * a[(y + i - 2) * columns + x + j - 2];
    }
    b[y * columns + x] = total;
  }
}

KERNEL(256) fft_step(int span, const float* re, const float* im, float* out_re, float* out_im, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n / 2) {
    int k = i & (span - 1);
    int low = 2 * i - k;
    float angle = -3.14159265f * float(k) / float(span);
    float c = cosf(angle);
    float s = sinf(angle);
    float u = c * re[low + span] - s * im[low + span];
    float v = s * re[low + span] + c * im[low + span];
    out_re[low] = re[low] + u;
    out_im[low] = im[low] + v;
    out_re[low + span] = re[low] - u;
    out_im[low + span] = im[low] - v;
  }
}

KERNEL(256) nbody(const float* x, const float* y, const float* z, const float* mass, float* force, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) {
    float fx = 0;
    float fy = 0;
    float fz = 0;
    for (int j = 0; j < n; ++j) {
      float dx = x[j] - x[i];
      float dy = y[j] - y[i];
      float dz = z[j] - z[i];
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
      float pull = mass[j] * inverse * inverse * inverse;
      fx += pull * dx;
      fy += pull * dy;
      fz += pull * dz;
    }
    force[3 * i] = fx;
    force[3 * i + 1] = fy;
    force[3 * i + 2] = fz;
  }
}

__device__ float normal(float x) { return 0.5f * (1 + erff(x * 0.70710678f)); }

KERNEL(256) black_scholes(const float* spot, const float* strike, const float* years, float* call, float* put, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) {
    float root = 0.3f * sqrtf(years[i]);
    float d1 = (logf(spot[i] / strike[i]) + (0.02f + 0.045f) * years[i]) / root;
    float d2 = d1 - root;
    float later = strike[i] * expf(-0.02f * years[i]);
    call[i] = spot[i] * normal(d1) - later * normal(d2);
    put[i] = later * normal(-d2) - spot[i] * normal(-d1);
  }
}

KERNEL(256) spmv(const int* first, const int* columns, const float* values, const float* x, float* y, int rows) {
  int row = blockIdx.x * 256 + threadIdx.x;
  if (row < rows) {
    float total = 0;
    for (int k = first[row]; k < first[row + 1]; ++k)
      total += values[k] * x[columns[k]];
    y[row] = total;
  }
}

KERNEL(256) histogram(const unsigned char* a, int* bins, int n) {
  __shared__ int counts[256];
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
    atomicAdd(&counts[a[i]], 1);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], counts[threadIdx.x]);
}

KERNEL(256) blur_u8(const unsigned char* a, unsigned char* b, int rows, int columns) {
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 8 + threadIdx.y;
  if (x >= 1 && x < columns - 1 && y >= 1 && y < rows - 1) {
    int total = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
#pragma unroll
      for (int j = 0; j < 3; ++j)
        total += a[(y + i - 1) * columns + x + j - 1];
    }
    b[y * columns + x] = (unsigned char)((unsigned)total / 9);
  }
}

KERNEL(256) scan(const float* a, float* b, float* sums, int n) {
  __shared__ float totals[8];
  int t = threadIdx.x;
  int i = blockIdx.x * 256 + t;
  float value = i < n ? a[i] : 0;
#pragma unroll
  for (int step = 0; step < 5; ++step) {
    float other = __shfl_up_sync(~0u, value, 1 << step);
    if (t % 32 >= 1 << step)
      value += other;
  }
  if (t % 32 == 31)
    totals[t / 32] = value;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < 8; ++warp)
    if (warp < t / 32)
      value += totals[warp];
  if (i < n)
    b[i] = value;
  if (t == 255)
    sums[blockIdx.x] = value;
}

KERNEL(128) attention(const float* q, const float* k, const float* v, float* out, int queries, int keys) {
  __shared__ __align__(16) float tile_k[32][32];
  __shared__ __align__(16) float tile_v[32][32];
  int t = threadIdx.x;
  int row = blockIdx.x * 128 + t;
  float query[32];
  float sums[32];
#pragma unroll
  for (int d = 0; d < 32; ++d) {
    query[d] = row < queries ? q[row * 32 + d] : 0;
    sums[d] = 0;
  }
  float largest = -INFINITY;
  float total = 0;
  for (int first = 0; first < keys; first += 32) {
#pragma unroll
    for (int s = 0; s < 8; ++s) {
      tile_k[t / 32 + 4 * s][t % 32] = k[(first + t / 32 + 4 * s) * 32 + t % 32];
      tile_v[t / 32 + 4 * s][t % 32] = v[(first + t / 32 + 4 * s) * 32 + t % 32];
    }
    __syncthreads();
    for (int j = 0; j < 32; ++j) {
      float score = 0;
#pragma unroll
      for (int d = 0; d < 32; ++d)
        score += query[d] * tile_k[j][d];
      float before = largest;
      largest = fmaxf(largest, score);
      float shrink = expf(before - largest);
      float weight = expf(score - largest);
      total = total * shrink + weight;
#pragma unroll
      for (int d = 0; d < 32; ++d)
        sums[d] = sums[d] * shrink + weight * tile_v[j][d];
    }
    __syncthreads();
  }
  if (row < queries) {
#pragma unroll
    for (int d = 0; d < 32; ++d)
      out[row * 32 + d] = sums[d] / total;
  }
}

KERNEL(256) gelu(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) {
    float u = x[i];
    y[i] = 0.5f * u * (1 + tanhf(0.79788456f * (u + 0.044715f * u * u * u)));
  }
}
