# SPDX-License-Identifier: Apache-2.0
"""``launch(attributes=)``: launch attributes that have no option of their own.

In: objects of `weft.driver.launch_attributes`. Out: data, the driver's number and 64 bytes.
"""

from __future__ import annotations

from typing import Any, Final

from xdsl.dialects.builtin import BytesAttr, IntAttr

from weft.dialects.simt.kernel import LaunchAttributeAttr
from weft.driver.launch_attributes import (
    Cluster,
    Cooperative,
    LaunchAttribute,
    PreferredCluster,
    ProgrammaticStreamSerialization,
)
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.values import describe

# Launch attributes that the kernel is compiled for, or checked against → the option that says the same.
_OPTIONS: Final = {
    Cooperative.id: "cooperative=True",
    Cluster.id: "cluster=",
    ProgrammaticStreamSerialization.id: "programmatic=True",
    PreferredCluster.id: "cluster=, the only size",
}


def attribute_rows(value: Any) -> list[LaunchAttributeAttr]:
    """The attributes as data.

    Raises:
        TypeMismatchError: for what is not a tuple of them.
        ValueRangeError: for one that the kernel's code must know of, which an option of the launch says.
    """
    received = describe(value)
    is_sequence: bool = type(value) in (tuple, list)
    items: list[Any] = list(value) if is_sequence else [value]
    if not all(isinstance(item, LaunchAttribute) for item in items):
        raise TypeMismatchError(
            "LAUNCH_ATTRIBUTES",
            f"attributes is {received}; expected a tuple of launch attributes, known at compile time",
            hint="make them outside the host function, such as "
            "weft.driver.launch_attributes.Priority(-1)",
        )
    for item in items:
        option = _OPTIONS.get(item.id)
        if option is not None:
            raise ValueRangeError(
                "LAUNCH_ATTRIBUTES",
                f"attributes holds {item!r}, of which the kernel's code would not know",
                hint=f"write {option} in the launch",
            )
    return [_attribute_row(item) for item in items]


def _attribute_row(attribute: LaunchAttribute) -> LaunchAttributeAttr:
    return LaunchAttributeAttr(IntAttr(attribute.id), BytesAttr(attribute.pack()))
