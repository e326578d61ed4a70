# SPDX-License-Identifier: Apache-2.0
"""The extension's thread-local memory is small: the C library reserves some 1.6 kB for all libraries loaded later.

A library that takes too much of it makes the import of another one fail, as `import weft` made that of torch:
"cannot allocate memory in static TLS block".
"""

from __future__ import annotations

import struct
from pathlib import Path

from weft import _native

MOST = 512
THREAD_LOCAL = 7  # PT_TLS


def test_thread_local_memory_is_small():
    data = Path(str(_native.__file__)).read_bytes()
    assert data[:5] == b"\x7fELF\x02"
    (first,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQQ", data, first + k * size) for k in range(count)]
    assert 0 < sum(segment[6] for segment in segments if segment[0] == THREAD_LOCAL) <= MOST
