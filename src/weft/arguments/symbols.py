# SPDX-License-Identifier: Apache-2.0
"""What the arguments of one function say together about its symbolic dimensions.

In: each mention of a `Dim`, with the size an example has there. Out: one set of facts per name, and errors
where examples disagree. It also carries how the kinds of items are inferred. Next: tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.errors import ArgumentValueError
from weft.types.dims import Dim

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.arguments.base import ArgumentKind, Place

_LARGEST_32_BIT = (1 << 31) - 1


class Symbols:
    """The symbolic dimensions of one signature while it is being inferred.

    Args:
        infer: gives the kind of an argument, from its annotation, its value and its place.
        is_annotation: whether an annotation means something to some kind.
    """

    __slots__ = ("_facts", "_fixed", "_infer", "_observed", "is_annotation")

    def __init__(
        self,
        infer: Callable[[object, object, Place, Symbols], ArgumentKind],
        is_annotation: Callable[[object], bool],
    ) -> None:
        # Handed in, so that the kinds need not know the table that lists them.
        self._infer = infer
        self.is_annotation = is_annotation
        self._facts: dict[str, tuple[Dim, str]] = {}
        self._observed: dict[str, tuple[int, str]] = {}
        self._fixed: dict[str, int] = {}

    def infer(self, annotation: object, value: object, place: Place) -> ArgumentKind:
        """The kind of an item of a container."""
        return self._infer(annotation, value, place, self)

    def declare(self, dim: Dim, place: Place) -> None:
        """Notes one mention; a plain name takes the facts that another mention gives.

        Raises:
            SignatureError: if two mentions of a name give different facts.
        """
        if dim.name is None:
            return
        earlier, where = self._facts.get(dim.name, (Dim(dim.name), ""))
        plain = Dim(dim.name)
        if earlier == plain:
            self._facts[dim.name] = (dim, str(place))
        elif dim not in (plain, earlier):
            raise place.error(
                "DIM_FACTS_DIFFER", f"it says {dim.text}, where {where} says {earlier.text}"
            )

    def observe(self, dim: Dim, value: int, what: str, place: Place) -> Dim:
        """Notes the size that an example has where `dim` is mentioned.

        Args:
            dim: the symbol.
            value: the example's size, or its stride.
            what: how to call it: ``b.shape[0]``.
            place: for messages.

        Returns:
            The dimension, widened if it is independent and the size needs 64 bits.

        Raises:
            ArgumentValueError: if the size is not divisible as declared, or an earlier example differs.
        """
        self.declare(dim, place)
        if value % dim.divisibility:
            raise place.value_error(
                "DIM_NOT_DIVISIBLE",
                f"{what} is {value}, expected a multiple of {dim.divisibility}",
            )
        wide = not -_LARGEST_32_BIT - 1 <= value <= _LARGEST_32_BIT
        if dim.name is None:
            return dim.widened() if wide else dim
        earlier, where = self._observed.setdefault(dim.name, (value, what))
        if earlier != value:
            raise place.value_error(
                "DIM_SIZES_DIFFER",
                f"{what} is {value}, expected {earlier} to match {where}",
                hint=f"both are called {dim.name}; give them different names if they may differ",
            )
        if wide:
            facts, place_text = self._facts[dim.name]
            self._facts[dim.name] = (facts.widened(), place_text)
        return dim

    def fix(self, dim: Dim, value: int, what: str, place: Place) -> None:
        """Makes a symbol a constant: a fake tensor gives a size where the annotation names a symbol."""
        self.observe(dim, value, what, place)
        if dim.name is not None:
            self._fixed[dim.name] = value

    def resolve(self, dim: Dim) -> Dim | int:
        """The dimension with all that is known of its name.

        Raises:
            ArgumentValueError: if an example was seen that contradicts a divisibility declared later.
        """
        if dim.name is None or dim.name not in self._facts:
            return dim
        facts, where = self._facts[dim.name]
        if dim.name in self._observed:
            value, what = self._observed[dim.name]
            if value % facts.divisibility:
                raise ArgumentValueError(
                    "DIM_NOT_DIVISIBLE",
                    f"{where}: {what} is {value}, expected a multiple of {facts.divisibility}",
                )
        return self._fixed.get(dim.name, facts)
