# SPDX-License-Identifier: Apache-2.0
"""Types of the `ffi` dialect: an argument that is a tensor, one that holds others.

Out: `!ffi.tensor`, `!ffi.array`.
"""

from __future__ import annotations

from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """`!ffi.tensor`: an argument that is a tensor; what else it is, checks say one by one."""

    name = "ffi.tensor"


@irdl_attr_definition
class ArrayType(ParametrizedAttribute, TypeAttribute):
    """`!ffi.array`: an argument that is a sequence of others."""

    name = "ffi.array"
