# SPDX-License-Identifier: Apache-2.0
"""weft: write a GPU kernel in Python, compile it in milliseconds, call it from anywhere.

Knows where each public name lives, and imports nothing until one is asked for (PEP 562), so that
`import weft` is quick and `import weft.runtime` loads no compiler. Next: api.
"""

from __future__ import annotations

__version__ = "0.1.0"
