# SPDX-License-Identifier: Apache-2.0
"""Declared writes of a function, for libraries that move and drop calls: torch and JAX.

In: names of tensors that it changes, and of those that it makes. Out: an error, or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.errors import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def check_effects(
    tensors: Sequence[str],
    mutated: Sequence[str],
    made: Mapping[str, object],
    maker: str,
    error: Callable[[str], Exception],
) -> None:
    """Checks the arguments ``mutates_args=`` and ``outputs=``.

    Args:
        tensors: names of the function's tensors.
        mutated: names of those that the caller passes and the function changes.
        made: name of each that the function is to make → a function that says how.
        maker: what such a function does, for messages.
        error: makes the library's exception of a message.
    """
    for what, names in (("mutates_args", mutated), ("outputs", made)):
        for name in names:
            if name not in tensors:
                raise error(
                    f"{what} has {brief(name)}, expected names of its tensors: {', '.join(tensors)}"
                )
    for name, make in made.items():
        if name in mutated:
            raise error(f"'{name}' is in mutates_args and in outputs, which are new ones")
        if not callable(make):
            raise error(f"outputs[{name!r}] is {brief(make)}, expected a function that {maker}")
