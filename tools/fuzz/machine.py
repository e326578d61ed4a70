# SPDX-License-Identifier: Apache-2.0
"""The reference's machine: Python runs the program's own text, thread by thread, in a namespace that stands for weft.

In: source text and arguments. Out: arrays, changed in place. What waits for other threads becomes a `yield`, and
`_Block` answers it when all who take part are there.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tools.fuzz.functions import BUILTINS, MATH, bitcast, ceil_div, encoded, negated, select
from tools.fuzz.memory import ATOMICS, Array, Here, Place
from tools.fuzz.values import (
    BOOL,
    I32,
    TYPES,
    U32,
    Type,
    UnspecifiedError,
    Value,
    allow,
    arithmetic,
    augmented,
    common,
    convert,
    counted,
    default_float,
    floats_beside,
    product,
    set_default_float,
    summed,
    tick,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

BARRIERS = ("sync_threads", "sync_threads_count", "sync_threads_and", "sync_threads_or")
SHUFFLES = ("shfl_up", "shfl_down", "shfl_xor", "shfl_idx")
WAITING = (
    *BARRIERS, *SHUFFLES, "ballot", "warp.any", "warp.all", "match", "match_all", "warp.sum", "warp.min",
    "warp.max", "warp.bitwise_and", "warp.bitwise_or", "warp.bitwise_xor", "sync_warp",
)  # fmt: skip
EVERYONE = 0xFFFFFFFF
STEPS = 2_000_000

Request = tuple[str, int, tuple[Any, ...], dict[str, Any]]


# ---- the program's text


def _of_weft(node: ast.AST) -> str:
    """The name in `weft.name(...)` or `weft.warp.name(...)`, or nothing."""
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return name.removeprefix("weft.") if name.startswith("weft.") else ""


def _waiting_functions(tree: ast.Module) -> set[str]:
    """Functions that wait for other threads, themselves or through others."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found: set[str] = set()
    while True:
        more = {
            function.name
            for function in functions
            for node in ast.walk(function)
            if _of_weft(node) in WAITING
            or (isinstance(node, ast.Call) and getattr(node.func, "id", "") in found)
        }
        if more == found:
            return found
        found = more


