# SPDX-License-Identifier: Apache-2.0
"""What `make gpu` runs: the tests marked `gpu`, and says why where there is no GPU.

In: more arguments for pytest. Out: pytest's report; 0 also where there is nothing to run on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import gpu_missing


def main() -> int:
    """Run the tests that need a GPU."""
    if reason := gpu_missing():
        print(f"make gpu needs an NVIDIA GPU and its driver: {reason}")
        return 0
    return int(pytest.main(["-m", "gpu", str(Path(__file__).parent), *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
