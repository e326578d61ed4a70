# SPDX-License-Identifier: Apache-2.0
"""Random kernels, fragments, tiles, boxes, layouts, operands, copies and atomics: a GPU against the CPU target.

In: seeds. Out: where they differ. `emulator` stands in for a GPU that is not there.
"""
