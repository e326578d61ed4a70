# SPDX-License-Identifier: Apache-2.0
"""``python -m weft``: the command line.

In: the words of the command. Out: an exit code.
"""

import sys

from weft.cli import main

if __name__ == "__main__":
    sys.exit(main())
