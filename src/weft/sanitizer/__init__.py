# SPDX-License-Identifier: Apache-2.0
"""The sanitizer for users: its reports, and `weft.sanitize`.

In: an error of generated code with its values. Out: `SanitizerError` with `Report` objects. The checks themselves are
`weft.passes.check_accesses`.
"""
