# SPDX-License-Identifier: Apache-2.0
"""Arguments and references of examples that are kernels alone, for the catalog, the tests and benchmarks."""
