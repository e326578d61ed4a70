# SPDX-License-Identifier: Apache-2.0
"""The in-kernel profiler's device side: what its markers become, once the whole kernel is known.

In: markers in the IR. Out: plain operations that write records into a buffer. Next: marks, emit, tirx, lane.
"""
