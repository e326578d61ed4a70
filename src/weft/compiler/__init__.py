# SPDX-License-Identifier: Apache-2.0
"""From a Python function to a compiled function: `pipeline.py` is the main path and the file to read first.

In: a decorated function, arguments or annotations, options. Out: a compiled function.
"""
