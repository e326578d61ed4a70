# SPDX-License-Identifier: Apache-2.0
"""The bridge to the CUDA driver: binaries, launches, devices, memory, streams.

In: cubins, arguments, sizes. Out: loaded kernels and launches; `weft.CudaError` where the driver refuses.
Importing it opens nothing. The work is done by `weft._native`; next room: `runtime`, whose executors use it.
"""