class _Rewriter(ast.NodeTransformer):
    """What waits yields; `not` gives a `bool_`; products in sums are known; loops count; shared arrays know a site."""

    def __init__(self, waiting: set[str], kernels: set[str]) -> None:
        self.waiting, self.kernels, self.sites = waiting, kernels, 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = _of_weft(node)
        self.sites += 1
        site = ast.Constant(self.sites)
        if name in WAITING:
            keywords = [ast.keyword(each.arg, each.value) for each in node.keywords]
            named = ast.Call(ast.Name("dict", ast.Load()), [], keywords)
            request = [ast.Constant(name), site, ast.Tuple(node.args, ast.Load()), named]
            return ast.Yield(ast.Tuple(request, ast.Load()))
        if name == "shared":
            node.keywords.append(ast.keyword("site", site))
        called = getattr(node.func, "id", "")
        return ast.YieldFrom(node) if called in self.waiting - self.kernels else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, ast.Add | ast.Sub):
            node.left, node.right = _operand(node.left), _operand(node.right)
        self.generic_visit(node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if isinstance(node.op, ast.Add | ast.Sub):
            node.value = _operand(node.value)
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        kind = ast.Constant(type(node.op).__name__)
        before = ast.Name(node.target.id, ast.Load())
        changed = ast.Call(ast.Name("_augmented", ast.Load()), [kind, before, node.value], [])
        return ast.Assign([node.target], changed)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return ast.Call(ast.Name("_not", ast.Load()), [node.operand], [])
        return node

    def _loop(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(ast.Call(ast.Name("_tick", ast.Load()), [], [])))
        return node

    visit_For = visit_While = _loop


def _operand(node: ast.expr) -> ast.expr:
    """An operand of a sum, which knows its factors if it is a product."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return node
    return ast.Call(ast.Name("_product", ast.Load()), [node.left, node.right], [])


def _rewritten(source: str) -> Any:
    tree = ast.parse(source)
    kernels = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(
            ast.unparse(decorator).startswith("weft.kernel") for decorator in node.decorator_list
        )
    }
    tree = _Rewriter(_waiting_functions(tree), kernels).visit(tree)
    return compile(ast.fix_missing_locations(tree), "<reference>", "exec", dont_inherit=True)


# ---- threads that wait for each other


class _Block:
    """The threads of one block, of which some are generators that wait."""

    def __init__(self, machine: Machine, block: int, size: int) -> None:
        self.machine, self.block, self.size = machine, block, size
        self.stretch = 0
        self.threads: dict[int, Generator[Request, Any, None]] = {}
        self.waiting: dict[int, Request] = {}

    def run(self, function: Callable[..., Any], arguments: list[Any]) -> None:
        """Every thread to its end."""
        for thread in range(self.size):
            self._enter(thread)
            started = function(*arguments)
            if inspect.isgenerator(started):
                self.threads[thread] = started
                self._resume(thread, None)
        while self.waiting:
            answers = self._barrier() or self._collectives()
            if not answers:
                raise UnspecifiedError("threads wait for each other")
            for thread, answer in sorted(answers.items()):
                del self.waiting[thread]
                self._resume(thread, answer)

    def _enter(self, thread: int) -> None:
        self.machine.here.place = Place(self.machine.launches, self.block, self.stretch, thread)
        self.machine.thread = thread

    def _resume(self, thread: int, answer: Any) -> None:
        self._enter(thread)
        try:
            self.waiting[thread] = self.threads[thread].send(answer)
        except StopIteration:
            del self.threads[thread]

    def _barrier(self) -> dict[int, Any]:
        """Answers for all, if all that have not returned are at one barrier."""
        requests = list(self.waiting.values())
        name, site = requests[0][:2]
        if name not in BARRIERS or any(request[1] != site for request in requests):
            return {}
        self.stretch += 1
        votes = [bool(request[2][0]) for request in requests if request[2]]
        answer = {
            "sync_threads": None,
            "sync_threads_count": Value(I32, sum(votes)),
            "sync_threads_and": Value(BOOL, int(all(votes))),
            "sync_threads_or": Value(BOOL, int(any(votes))),
        }[name]
        return dict.fromkeys(self.waiting, answer)

    def _collectives(self) -> dict[int, Any]:
        """Answers for each group of lanes that has come together."""
        answers: dict[int, Any] = {}
        for thread, (name, site, arguments, named) in self.waiting.items():
            if thread in answers or name in BARRIERS:
                continue
            first = thread - thread % 32
            mask = _mask(name, arguments, named)
            lanes = [lane for lane in range(min(32, self.size - first)) if mask >> lane & 1]
            if any(first + lane not in self.threads for lane in lanes):
                raise UnspecifiedError("the mask names a lane that has returned")
            requests = {lane: self.waiting.get(first + lane) for lane in lanes}
            if any(request is None or request[1] != site for request in requests.values()):
                continue
            found = _collective(name, {lane: requests[lane] for lane in lanes}, mask)
            answers |= {first + lane: found[lane] for lane in lanes}
        return answers


def _mask(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> int:
    position = {"sync_warp": 0}.get(name, 2 if name in SHUFFLES else 1)
    mask = named.get("mask", arguments[position] if len(arguments) > position else EVERYONE)
    return int(mask.number if isinstance(mask, Value) else mask) & EVERYONE


def _collective(name: str, requests: dict[int, Any], mask: int) -> dict[int, Any]:
    """Result of each lane. A request is what a lane asked for; `mask` is in it too."""
    first = {lane: request[2][0] if request[2] else None for lane, request in requests.items()}
    if name == "sync_warp":
        return dict.fromkeys(first)
    if name in SHUFFLES:
        return {lane: _shuffled(name, lane, requests, first) for lane in requests}
    if name in ("ballot", "warp.any", "warp.all"):
        votes = sum(1 << lane for lane, value in first.items() if value)
        everyone = sum(1 << lane for lane in first)
        answer = {
            "ballot": Value(U32, votes),
            "warp.any": Value(BOOL, int(votes != 0)),
            "warp.all": Value(BOOL, int(votes == everyone)),
        }[name]
        return dict.fromkeys(first, answer)
    if name in ("match", "match_all"):
        bits = {lane: encoded(value) for lane, value in first.items()}
        if name == "match_all":
            return dict.fromkeys(first, Value(U32, mask if len(set(bits.values())) == 1 else 0))
        return {
            lane: Value(U32, sum(1 << other for other in bits if bits[other] == bits[lane]))
            for lane in bits
        }
    return dict.fromkeys(first, _reduced(name, list(first.values())))


def _shuffled(name: str, lane: int, requests: dict[int, Any], values: dict[int, Any]) -> Any:
    _, _, arguments, named = requests[lane]
    distance = int(arguments[1]) & 31
    width = int(named.get("width", 32))
    start = lane - lane % width
    source = {
        "shfl_up": lane - distance,
        "shfl_down": lane + distance,
        "shfl_xor": lane ^ distance,
        "shfl_idx": start + distance % width,
    }[name]
    outside = source >= start + width or (source < start and name != "shfl_xor")
    return values[lane] if outside or source not in values else values[source]


def _reduced(name: str, values: list[Value]) -> Value:
    type_ = (summed if name == "warp.sum" else counted)(values[0].type)
    values = [convert(value, type_) for value in values]
    if name in ("warp.min", "warp.max"):
        chosen = MATH.min if name == "warp.min" else MATH.max
        result = values[0]
        for value in values[1:]:
            result = chosen(result, value)
        return result
    if type_.kind == "f" and len(values) != 32:
        raise UnspecifiedError("a sum of floats over a part of a warp")
    sign = {"sum": "+", "and": "&", "or": "|", "xor": "^"}[re.split(r"[._]", name)[-1]]
    while len(values) > 1:  # adjacent values first
        pairs = [arithmetic(sign, values[k], values[k + 1]) for k in range(0, len(values) - 1, 2)]
        values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]


# ---- the namespace


class _Coordinate:
    """`thread_idx` and the others."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number

    @property
    def x(self) -> Value:
        return Value(I32, self._number())


class _Kernel:
    """What `@weft.kernel` makes."""

    def __init__(self, machine: Machine, function: Callable[..., Any], restrict: object) -> None:
        self.machine, self.function = machine, function
        names = list(inspect.signature(function).parameters)
        chosen = names if restrict is True else restrict or ()
        self.restricted = [names.index(name) for name in chosen]

    def __call__(self, *arguments: object) -> SimpleNamespace:
        bound = _bound(self.function, arguments)
        for number in self.restricted:
            argument = bound[number]
            if isinstance(argument, Array) and sum(each is argument for each in bound) > 1:
                raise UnspecifiedError("one array for two parameters, one of them restricted")
        return SimpleNamespace(
            # The number of iterations of a grid matters for speed alone.
            launch=lambda grid=1, block=1, over=0: self.machine.launch(
                self.function, bound, grid, block
            )
        )


def _bound(function: Callable[..., Any], arguments: Iterable[object]) -> list[object]:
    """Arguments in the types that the parameters say."""
    hints = [parameter.annotation for parameter in inspect.signature(function).parameters.values()]
    return [
        convert(argument, hint) if isinstance(hint, Type) else argument
        for argument, hint in zip(arguments, hints, strict=True)
    ]


class Machine:
    """One run of a program."""

    def __init__(self, source: str) -> None:
        self.here = Here()
        self.launches = self.block = self.thread = 0
        self.grid_size = self.block_size = 1
        self._shared: dict[int, Array] = {}
        self.names: dict[str, Any] = {
            "weft": self._weft(),
            "_not": negated,
            "_tick": tick,
            "_product": product,
            "_augmented": augmented,
        }
        self.names |= BUILTINS
        exec(_rewritten(source), self.names)

    def _weft(self) -> SimpleNamespace:
        return SimpleNamespace(
            **TYPES,
            **ATOMICS,
            math=MATH,
            Tensor=None,
            Constexpr=None,
            jit=lambda function: function,
            kernel=self._kernel,
            thread_idx=_Coordinate(lambda: self.thread),
            block_idx=_Coordinate(lambda: self.block),
            block_dim=_Coordinate(lambda: self.block_size),
            grid_dim=_Coordinate(lambda: self.grid_size),
            lane_id=lambda: Value(I32, self.thread % 32),
            warp_id=lambda: Value(I32, self.thread // 32),
            local=self._local,
            shared=self._share,
            zeros=lambda shape, dtype: self._new(shape, dtype, 0),
            full=lambda shape, value, dtype: self._new(shape, dtype, value),
            zeros_like=lambda array: self._new(array.shape, array.dtype, 0),
            each=self._each,
            bitcast=bitcast,
            ceil_div=ceil_div,
            select=select,
            where=select,
            static_range=range,
            unroll=lambda values, factor: values,
        )

    def _kernel(self, function: Any = None, *, restrict: object = ()) -> Any:
        """A kernel; a promise of `restrict` that is kept changes no result."""
        if function is None:
            return lambda function: _Kernel(self, function, restrict)
        return _Kernel(self, function, restrict)

    def _local(self, shape: Any, dtype: Type) -> Array:
        dims = shape if isinstance(shape, tuple) else (shape,)
        return Array(self.here, dtype, dims, private=True)

    def _each(self, extent: Any) -> Generator[Any]:
        """All iterations, in the first thread of the grid; to the arrays each is a thread of a block of its own."""
        if self.block or self.thread:
            return
        extents = extent if isinstance(extent, tuple) else (extent,)
        place = self.here.place
        for number, indices in enumerate(itertools.product(*map(range, map(int, extents)))):
            self.here.place = Place(self.launches, number, place.stretch, 0)
            values = [
                Value(common(I32, size.type) if isinstance(size, Value) else I32, index)
                for size, index in zip(extents, indices, strict=True)
            ]
            yield tuple(values) if isinstance(extent, tuple) else values[0]
        self.here.place = place

    def _new(self, shape: Any, dtype: Type, value: object = None) -> Array:
        """A tensor that a host function makes; its elements are those of a shape like an argument's."""
        dims = tuple(int(size) for size in (shape if isinstance(shape, tuple) else (shape,)))
        made = Array(self.here, dtype, dims)
        if value is not None:
            made.numbers = [convert(value, dtype).number] * len(made.numbers)
        return made

    def _share(self, shape: Any, dtype: Type, site: int, reuse: object = None) -> Array:
        """One array for each place; what shares memory is written before it is read, or it is not a test."""
        del reuse
        dims = shape if isinstance(shape, tuple) else (shape,)
        return self._shared.setdefault(site, Array(self.here, dtype, dims))

    def launch(
        self, function: Callable[..., Any], arguments: list[Any], grid: Any, block: Any
    ) -> None:
        """Every block, one after the other."""
        self.launches += 1
        self.grid_size, self.block_size = int(grid), int(block)
        if not 1 <= self.block_size <= 1024 or self.grid_size < 0:
            raise UnspecifiedError("a launch that is refused")
        before = default_float()
        floats_beside(arguments)
        for number in range(self.grid_size):
            self.block, self._shared = number, {}
            _Block(self, number, self.block_size).run(function, arguments)
        set_default_float(before)

    def call(self, name: str, arguments: Iterable[object]) -> Any:
        """Runs a host function; what it returns."""
        function = self.names[name]
        bound = _bound(function, arguments)
        floats_beside(bound)
        return function(*bound)


def run(source: str, arguments: Iterable[Any]) -> list[list[Any] | None]:
    """The program's `host` on arrays and numbers; what each array holds afterwards, also those that it returns.

    Args:
        source: the program.
        arguments: `(type name, shape, numbers)` for an array, else a number.

    Raises:
        UnspecifiedError: if the program does what the documentation leaves open.
    """
    allow(STEPS)
    machine = Machine(source)
    given: list[Any] = [
        Array(machine.here, TYPES[argument[0]], argument[1], argument[2])
        if isinstance(argument, tuple)
        else argument
        for argument in arguments
    ]
    made = machine.call("host", given)
    given += made if isinstance(made, tuple) else () if made is None else (made,)
    return [array.numbers if isinstance(array, Array) else None for array in given]
