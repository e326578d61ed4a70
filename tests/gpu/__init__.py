# SPDX-License-Identifier: Apache-2.0
"""All that needs an NVIDIA GPU. `make gpu` runs it, `make test` skips it with the reason."""
