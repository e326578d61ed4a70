# SPDX-License-Identifier: Apache-2.0
"""Operations on threads: coordinates, collectives, barriers."""
