# SPDX-License-Identifier: Apache-2.0
"""Layers of neural networks: softmax, norms, losses, activations, rope, dropout, embedding."""
