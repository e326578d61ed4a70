# SPDX-License-Identifier: Apache-2.0
"""Operations on threads: which one this is, and waiting for the others."""
