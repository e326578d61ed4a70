# SPDX-License-Identifier: Apache-2.0
"""Sharding strategies: how operators of ``weft.kernels`` run on a `DTensor` of torch.

In: declarations of operators. Out: for each a strategy registered with torch, or a refusal that says what to do. Rows,
elements and leading dims are sharded; dims that are reduced, scanned or sorted are replicated first, as in torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ELEMENTWISE: Final = ("copy", "gelu", "gelu_backward", "silu_mul", "silu_mul_backward")
_NORMS: Final = ("layer_norm_backward", "rms_norm_backward")
_LOSSES: Final = ("cross_entropy", "cross_entropy_backward")
_EMBEDDINGS: Final = ("embedding", "embedding_backward")
_ATTENTIONS: Final = ("attention", "attention_backward", "_sinks_backward")
_GEMMS: Final = ("matmul", "gemm", "_activation_backward")


def register_strategy(declared: Any, operator: Any) -> None:
    """Registers an operator's strategy with torch, whose `torch.distributed.tensor` is imported."""
    experimental: Any = import_module("torch.distributed.tensor.experimental")
    experimental.register_sharding(operator)(_strategy(declared, len(operator._schema.returns)))


def has_strategy(declared: Any) -> bool:
    """Whether an operator takes a `DTensor`."""
    others = (*_LOSSES, *_NORMS, *_GEMMS, *_EMBEDDINGS, *_ATTENTIONS)
    return bool(declared.rows) or declared.name in others


def _strategy(declared: Any, results: int) -> Callable[..., Any]:
    names = [one for one, _ in declared.parameters]

    def strategy(*arguments: Any) -> list[tuple[list[Any], list[Any]]]:
        placements: Any = import_module("torch.distributed.tensor")
        values = dict(zip(names, arguments, strict=False))
        tensors = {one: value for one, value in values.items() if hasattr(value, "shape")}

        def pair(outputs: list[Any], **inputs: Any) -> tuple[list[Any], list[Any]]:
            whole = placements.Replicate()
            return outputs, [inputs.get(one, whole) if one in tensors else None for one in values]

        found = [pair([placements.Replicate()] * results)]
        for outputs, inputs in _shardings(declared, values, tensors, results, placements):
            found.append(pair(outputs, **inputs))
        return found

    return strategy


def _shardings(
    declared: Any, values: dict[str, Any], tensors: dict[str, Any], results: int, placements: Any
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The results' and the arguments' placements along a dimension of a mesh; other tensors are whole."""
    name, shard = declared.name, placements.Shard
    ranks = {one: len(tensor.shape) for one, tensor in tensors.items()}
    if name in _LOSSES:
        for dim in range(ranks["logits"] - 1):
            yield [shard(dim)], dict.fromkeys(tensors, shard(dim))
    elif name in _NORMS:
        for dim in range(ranks["x"] - 1):
            sums = [placements.Partial()] * (results - 1)
            yield [shard(dim), *sums], {"gradient": shard(dim), "x": shard(dim)}
    elif name in _EMBEDDINGS:
        for dim in range(ranks["indices"]):
            split = {"indices": shard(dim), "gradient": shard(dim)}
            yield [placements.Partial() if "gradient" in tensors else shard(dim)], split
    elif name in _ATTENTIONS:
        if ranks["q"] == len("bshd"):  # sequences of one length
            of_batches = [one for one in tensors if one != "sinks"]
            result = placements.Partial() if name == "_sinks_backward" else shard(0)
            yield [result] * results, dict.fromkeys(of_batches, shard(0))
    else:
        rows = {one: least for one, least in declared.rows.items() if one in tensors}
        free = {ranks[one] - least for one, least in rows.items()}
        if len(free) == 1:
            is_packed = name == "silu_mul" and "up" not in tensors  # a row's halves belong together
            for dim in range(free.pop() + (name in _ELEMENTWISE and not is_packed)):
                yield [shard(dim)] * results, dict.fromkeys(rows, shard(dim))
    if name in _GEMMS and "offsets" not in tensors:
        last = max(ranks["a"], ranks["b"]) - 1
        full = [one for one in ("residual", "gradient") if one in ranks]
        by_row = {one: shard(ranks[one] - 2) for one in ("a", *full)}
        by_column = {one: shard(ranks[one] - 1) for one in ("b", *full)}
        yield [shard(last - 1)], by_row
        yield [shard(last)], by_column | {"bias": shard(0)}
        if set(tensors) == {"a", "b"} and not values.get("activation"):
            yield [placements.Partial()], {"a": shard(ranks["a"] - 1), "b": shard(ranks["b"] - 2)}
