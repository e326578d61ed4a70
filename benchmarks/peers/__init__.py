# SPDX-License-Identifier: Apache-2.0
"""One program per peer: compiles add_one when told to. They run in the environment .venv-peers.

None of them imports weft, and none needs a GPU.
"""
