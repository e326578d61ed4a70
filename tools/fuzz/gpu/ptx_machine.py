# SPDX-License-Identifier: Apache-2.0
"""Threads of a block that run a kernel's PTX together.

In: a `PtxKernel`, its parameters, global memory. Out: the memory, changed. Of threads that diverged, those at the
lowest instruction run first, so that they meet again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tools.fuzz.gpu import ptx_warp
from tools.fuzz.gpu.ptx_memory import GLOBAL, Memory
from tools.fuzz.gpu.ptx_numbers import (
    FLOATS,
    NotEmulatedError,
    bits,
    compute,
    dtype_of,
    of_pair,
    pair,
    typed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.fuzz.gpu.ptx_text import Instruction, PtxKernel

SHARED_BYTES: Final = 227 << 10
_MOST_STEPS: Final = 400_000
_NOTHING: Final = (
    *("fence", "membar", "griddepcontrol", "prefetch", "nanosleep"),
    *("bar.warp", "cp.async.commit", "cp.async.wait", "wgmma.fence", "setmaxnreg"),
)


class HangError(Exception):
    """Threads wait for each other, or run for too long."""


class Block:
    """The threads of one block.

    Attributes:
        registers: by name, 64 bits for each thread.
        at: the number of each thread's next instruction.
        waits: whether it stands at a barrier.
    """

    def __init__(
        self,
        kernel: PtxKernel,
        parameters: Sequence[int],
        memory: Memory,
        size: int,
        block: int,
        grid: int,
    ) -> None:
        self.kernel, self.memory, self.size = kernel, memory, size
        self.parameters = dict(zip(kernel.parameters, parameters, strict=True))
        self.shared = Memory([np.full(SHARED_BYTES, 0xCC, np.uint8)], 0)
        self.registers: dict[str, np.ndarray] = {}
        self.at = np.zeros(size, np.int64)
        self.waits = np.zeros(size, bool)
        self.ended = np.zeros(size, bool)
        threads = np.arange(size, dtype=np.uint64)
        zeros = np.zeros(size, np.uint64)
        self.special = {
            "%tid.x": threads,
            "%ntid.x": zeros + np.uint64(size),
            "%ctaid.x": zeros + np.uint64(block),
            "%nctaid.x": zeros + np.uint64(grid),
            "%laneid": threads % np.uint64(32),
            "%dynamic_smem_size": zeros,
        }
        for axis in "yz":
            self.special |= {f"%tid.{axis}": zeros, f"%ctaid.{axis}": zeros}
            self.special |= dict.fromkeys(
                (f"%ntid.{axis}", f"%nctaid.{axis}"), zeros + np.uint64(1)
            )

    def run(self) -> None:
        """Runs all threads to their end.

        Raises:
            HangError: if they never come there.
        """
        instructions = self.kernel.instructions
        for _ in range(_MOST_STEPS):
            runs = ~self.ended & ~self.waits
            if not runs.any():
                if self.ended.all():
                    return
                self.waits[:] = False
                continue
            place = int(self.at[runs].min())
            if place >= len(instructions):
                self.ended |= runs & (self.at == place)
                continue
            mask = runs & (self.at == place)
            one = instructions[place]
            taken = mask
            if one.guard:
                taken = mask & ((self.value(one.guard) != 0) ^ one.not_)
            self.at[mask] += 1
            if taken.any():
                self.execute(one, taken)
        raise HangError(f"more than {_MOST_STEPS} steps")

    def execute(self, one: Instruction, mask: np.ndarray) -> None:
        """One instruction, for the threads of a mask."""
        parts = one.parts
        match parts[0]:
            case "bra":
                self.at[mask] = self.kernel.labels[one.operands[0]]
            case "ret" | "exit":
                self.ended |= mask
            case "bar" | "barrier" if "warp" not in parts and "cluster" not in parts:
                self.waits |= mask
            case "ld":
                self._load(one, mask)
            case "st":
                self._store(one, mask)
            case "red" | "atom":
                self._change(one, mask)
            case "cp" if one.name.startswith("cp.async.c") and "shared" in parts:
                self._copy(one, mask)
            case "shfl" | "ldmatrix" | "stmatrix" | "mma" | "vote" | "elect":
                ptx_warp.execute(self, one, mask)
            case _ if one.name.startswith(_NOTHING):
                pass
            case _:
                self._compute(one, mask)

    def _compute(self, one: Instruction, mask: np.ndarray) -> None:
        parts, (target, *sources) = one.parts, one.operands
        if parts[0] == "mov" and target.startswith("{"):
            names = self.listed(target)
            value = self.value(sources[0])
            width = int(parts[-1][1:]) // len(names)
            for number, name in enumerate(names):
                part = value >> np.uint64(width * number)
                self.assign(name, part & np.uint64((1 << width) - 1), mask)
            return
        if parts[0] == "mov" and sources[0].startswith("{"):
            names = self.listed(sources[0])
            width = int(parts[-1][1:]) // len(names)
            found = np.zeros(self.size, np.uint64)
            for number, name in enumerate(names):
                low = self.value(name) & np.uint64((1 << width) - 1)
                found |= low << np.uint64(width * number)
            self.assign(target, found, mask)
            return
        if parts[0] == "cvta":
            self.assign(target, self.value(sources[0]), mask)
            return
        self.assign(target, compute(parts, [self.value(source) for source in sources]), mask)

    def value(self, text: str) -> np.ndarray:
        """An operand, as 64 bits for each thread."""
        if text in self.special:
            return self.special[text]
        if text.startswith("%"):
            found = self.registers.get(text)
            if found is None:
                found = self.registers[text] = np.zeros(self.size, np.uint64)
            return found
        return np.full(self.size, self._constant(text), np.uint64)

    def _constant(self, text: str) -> int:
        if text in self.kernel.shared:
            return self.kernel.shared[text]
        if text[:2] in ("0f", "0F", "0d", "0D"):
            return int(text[2:], 16)
        try:
            return int(text.rstrip("U"), 0) & (1 << 64) - 1
        except ValueError:
            raise NotEmulatedError(f"operand {text}") from None

    def assign(self, name: str, value: np.ndarray, mask: np.ndarray) -> None:
        """Gives the threads of a mask a register's new value."""
        if name == "_":
            return
        old = self.registers.get(name)
        if old is None or mask.all():
            old = np.zeros(self.size, np.uint64) if old is None else old
        self.registers[name] = np.where(mask, value, old)

    @staticmethod
    def listed(text: str) -> list[str]:
        """The registers of `{a, b}`, or the only one."""
        return [part.strip() for part in text.strip("{} ").split(",")]

    def addresses(self, text: str) -> np.ndarray:
        """Those of `[register+distance]`."""
        inside = text.strip("[] ")
        base, sign, distance = inside.partition("+")
        found = self.value(base.strip())
        if sign:
            found = found + np.uint64(int(distance, 0) & (1 << 64) - 1)
        return found

    def space(self, parts: Sequence[str], addresses: np.ndarray) -> Memory:
        """Whose addresses they are; generic ones tell by their size."""
        if "shared" in parts or "shared::cta" in parts:
            return self.shared
        if "global" in parts or (len(addresses) and int(addresses.min()) >= GLOBAL):
            return self.memory
        return self.shared

    def _width(self, one: Instruction) -> int:
        kind = one.parts[-1]
        return 1 if kind == "pred" else dtype_of(kind).itemsize

    def _load(self, one: Instruction, mask: np.ndarray) -> None:
        target, source = one.operands[:2]
        if "param" in one.parts:
            name, _, distance = source.strip("[] ").partition("+")
            assert not distance
            self.assign(target, np.full(self.size, self.parameters[name], np.uint64), mask)
            return
        names, width = self.listed(target), self._width(one)
        addresses = self.addresses(source)[mask]
        found = self.space(one.parts, addresses).read(addresses, width, len(names))
        for name, value in zip(names, found, strict=True):
            whole = np.zeros(self.size, np.uint64)
            if one.parts[-1][0] == "s":
                value = value.astype(f"u{width}").view(f"i{width}").astype(np.int64).view(np.uint64)
            whole[mask] = value
            self.assign(name, whole, mask)

    def _store(self, one: Instruction, mask: np.ndarray) -> None:
        target, source = one.operands
        addresses = self.addresses(target)[mask]
        values = [self.value(name)[mask] for name in self.listed(source)]
        self.space(one.parts, addresses).write(addresses, self._width(one), values)

    def _copy(self, one: Instruction, mask: np.ndarray) -> None:
        target, source, size, *rest = one.operands
        count = int(size)
        to, source_ = self.addresses(target)[mask], self.addresses(source)[mask]
        taken = self.value(rest[0])[mask] if rest else np.full(len(to), count, np.uint64)
        zeros = np.zeros(1, np.uint64)
        for address, other, own in zip(to, source_, taken, strict=True):
            moved = [
                self.memory.read(np.array([other + np.uint64(place)]), 1)[0]
                if place < own
                else zeros
                for place in range(count)
            ]
            self.shared.write(np.array([address]), 1, moved)

    def _change(self, one: Instruction, mask: np.ndarray) -> None:
        """Atomic operations, thread after thread."""
        is_red = one.parts[0] == "red"
        target, source, *rest = one.operands if is_red else one.operands[1:]
        kind = one.parts[-1]
        is_pair = kind.endswith("x2")
        scalar = kind[:-2] if is_pair else kind
        width = dtype_of(scalar).itemsize * (2 if is_pair else 1)
        operation = next(
            (part for part in one.parts if part in _CHANGES or part in ("exch", "cas")), ""
        )
        if not operation:
            raise NotEmulatedError(one.name)
        addresses = self.addresses(target)
        space = self.space(one.parts, addresses[mask])
        values = [self.value(name) for name in self.listed(source)]
        olds = np.zeros(self.size, np.uint64)
        other = self.value(rest[0]) if rest else None
        for thread in np.flatnonzero(mask):
            own = addresses[thread : thread + 1]
            before = space.read(own, width, len(values))
            after = []
            for old, value in zip(before, values, strict=True):
                given = value[thread : thread + 1]
                if operation == "cas":
                    assert other is not None
                    after.append(
                        other[thread : thread + 1] if old[0] == given[0] & _mask(width) else old
                    )
                elif operation == "exch":
                    after.append(given)
                else:
                    after.append(_changed(operation, old, given, scalar, is_pair=is_pair))
            space.write(own, width, after)
            olds[thread] = before[0][0]
        if not is_red:
            self.assign(one.operands[0], olds, mask)


def _mask(width: int) -> np.uint64:
    return np.uint64((1 << 8 * width) - 1)


_CHANGES: Final[dict[str, Callable[..., np.ndarray]]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _changed(
    operation: str, old: np.ndarray, value: np.ndarray, kind: str, *, is_pair: bool
) -> np.ndarray:
    """Value of the element afterwards."""
    change = _CHANGES[operation]
    if is_pair:
        return of_pair(change(pair(old, kind), pair(value, kind)).astype(FLOATS[kind]))
    one = change(typed(old, kind), typed(value, kind))
    return bits(one.astype(dtype_of(kind)))
