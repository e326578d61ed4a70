# SPDX-License-Identifier: Apache-2.0
"""Source analysis before tracing: a function's text and names."""
