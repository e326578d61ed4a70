# SPDX-License-Identifier: Apache-2.0
"""The hash of entries and keys: BLAKE2b, as in `hashlib`, which would load OpenSSL first (2 ms).

In: bytes. Out: a digest.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # another Python
    from hashlib import blake2b

__all__ = ["blake2b"]
