# SPDX-License-Identifier: Apache-2.0
"""Operations on memory: tensors, their parts, shared and local arrays, atomics."""
