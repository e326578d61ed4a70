# SPDX-License-Identifier: Apache-2.0
"""Types of the `ffi` dialect: a tensor argument, and a container argument.

Out: `!ffi.tensor`, `!ffi.array`.
"""

from __future__ import annotations

from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """`!ffi.tensor`: a tensor argument; checks establish the rest one by one."""

    name = "ffi.tensor"


@irdl_attr_definition
class ArrayType(ParametrizedAttribute, TypeAttribute):
    """`!ffi.array`: an argument that is a sequence of others."""

    name = "ffi.array"
