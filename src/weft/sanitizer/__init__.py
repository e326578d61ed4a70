# SPDX-License-Identifier: Apache-2.0
"""The sanitizer as users see it: what it reports, and `weft.sanitize`.

In: an error of generated code with its values. Out: `SanitizerError` with `Report` objects. The checks themselves are
`weft.passes.check_accesses`.
"""
