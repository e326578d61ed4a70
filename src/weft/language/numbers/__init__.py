# SPDX-License-Identifier: Apache-2.0
"""Operations on numbers: operators, conversions, mathematics."""
