# SPDX-License-Identifier: Apache-2.0
"""Random programs: helpers, kernels and a host function that launches them, with their arguments.

In: a seed. Out: a `Program`, whose meaning the documentation defines: indices are in range, loops end, and threads
meet only at barriers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.fuzz.expressions import FLOATS, INTEGERS, NUMBERS, Expressions, Helper, Scope, joins
from tools.fuzz.values import BF16, BOOL, I32, SIGNED, UNSIGNED, Type, summed, to_float, wide, wrap

if TYPE_CHECKING:
    from collections.abc import Callable

ELEMENTS = tuple(type_ for type_ in (*NUMBERS, BOOL) if type_ != BF16)  # NumPy has them
COUNTED = ("atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or", "atomic_xor")
ITERATIONS = 5
INDENT = "    "


@dataclass(frozen=True)
class Program:
    """A text that defines `host`, and the arguments of its call: arrays as (type, shape, numbers), or numbers."""

    seed: int
    source: str
    arguments: tuple[Any, ...]


_PAIRS = (("a0", "a1"), ("out0", "out1"))


@dataclass
class Place:
    """Where a statement stands.

    Attributes:
        scope: what it may name.
        together: all threads of the block come here, so a barrier may stand here.
        lanes: and none has returned, so a collective may stand here.
        loop: inside a loop that a condition of one thread may leave.
        result: text of a `return` that may stand here, or nothing.
        depth: how many statements are around it.
    """

    scope: Scope
    together: bool = False
    lanes: bool = False
    loop: bool = False
    result: Callable[[Scope], str] | None = None
    depth: int = 0

    def inner(self, *, together: bool = False, loop: bool | None = None) -> Place:
        """A place one statement deeper; together only if it says so."""
        both = together and self.together
        return Place(
            self.scope.copy(),
            both,
            both and self.lanes,
            self.loop if loop is None else loop,
            self.result if not both else None,
            self.depth + 1,
        )


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._restricting = random.Random(f"restrict {seed}")
        self.expressions = Expressions(self.random)
        self.block = self.random.choice((32, 32, 64, 33, 48))
        self.grid = self.random.choice((1, 2, 3))
        self.threads = self.block * self.grid
        self._names = 0
        self.inputs = {f"a{k}": self.random.choice(ELEMENTS) for k in range(2)}
        self.outputs = {f"out{k}": self.random.choice(ELEMENTS) for k in range(2)}
        if self.chance(0.3):  # tensors of one type may be exchanged
            self.inputs["a1"], self.outputs["out1"] = self.inputs["a0"], self.outputs["out0"]
        self.counters = self.random.choice(INTEGERS)
        self.counting = self.random.choice(COUNTED)
        self.scalars = {"n": I32, "s": self.random.choice(NUMBERS), "x": self.random.choice(FLOATS)}
        self.waits = self.random.random() < 0.5
        self.helpers: list[Helper] = []
        self.exchanged: list[tuple[str, str]] = []
        self.spread: set[str] = set()

    # ---- small things

    def name(self) -> str:
        """A name that nothing has."""
        self._names += 1
        return f"v{self._names}"

    def chance(self, probability: float) -> bool:
        """True as often as that."""
        return self.random.random() < probability

    def of(self, type_: Type, place: Place, depth: int | None = None) -> str:
        """An expression, mostly a small one."""
        if depth is None:
            depth = self.random.choice((1, 2, 2, 3))
        return self.expressions.of(type_, place.scope, depth)

    def condition(self, place: Place) -> str:
        """A condition."""
        return self.expressions.condition(place.scope, 1)

    def uniform(self) -> Scope:
        """Uniform values: the same in every thread."""
        return Scope(dict(self.scalars))

    # ---- statements

    def block_of(self, place: Place, most: int) -> list[str]:
        """Some statements; at least one line."""
        lines: list[str] = []
        for _ in range(self.random.randrange(1, most + 1)):
            lines += self.statement(place)
        return lines or ["pass"]

    def statement(self, place: Place) -> list[str]:
        """One statement, of any kind that may stand here."""
        simple = [self.assign, self.assign, self.change, self.change, self.several]
        if not place.scope.on_host and place.scope.elements:
            simple += [self.store, self.store, self.atomic]
        if self.exchanged:
            simple.append(self.exchange)
        compound = [
            self.branch,
            self.counted_loop,
            self.while_loop,
            self.unrolled,
            self.matching,
            self.running_sum,
        ]
        kinds: list[Callable[[Place], list[str]]] = list(simple)
        if place.depth < 3:
            kinds += compound
        if place.together:
            kinds += [self.tile, self.vote, self.reused, self.viewed]
            if place.depth < 2:
                kinds += [self.together_loop, self.together_branch]
        if place.lanes:
            kinds += [self.collective, self.collective, self.masked]
        if place.loop:
            kinds.append(self.leave)
        if place.result is not None and place.depth:
            kinds.append(self.early)
        return self.random.choice(kinds)(place)

    def assign(self, place: Place) -> list[str]:
        """A new variable."""
        name, type_ = self.name(), self.expressions.type()
        line = f"{name} = {self.of(type_, place)}"
        place.scope.variables[name] = type_
        return [line]

    def _variable(self, place: Place) -> tuple[str, Type] | None:
        free = [item for item in place.scope.variables.items() if item[0].startswith("v")]
        return self.random.choice(free) if free else None

    def change(self, place: Place) -> list[str]:
        """A new value for a variable, which keeps its type."""
        chosen = self._variable(place)
        if chosen is None:
            return self.assign(place)
        name, type_ = chosen
        if type_ == BOOL or self.chance(0.4):
            return [f"{name} = {self.of(type_, place)}"]
        sign = self.random.choice("+ - *".split() + (["&", "|", "^"] if type_.kind != "f" else []))
        others = [each for each in NUMBERS if joins(type_, each) == type_]
        value = self.expressions.weak(type_)
        if self.chance(0.7):
            value = self.of(self.random.choice(others), place)
        return [f"{name} {sign}= {value}"]

    def several(self, place: Place) -> list[str]:
        """Several variables at once: from a tuple, from a helper, or two that change places."""
        helpers = [helper for helper in place.scope.helpers if len(helper.results) == 2]
        variables = place.scope.variables
        twins = [
            (a, b)
            for a in variables
            for b in variables
            if a < b and a[0] == b[0] == "v" and variables[a] == variables[b]
        ]
        if twins and self.chance(0.4):
            a, b = self.random.choice(twins)
            return [f"{a}, {b} = {b}, {self.of(variables[a], place, 1)}"]
        first, second = self.name(), self.name()
        if helpers and self.chance(0.7):
            helper = self.random.choice(helpers)
            types = helper.results
            arguments = ", ".join(self.of(each, place, 2) for each in helper.parameters)
            value = f"{helper.name}({arguments})"
        else:
            types = (self.expressions.type(), self.expressions.type())
            value = ", ".join(self.of(each, place, 2) for each in types)
        variables[first], variables[second] = types
        return [f"{first}, {second} = {value}"]

    def store(self, place: Place) -> list[str]:
        """A value for an element of this thread's; one of the wide type narrows."""
        text, type_ = self.random.choice(
            [item for item in place.scope.elements.items() if not item[0].startswith("a")]
        )
        type_ = wide(type_) if self.chance(0.3) else type_
        if type_.kind == "f" and self.chance(0.2):
            type_ = self.expressions.random.choice(INTEGERS)  # converts, exactly or not
        return [f"{text} = {self.of(type_, place)}"]

    def exchange(self, place: Place) -> list[str]:
        """Variables that hold tensors of one type change which."""
        first, second = self.random.choice(self.exchanged)
        kind = self.random.random()
        if kind < 0.4:
            return [f"{first}, {second} = {second}, {first}"]
        if kind < 0.7:
            return [f"{first} = {first} if {self.condition(place)} else {second}"]
        return self.nested(f"if {self.condition(place)}:", [f"{first} = {second}"])

    def atomic(self, place: Place) -> list[str]:
        """An atomic operation: on a counter of all threads, or on an element of this thread."""
        if self.chance(0.5):
            index = self.expressions.index(8, place.scope, 2)
            return [f"weft.{self.counting}(counters, {index}, {self.of(self.counters, place)})"]
        array = self.random.choice(list(self.outputs))
        type_ = self.outputs[array]
        if type_ == BOOL:
            names = ["and", "or", "xor", "exchange", "cas"]
        elif type_.kind == "f":
            names = ["add", "sub", "exchange"]
        else:
            names = ["add", "sub", "max", "min", "and", "or", "xor", "exchange", "cas"]
        operation, name = self.random.choice(names), self.name()
        values = [self.of(type_, place, 2) for _ in range(2 if operation == "cas" else 1)]
        place.scope.variables[name] = type_
        return [f"{name} = weft.atomic_{operation}({array}, i, {', '.join(values)})"]

    # ---- control flow

    def nested(self, head: str, body: list[str]) -> list[str]:
        """A head and its body."""
        return [head, *(INDENT + line for line in body)]

    def branch(self, place: Place) -> list[str]:
        """`if`, with or without the others."""
        lines = self.nested(f"if {self.condition(place)}:", self.block_of(place.inner(), 2))
        if self.chance(0.3):
            lines += self.nested(f"elif {self.condition(place)}:", self.block_of(place.inner(), 2))
        if self.chance(0.5):
            lines += self.nested("else:", self.block_of(place.inner(), 2))
        return lines

    def counted_loop(self, place: Place) -> list[str]:
        """`for` over a range with any step, whose variable may be used."""
        inner, variable = place.inner(loop=True), self.name()
        start, stop = self.random.randrange(-3, 4), self.random.randrange(-3, 6)
        step = self.random.choice((1, 1, 1, 2, 3, -1, -2))
        types = [each for each in INTEGERS if each.name != "u64"]
        bounds = [str(start), str(stop), str(step)]
        widest = I32
        for k in range(2 if place.scope.on_host else 3):  # a host function counts by constants
            if self.chance(0.4):
                type_ = self.random.choice([*types, I32, I32])
                widest = joins(widest, type_) or widest
                bounded = f"({self.of(type_, place, 2)} & 7)"
                negative = type_.kind == "i" and self.chance(0.3)
                sign, more = "-" if negative else "", " + 1" if k == 2 else ""
                bounds[k] = f"{sign}({bounded}{more})"
        inner.scope.variables[variable] = I32 if widest == I32 else SIGNED[64]
        body = self.block_of(inner, 2)
        text = ", ".join(bounds if self.chance(0.6) or "(" in bounds[2] else bounds[:2])
        iterations = f"range({text})"
        if self.chance(0.2):
            iterations = f"weft.unroll({iterations}, {self.random.randrange(1, 6)})"
        lines = self.nested(f"for {variable} in {iterations}:", body)
        if self.chance(0.25):
            lines += self.nested("else:", self.block_of(place.inner(), 1))
        return lines

    def running_sum(self, place: Place) -> list[str]:
        """A sum that begins as a literal, and so is wide."""
        name, type_ = self.name(), self.random.choice(NUMBERS)
        start = "0.0" if type_.kind == "f" else "0"
        iterations = self.random.choice(("range", "weft.static_range"))
        term = f"{name} {self.random.choice('+-')}= {self.of(type_, place, 2)}"
        lines = [f"{name} = {start}"]
        lines += self.nested(f"for _ in {iterations}({self.random.randrange(1, 4)}):", [term])
        place.scope.variables[name] = wide(type_)
        return lines

    def while_loop(self, place: Place) -> list[str]:
        """`while`, which ends by a count of its own."""
        count, inner = self.name(), place.inner(loop=True)
        head = (
            f"while {count} < {self.random.randrange(1, ITERATIONS)} and {self.condition(place)}:"
        )
        body = [f"{count} += 1", *self.block_of(inner, 2)]
        lines = [f"{count} = weft.i32(0)", *self.nested(head, body)]
        if self.chance(0.25):
            lines += self.nested("else:", self.block_of(place.inner(), 1))
        return lines

    def unrolled(self, place: Place) -> list[str]:
        """A loop at compile time, over numbers that are constants in its body."""
        constant, inner = self.name().replace("v", "k"), place.inner(loop=False)
        name, type_ = self.name(), self.random.choice(NUMBERS)
        heads = (
            f"for {constant} in weft.static_range({self.random.randrange(1, 4)}):",
            f"for {constant} in (1, 3, 5):",
            f"for {constant}, _ in enumerate((1, 2)):",
            f"for {constant}, _ in zip((4, 2, 1), (0, 0, 0)):",
        )
        use = f"{name} = {self.of(type_, place, 2)} + {constant}"
        inner.scope.variables[name] = type_
        return self.nested(self.random.choice(heads), [use, *self.block_of(inner, 1)])

    def matching(self, place: Place) -> list[str]:
        """`match` on a small number."""
        subject = f"{self.of(I32, place, 2)} & 3"
        body = self.nested("case 0:", self.block_of(place.inner(), 1))
        body += self.nested("case 1 | 2:", self.block_of(place.inner(), 1))
        if self.chance(0.7):
            last, bound = place.inner(), self.name()
            last.scope.variables[bound] = I32
            guard = f" if {self.expressions.condition(last.scope, 1)}" if self.chance(0.5) else ""
            body += self.nested(f"case {bound}{guard}:", self.block_of(last, 1))
        return self.nested(f"match {subject}:", body)

    def leave(self, place: Place) -> list[str]:
        """`break` or `continue`."""
        word = self.random.choice(("break", "continue"))
        return self.nested(f"if {self.condition(place)}:", [word])

    def early(self, place: Place) -> list[str]:
        """A return before the end."""
        assert place.result is not None
        return self.nested(f"if {self.condition(place)}:", [place.result(place.scope)])

    # ---- threads together

    def tile(self, place: Place) -> list[str]:
        """Each thread writes an element of a shared array and reads another's."""
        tile = self.random.choice(list(self.tiles))
        type_, name = self.tiles[tile], self.name()
        index = self.expressions.index(self.block, place.scope, 1)
        lines = [f"{tile}[tid] = {self.of(type_, place)}", "weft.sync_threads()"]
        lines += [f"{name} = {tile}[{index}]", "weft.sync_threads()"]
        place.scope.variables[name] = type_
        return lines

    def reused(self, place: Place) -> list[str]:
        """A tile in the memory of another, whose elements are written again before they are read."""
        old = self.random.choice(list(self.tiles))
        fitting = [each for each in NUMBERS if each.bits <= self.tiles[old].bits]
        type_, name = self.random.choice(fitting), self.name()
        memory = name.replace("v", "memory")
        index = self.expressions.index(self.block, place.scope, 1)
        lines = [f"{memory} = weft.shared({self.block}, weft.{type_.name}, reuse={old})"]
        lines += [f"{memory}[tid] = {self.of(type_, place)}", "weft.sync_threads()"]
        lines += [f"{name} = {memory}[{index}]", "weft.sync_threads()"]
        place.scope.variables[name] = type_
        return lines

    def viewed(self, place: Place) -> list[str]:
        """An element of a tile of integers, read and perhaps written as another type of its width."""
        tiles = [tile for tile, type_ in self.tiles.items() if type_.kind in "iu"]
        if not tiles:
            return self.tile(place)
        tile, name = self.random.choice(tiles), self.name()
        type_ = self.tiles[tile]
        kinds = [UNSIGNED[type_.bits], SIGNED[type_.bits]]
        kinds += [each for each in FLOATS if each.bits == type_.bits and each != BF16]
        chosen = self.random.choice(kinds)
        view = f"{tile}.view(weft.{chosen.name})"
        index = self.expressions.index(self.block, place.scope, 1)
        first = f"{tile}[tid] = {self.of(type_, place)}"
        if chosen.kind != "f" and self.chance(0.4):
            first = f"{view}[tid] = {self.of(chosen, place)}"
        lines = [first, "weft.sync_threads()", f"{name} = {view}[{index}]", "weft.sync_threads()"]
        place.scope.variables[name] = chosen
        return lines

    def vote(self, place: Place) -> list[str]:
        """A barrier with an answer."""
        kind, name = self.random.choice(("count", "and", "or")), self.name()
        line = f"{name} = weft.sync_threads_{kind}({self.condition(place)})"
        place.scope.variables[name] = I32 if kind == "count" else BOOL
        return [line]

    def together_loop(self, place: Place) -> list[str]:
        """A loop that all threads run alike."""
        inner, variable = place.inner(together=True, loop=False), self.name()
        inner.scope.variables[variable] = I32
        stop = self.random.choice(("2", "3", "(n & 3)"))
        body = self.block_of(inner, 2)
        if self.chance(0.3):
            body += self.nested(f"if {variable} == 1:", [self.random.choice(("break", "continue"))])
        return self.nested(f"for {variable} in range({stop}):", body)

    def together_branch(self, place: Place) -> list[str]:
        """A branch that all threads take alike."""
        condition = self.expressions.condition(self.uniform(), 1)
        body = self.block_of(place.inner(together=True, loop=False), 2)
        return self.nested(f"if {condition}:", body)

    def _collected(self, place: Place, mask: str) -> tuple[str, Type]:
        """A call that lanes make together, and its type."""
        type_ = self.random.choice(INTEGERS)
        bitwise = ("warp.bitwise_and", "warp.bitwise_or", "warp.bitwise_xor")
        kinds = ("warp.sum", "warp.min", "warp.max", *bitwise, "shfl")
        kind = self.random.choice((*kinds, "shfl", "ballot", "warp.any", "warp.all", "match"))
        if kind in ("ballot", "warp.any", "warp.all"):
            value = self.condition(place)
            result = UNSIGNED[32] if kind == "ballot" else BOOL
            return f"weft.{kind}({value}{mask})", result
        if kind == "match":
            return f"weft.match({self.of(type_, place, 2)} & 3{mask})", UNSIGNED[32]
        if kind == "shfl":
            type_ = self.random.choice((*NUMBERS, BOOL))
            name = self.random.choice(("up", "down", "xor", "idx"))
            distance = str(self.random.randrange(32))
            if self.chance(0.4):
                distance = self.of(I32, place, 1)
                distance = f"({distance} & 31)"
            width = f", width={self.random.choice((2, 8, 16))}" if self.chance(0.3) else ""
            keyword = mask.replace(", ", ", mask=")
            value = self.of(type_, place, 2)
            return f"weft.shfl_{name}({value}, {distance}{keyword}{width})", type_
        if kind == "warp.sum" and not mask and self.block % 32 == 0 and self.chance(0.4):
            type_ = self.random.choice(FLOATS)
        result = summed(type_) if kind == "warp.sum" else type_
        return f"weft.{kind}({self.of(type_, place, 2)}{mask})", result

    def collective(self, place: Place) -> list[str]:
        """Collectives of a warp's lanes."""
        name = self.name()
        text, type_ = self._collected(place, "")
        place.scope.variables[name] = type_
        return [f"{name} = {text}"]

    def masked(self, place: Place) -> list[str]:
        """Collectives of a branch's lanes."""
        condition, mask, name = self.name(), self.name(), self.name()
        lines = [f"{condition} = weft.bool_({self.condition(place)})"]
        lines.append(f"{mask} = weft.ballot({condition})")
        inner = place.inner()
        text, type_ = self._collected(inner, f", {mask}")
        inner.scope.variables[name] = type_
        body = [f"{name} = {text}", *self.block_of(inner, 1)]
        place.scope.variables[mask] = UNSIGNED[32]
        place.scope.variables[condition] = BOOL
        return lines + self.nested(f"if {condition}:", body)

    # ---- functions

    def helper(self, number: int) -> list[str]:
        """A function that kernels and the host function call."""
        parameters = tuple(self.random.choice(NUMBERS) for _ in range(self.random.choice((1, 2))))
        results = tuple(self.random.choice(NUMBERS) for _ in range(self.random.choice((1, 1, 2))))
        names = [f"p{k}" for k in range(len(parameters))]

        def result(scope: Scope) -> str:
            return "return " + ", ".join(self.expressions.of(each, scope, 2) for each in results)

        scope = Scope(dict(zip(names, parameters, strict=True)), helpers=list(self.helpers))
        place = Place(scope, result=result)
        scope.on_host = True  # what both may do
        body = [*self.block_of(place, 2), result(scope)]
        self.helpers.append(Helper(f"h{number}", parameters, results))
        return self.nested(f"def h{number}({', '.join(names)}):", body)

    def _decorator(self) -> str:
        """A kernel's; a host function that passes one array twice to a restricted kernel tests nothing."""
        tensors = [*self.inputs, *self.outputs, "counters"]
        some = [name for name in tensors if self._restricting.random() < 0.5]
        chosen = self._restricting.choice(("", "", "True", f"{some}"))
        return f"@weft.kernel(restrict={chosen})" if chosen else "@weft.kernel"

    def _head(self, name: str) -> str:
        """A kernel's or the host function's. All have the same parameters."""
        listed = [f"{tensor}: weft.Tensor" for tensor in (*self.inputs, *self.outputs, "counters")]
        listed += [f"{scalar}: weft.{type_.name}" for scalar, type_ in self.scalars.items()]
        return f"def {name}({', '.join(listed)}):"

    def _touching(self, variables: dict[str, Type]) -> Scope:
        """These variables, the inputs, and element `i` of each array."""
        scope = Scope({**variables, **self.scalars}, helpers=list(self.helpers))
        scope.arrays = {name: (type_, self.threads) for name, type_ in self.inputs.items()}
        elements = {**self.inputs, **self.outputs}
        scope.elements = {f"{name}[i]": type_ for name, type_ in elements.items()}
        return scope

    def _written(self, place: Place, depth: int | None = None) -> list[str]:
        """A last value for each output's element."""
        return [
            f"{text} = {self.of(type_, place, depth)}"
            for text, type_ in place.scope.elements.items()
            if text.startswith("out")
        ]

    def iterations(self, name: str) -> list[str]:
        """A kernel whose threads share independent iterations, each with an element of its own."""
        prelude = Place(self.uniform())
        lines: list[str] = []
        for _ in range(self.random.randrange(3)):
            type_, known = self.expressions.type(), f"p{len(lines)}"  # which no iteration assigns
            lines.append(f"{known} = {self.of(type_, prelude)}")
            prelude.scope.variables[known] = type_
        rows = self.random.randrange(1, 5)
        columns = self.random.randrange(1, self.threads // rows + 1)
        index, extent, type_, width = self.random.choice(
            (
                ("i", "a0.shape[0]", I32, 0),
                ("i", "weft.i64(out0.shape[0])", SIGNED[64], 0),
                ("i", str(self.random.randrange(self.threads + 1)), I32, 0),
                ("i", "n & 31", I32, 0),
                ("(i,)", "out1.shape", I32, 0),
                ("(row, column)", f"({rows}, {columns})", I32, columns),
                ("(row, column)", "(n & 3, 8)", I32, 8),
            )
        )
        place = Place(self._touching({"i": type_, **prelude.scope.variables}))
        body: list[str] = []
        if width:
            place.scope.variables |= {"row": I32, "column": I32}
            body.append(f"i = row * {width} + column")
        is_short = self.chance(0.5)  # only of short iterations several are in turn
        body += [] if is_short else self.block_of(place, 4)
        if self.chance(0.2):
            body += self.nested(f"if {self.condition(place)}:", ["continue"])
            body += self.block_of(place, 2)
        body += self._written(place, 1 if is_short else None)
        lines += self.nested(f"for {index} in weft.each({extent}):", body)
        self.spread.add(name)
        return [self._decorator(), *self.nested(self._head(name), lines)]

    def kernel(self, name: str) -> list[str]:
        """A kernel whose threads know which they are."""
        lines = ["tid = weft.thread_idx.x", "i = weft.block_idx.x * weft.block_dim.x + tid"]
        scope = self._touching({"tid": I32, "i": I32})
        elements = {**self.inputs, **self.outputs}
        self.exchanged = [pair for pair in _PAIRS if len({elements[name] for name in pair}) == 1]
        for k, pair in enumerate(self.exchanged):
            self.exchanged[k] = names = (f"{pair[0]}_or", f"{pair[1]}_or")
            lines.append(f"{', '.join(names)} = {', '.join(pair)}")
            for either in names:
                scope.elements[f"{either}[i]"] = elements[pair[0]]
                if pair[0] in scope.arrays:
                    scope.arrays[either] = scope.arrays[pair[0]]
        self.tiles: dict[str, Type] = {}
        if self.waits:
            self.tiles = {f"tile{k}": self.random.choice((*NUMBERS, BOOL)) for k in range(2)}
            for tile, type_ in self.tiles.items():
                lines.append(f"{tile} = weft.shared({self.block}, weft.{type_.name})")
                lines.append(f"{tile}[tid] = {self.expressions.leaf(type_, scope)}")
            lines.append("weft.sync_threads()")
        if self.chance(0.4):
            type_ = self.random.choice(NUMBERS)
            lines.append(f"own = weft.local(4, weft.{type_.name})")
            lines += [f"own[{k}] = {self.expressions.leaf(type_, scope)}" for k in range(4)]
            scope.arrays["own"] = (type_, 4)
            scope.elements["own[(i + 1) & 3]"] = type_
        leaving = None if self.waits else lambda _: "return"
        place = Place(scope, together=self.waits, lanes=self.waits, result=leaving)
        lines += self.block_of(place, 5)
        if self.chance(0.3):
            lines += self.nested(f"if {self.condition(place)}:", ["return"])
            place.lanes = False
            lines += self.block_of(place, 2)
        lines += self._written(place)
        self.exchanged = []
        return [self._decorator(), *self.nested(self._head(name), lines)]

    def host(self, kernels: list[str]) -> list[str]:
        """The host function: arithmetic, branches, loops, and launches in them."""
        tensors = [*self.inputs, *self.outputs, "counters"]
        place = Place(Scope(dict(self.scalars), helpers=list(self.helpers), on_host=True))
        types = {**self.inputs, **self.outputs}
        self.exchanged = [pair for pair in _PAIRS if len({types[name] for name in pair}) == 1]
        lines = self.block_of(place, 2)
        made: list[str] = []
        for name in self.outputs:
            if self.chance(0.15):  # a tensor of the function's own, which it returns
                made.append(f"made_{name}")
                dtype = f"weft.{types[name].name}"
                number = "True" if types[name] == BOOL else "1"
                value = self.random.choice(
                    (
                        f"zeros({name}.shape, {dtype})",
                        f"full({name}.shape, {number}, {dtype})",
                        f"zeros_like({name})",
                    )
                )
                lines.append(f"made_{name} = weft.{value}")
        for kernel in kernels:
            given = [
                f"made_{name}" if f"made_{name}" in made and self.chance(0.7) else name
                for name in tensors
            ]
            lines += self._launched(kernel, given, place)
        lines += [f"return {', '.join(made)}"] if made else []
        return ["@weft.jit", *self.nested(self._head("host"), lines)]

    def _launched(self, kernel: str, tensors: list[str], place: Place) -> list[str]:
        values = [self.of(type_, place, 2) for type_ in self.scalars.values()]
        grid = f"weft.ceil_div(a0.shape[0], {self.block})" if self.chance(0.5) else str(self.grid)
        sizes = f"grid={grid}, block={self.block}"
        if kernel in self.spread and self.chance(0.7):
            count = str(self.random.randrange(2 * self.threads))
            over = self.random.choice(("a0.shape[0]", "out0.shape", count))
            sizes = f"over={over}" + self.random.choice(("", f", block={self.block}"))
        launch = f"{kernel}({', '.join([*tensors, *values])}).launch({sizes})"
        kind = self.random.random()
        if kind < 0.5:
            return [launch]
        if kind < 0.75:
            return self.nested(f"for {self.name()} in range((n & 1) + 1):", [launch])
        return self.nested(f"if {self.condition(place)}:", [launch])

    def numbers(self, type_: Type, count: int) -> list[Any]:
        """Elements of an array, among them those where something changes."""
        if type_ == BOOL:
            return [self.random.randrange(2) for _ in range(count)]
        if type_.kind != "f":
            corners = (0, 1, -1, 2, type_.lowest, type_.highest, type_.highest // 2)
            return [
                wrap(
                    self.random.choice(corners)
                    if self.chance(0.5)
                    else self.random.getrandbits(64),
                    type_,
                )
                for _ in range(count)
            ]
        corners = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-45, 65504.0)
        return [
            to_float(
                self.random.choice(corners)
                if self.chance(0.3)
                else self.random.gauss(0, 1) * 10.0 ** self.random.randrange(-4, 5),
                type_,
            )
            for _ in range(count)
        ]

    def program(self, seed: int) -> Program:
        """The whole program."""
        lines: list[str] = []
        for number in range(self.random.randrange(3)):
            lines += [*self.helper(number), ""]
        kernels = [f"kernel{k}" for k in range(self.random.choice((1, 1, 1, 2)))]
        for kernel in kernels:
            lines += [*(self.iterations if self.chance(0.25) else self.kernel)(kernel), ""]
        lines += self.host(kernels)
        arguments: list[Any] = [
            (type_.name, (self.threads,), self.numbers(type_, self.threads))
            for type_ in (*self.inputs.values(), *self.outputs.values())
        ]
        arguments.append((self.counters.name, (8,), self.numbers(self.counters, 8)))
        arguments += [self.numbers(type_, 1)[0] for type_ in self.scalars.values()]
        return Program(seed, "\n".join(lines) + "\n", tuple(arguments))


def program_of(seed: int) -> Program:
    """The program of a seed, always the same."""
    return Writer(seed).program(seed)
