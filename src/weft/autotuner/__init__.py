# SPDX-License-Identifier: Apache-2.0
"""Chooses a function's constants and launch parameters by measuring; docs/autotune.md explains it.

`tuned` is the object that users call, `space` what may be chosen, `trials` the path of one choice: compile
(`compiling`), copy the arguments (`copies`), measure (`race`), and keep (`results`, `files`).
"""
