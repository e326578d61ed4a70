# SPDX-License-Identifier: Apache-2.0
"""Time and memory of a stack of Llama's layers: a training step, and steps of decoding, beside torch and Liger.

In: a GPU with torch; Liger if it is installed. Sizes are those of Llama 3 8B with 4 layers, bf16; `--small` has tiny
ones and runs on the CPU. All candidates have the same weights, and their losses and gradients are compared before
anything is timed. Out: milliseconds beside the fastest peer's, with the peak memory of a training step.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from benchmarks.gpu_launch import add_installed_peers
from benchmarks.harness import Figure, interleave, medians, reason_of, report
from benchmarks.ready_kernels import difference, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PARTS = ("train", "decode")
RESIDUALS = "weft, residual in epilogue"
TOLERANCE = 0.1  # of the norm of a gradient: 16-bit floats through all layers
EPS = 1e-5
GIB = 1 << 30


class Sizes(NamedTuple):
    """A model and its inputs.

    Attributes:
        layers, hidden, intermediate, heads, key_heads, hdim, vocabulary: of the model.
        batch, tokens: of a training step.
        batches, caches: of steps of decoding.
        steps: of decoding in one measurement.
        element: name of the type of all parameters.
    """

    layers: int = 4
    hidden: int = 4096
    intermediate: int = 14336
    heads: int = 32
    key_heads: int = 8
    hdim: int = 128
    vocabulary: int = 128256
    batch: int = 2
    tokens: int = 4096
    batches: tuple[int, ...] = (1, 8, 64)
    caches: tuple[int, ...] = (1024, 8192, 32768)
    steps: int = 8
    element: str = "bfloat16"


SMALL = Sizes(2, 32, 48, 4, 2, 8, 64, 2, 8, (1, 2), (4, 8), 2, "float32")


class OfTorch:
    """Functions that a model is made of: torch's own, in the types in which transformers calls them."""

    is_packed = False  # whether both halves of the feed-forward layer are one GEMM

    def __init__(self, torch: Any) -> None:
        self.torch, self.functional = torch, torch.nn.functional
        self.linear, self.norm, self.embedding = self.layers()

    def layers(self) -> tuple[Any, Any, Any]:
        """Makers of linear layers, of norms and of embeddings."""
        nn = self.torch.nn
        return nn.Linear, nn.RMSNorm, nn.Embedding

    def angles(self, cos: Any, sin: Any) -> Any:
        """What `rope` takes, of cosines and sines, (tokens, pairs)."""
        return cos[:, None], sin[:, None]

    def rope(self, q: Any, k: Any, angles: Any) -> tuple[Any, Any]:
        """Queries and keys, (batch, tokens, heads, hdim), rotated."""
        return self._rotated(q, *angles), self._rotated(k, *angles)

    def _rotated(self, x: Any, cos: Any, sin: Any) -> Any:
        p, q = x.chunk(2, -1)
        return self.torch.cat((p * cos - q * sin, q * cos + p * sin), -1)

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        """Attention, (batch, tokens, heads, hdim)."""
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        attend = self.functional.scaled_dot_product_attention
        return attend(q, k, v, is_causal=causal, enable_gqa=True).transpose(1, 2)

    def gated(self, block: Any, x: Any) -> Any:
        """The hidden rows of a feed-forward layer."""
        return self.functional.silu(block.gate_proj(x)) * block.up_proj(x)

    def project(self, layer: Any, x: Any, residual: Any) -> Any:
        """A linear layer, plus a residual."""
        return residual + layer(x)

    def loss(self, x: Any, weight: Any, labels: Any) -> Any:
        """The mean loss of hidden rows, by the last layer's weight."""
        logits = self.functional.linear(x, weight).float()
        return self.functional.cross_entropy(logits, labels)


class OfLiger(OfTorch):
    """Liger's functions where it patches transformers' models, else torch's; an ImportError if it is not installed."""

    def layers(self) -> tuple[Any, Any, Any]:
        own: Any = importlib.import_module("liger_kernel.transformers")
        self._functions: Any = importlib.import_module("liger_kernel.transformers.functional")
        self._loss = own.LigerFusedLinearCrossEntropyLoss()

        def norm(size: int, eps: float, device: str, dtype: Any) -> Any:
            return own.LigerRMSNorm(size, eps=eps).to(device, dtype)

        linear, _, embedding = super().layers()
        return linear, norm, embedding

    def angles(self, cos: Any, sin: Any) -> Any:
        return [self.torch.cat((one, one), -1)[None] for one in (cos, sin)]

    def rope(self, q: Any, k: Any, angles: Any) -> tuple[Any, Any]:
        q, k = self._functions.liger_rope(q.transpose(1, 2), k.transpose(1, 2), *angles)
        return q.transpose(1, 2), k.transpose(1, 2)

    def gated(self, block: Any, x: Any) -> Any:
        return self._functions.liger_swiglu(block.gate_proj(x), block.up_proj(x))

    def loss(self, x: Any, weight: Any, labels: Any) -> Any:
        return self._loss(weight, x, labels)


class OfWeft(OfTorch):
    """weft's layers and functions alone, but for the sums with residuals."""

    is_packed = True

    def layers(self) -> tuple[Any, Any, Any]:
        return weft.nn.Linear, weft.nn.RMSNorm, weft.nn.Embedding

    def angles(self, cos: Any, sin: Any) -> Any:
        return cos, sin

    def rope(self, q: Any, k: Any, angles: Any) -> tuple[Any, Any]:
        return weft.kernels.rope(q, *angles), weft.kernels.rope(k, *angles)

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        return weft.kernels.attention(q, k, v, causal)

    def gated(self, block: Any, x: Any) -> Any:
        return weft.kernels.silu_mul(block.gate_up_proj(x))

    def loss(self, x: Any, weight: Any, labels: Any) -> Any:
        return weft.nn.linear_cross_entropy(x, weight, labels)


class OfWeftLogits(OfWeft):
    """weft's, with all logits in memory."""

    def loss(self, x: Any, weight: Any, labels: Any) -> Any:
        return weft.kernels.cross_entropy(weft.kernels.gemm(x, weight.T), labels).mean()


class OfWeftResiduals(OfWeft):
    """weft's, with each residual in the epilogue of its GEMM."""

    def project(self, layer: Any, x: Any, residual: Any) -> Any:
        return weft.kernels.gemm(x, layer.weight.T, residual=residual)


IMPLEMENTATIONS: dict[str, type[OfTorch]] = {
    "torch": OfTorch,
    "Liger": OfLiger,
    "weft": OfWeft,
    RESIDUALS: OfWeftResiduals,
    "weft, all logits": OfWeftLogits,
}


def model_of(torch: Any, sizes: Sizes, own: OfTorch, device: str) -> Any:
    """A model, made of an implementation's functions."""
    given = {"device": device, "dtype": getattr(torch, sizes.element)}
    linear = dict(given, bias=False)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            width, keys = sizes.heads * sizes.hdim, sizes.key_heads * sizes.hdim
            self.norms = torch.nn.ModuleList(
                own.norm(sizes.hidden, eps=EPS, **given) for _ in range(2)
            )
            self.q_proj = own.linear(sizes.hidden, width, **linear)
            self.k_proj = own.linear(sizes.hidden, keys, **linear)
            self.v_proj = own.linear(sizes.hidden, keys, **linear)
            self.o_proj = own.linear(width, sizes.hidden, **linear)
            halves = {"gate_up_proj": 2} if own.is_packed else {"gate_proj": 1, "up_proj": 1}
            for name, count in halves.items():
                setattr(self, name, own.linear(sizes.hidden, count * sizes.intermediate, **linear))
            self.down_proj = own.linear(sizes.intermediate, sizes.hidden, **linear)

        def forward(self, x: Any, angles: Any, cache: Any) -> Any:
            found = self.norms[0](x)
            q, k, v = (
                layer(found).unflatten(-1, (-1, sizes.hdim))
                for layer in (self.q_proj, self.k_proj, self.v_proj)
            )
            q, k = own.rope(q, k, angles)
            if cache is not None:
                for one, kept in zip((k, v), cache, strict=True):
                    kept[:, -1:] = one
                k, v = cache
            found = own.attention(q, k, v, cache is None).flatten(-2)
            x = own.project(self.o_proj, found, x)
            return own.project(self.down_proj, own.gated(self, self.norms[1](x)), x)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.embed = own.embedding(sizes.vocabulary, sizes.hidden, **given)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(sizes.layers))
            self.norm = own.norm(sizes.hidden, eps=EPS, **given)
            self.head = own.linear(sizes.hidden, sizes.vocabulary, **linear)

        def forward(self, tokens: Any, cos: Any, sin: Any, labels: Any, caches: Any = None) -> Any:
            """The loss, or without labels the logits of the token after the caches."""
            x, angles = self.embed(tokens), own.angles(cos, sin)
            for k, block in enumerate(self.blocks):
                x = block(x, angles, None if caches is None else caches[k])
            x = self.norm(x)
            if labels is None:
                return self.head(x)
            return own.loss(x.flatten(0, 1), self.head.weight, labels.flatten())

    return Model()


def load(torch: Any, model: Any, source: Any) -> None:
    """Gives a model the weights of the one whose halves have a weight each."""
    state = dict(source.state_dict())
    for name in [name for name in state if "gate_proj" in name]:
        if name not in model.state_dict():
            both = name, name.replace("gate_proj", "up_proj")
            packed = torch.cat([state.pop(one) for one in both])
            state[name.replace("gate_proj", "gate_up_proj")] = packed
    model.load_state_dict(state)


def angles_of(torch: Any, sizes: Sizes, first: int, count: int, device: str) -> tuple[Any, Any]:
    """Cosines and sines of positions, (count, pairs)."""
    pairs = torch.arange(sizes.hdim // 2, device=device) / (sizes.hdim // 2)
    positions = torch.arange(first, first + count, device=device)
    angles = positions[:, None] * 500000.0**-pairs
    dtype = getattr(torch, sizes.element)
    return angles.cos().to(dtype), angles.sin().to(dtype)


class Bench:
    """Measures on one device.

    Args:
        sizes: of the model.
        device: ``"cuda"`` or ``"cpu"``.
        repeats: measurements of each candidate.
    """

    def __init__(self, sizes: Sizes, device: str, repeats: int) -> None:
        torch: Any = importlib.import_module("torch")
        self.torch, self.sizes, self.device, self.repeats = torch, sizes, device, repeats
        torch.manual_seed(0)
        self.failed: dict[str, str] = {}
        self.models: dict[str, Any] = {}
        for name, kind in IMPLEMENTATIONS.items():
            try:
                model = model_of(torch, sizes, kind(torch), device)
                load(torch, model, self.models.get("torch", model))
                self.models[name] = model
            except Exception as error:
                self.failed[name] = reason_of(error)

    def synchronize(self) -> None:
        """Waits for the GPU."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def timed(self, call: Callable[[], object], count: int) -> Callable[[], float]:
        """A measurement of one call in milliseconds, of `count` in a row."""

        def measure() -> float:
            self.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            self.synchronize()
            return (time.perf_counter() - start) / count * 1e3

        return measure

    # Training.

    def train(self) -> Iterator[Figure]:
        """A training step of each candidate: forward, backward into new gradients."""
        torch, sizes = self.torch, self.sizes
        tokens = torch.randint(
            sizes.vocabulary, (sizes.batch, sizes.tokens + 1), device=self.device
        )
        inputs = (
            tokens[:, :-1].contiguous(),
            *angles_of(torch, sizes, 0, sizes.tokens, self.device),
            tokens[:, 1:].contiguous(),
        )
        backend = "inductor" if self.device == "cuda" else "aot_eager"
        calls: dict[str, tuple[Any, Any]] = {}
        for name, model in self.models.items():
            calls[name] = model, model
            if own := {"torch": "torch.compile", "weft": "weft, torch.compile"}.get(name):
                calls[own] = model, torch.compile(model, backend=backend, dynamic=False)
        failed, notes = dict(self.failed), dict[str, str]()
        expected: Any = None
        steps: dict[str, Callable[[], float]] = {}
        for name, (model, call) in calls.items():
            try:
                print(f"model/train/{name}: compiling", file=sys.stderr, flush=True)
                found = self.gradient(model, call, inputs)
                expected = found if expected is None else expected
                notes[name] = self.compared(found, expected)
                notes[name] += self.peak(model, call, inputs)
                steps[name] = self.timed(
                    lambda model=model, call=call: self.step(model, call, inputs), 1
                )
            except Exception as error:
                failed[name] = reason_of(error)
                model.zero_grad(set_to_none=True)
        del expected
        middle = medians(interleave(steps, self.repeats, failed))
        yield from self.figures("train", middle, failed, notes)

    def step(self, model: Any, call: Any, inputs: Any) -> Any:
        """One training step; the gradients are dropped."""
        loss = call(*inputs)
        loss.backward()
        model.zero_grad(set_to_none=True)
        return loss

    def gradient(self, model: Any, call: Any, inputs: Any) -> tuple[Any, Any]:
        """The loss, and the gradient of a weight of the first layer."""
        loss = call(*inputs)
        loss.backward()
        found = loss.detach().float(), model.blocks[0].q_proj.weight.grad.clone()
        model.zero_grad(set_to_none=True)
        return found

    def compared(self, found: Any, expected: Any) -> str:
        """How far a loss and a gradient are from torch's, or an empty string."""
        loss, grad = (difference(one, other) for one, other in zip(found, expected, strict=True))
        if loss <= TOLERANCE / 10 and grad <= TOLERANCE:
            return ""
        return f"wrong: its loss differs by {loss:.1e}, a gradient by {grad:.1e} of the norm; "

    def peak(self, model: Any, call: Any, inputs: Any) -> str:
        """The most memory of torch's allocator in a step, with the model's own parameters."""
        cuda = self.torch.cuda
        if self.device != "cuda":
            return "no peak memory on the CPU"
        before = cuda.memory_allocated()
        cuda.reset_peak_memory_stats()
        self.step(model, call, inputs)
        self.synchronize()
        own = sum(one.nbytes for one in model.parameters())
        return f"peak {(cuda.max_memory_allocated() - before + own) / GIB:.2f} GiB"

    def figures(
        self, what: str, middle: dict[str, float], failed: dict[str, str], notes: dict[str, str]
    ) -> Iterator[Figure]:
        """A row for each candidate, beside the fastest that is not weft's."""
        peers = {
            who: value
            for who, value in middle.items()
            if not who.startswith("weft") and "wrong" not in notes.get(who, "")
        }
        best = min(peers, key=lambda who: peers[who], default=None)
        for who, value in middle.items():
            peer = best if who != best else None
            theirs = None if peer is None else peers[peer]
            yield Figure(f"model/{what}/{who}", value, "ms", peer, theirs, notes.get(who, ""))
        for who, reason in failed.items():
            yield Figure(f"model/{what}/{who}", None, "ms", note=reason)

    # Decoding.

    def decode(self) -> Iterator[Figure]:
        """The step for one token of each sequence, of each batch and length of the caches."""
        torch, sizes = self.torch, self.sizes
        most = max(sizes.batches) * max(sizes.caches) * sizes.key_heads * sizes.hdim
        dtype = getattr(torch, sizes.element)
        with torch.no_grad():
            memory = [
                [torch.empty(most, device=self.device, dtype=dtype).normal_() for _ in range(2)]
                for _ in range(sizes.layers)
            ]
            for keys in sizes.caches:
                for batch in sizes.batches:
                    shape = batch, keys, sizes.key_heads, sizes.hdim
                    count = batch * keys * sizes.key_heads * sizes.hdim
                    caches = [[one[:count].view(shape) for one in layer] for layer in memory]
                    yield from self.decoded(batch, keys, caches)

    def decoded(self, batch: int, keys: int, caches: Any) -> Iterator[Figure]:
        """The rows of one batch and length: eagerly, and as a CUDA graph."""
        torch, sizes = self.torch, self.sizes
        tokens = torch.randint(sizes.vocabulary, (batch, 1), device=self.device)
        tables = angles_of(torch, sizes, keys - 1, 1, self.device)
        kinds: dict[str, dict[str, Callable[[], object]]] = {"eager": {}, "CUDA graph": {}}
        failed: dict[str, dict[str, str]] = {kind: {} for kind in kinds}
        notes: dict[str, str] = {}
        expected: Any = None
        for name in ("torch", "weft", RESIDUALS):
            if name not in self.models:
                failed["eager"][name] = self.failed[name]
                continue
            call = lambda model=self.models[name]: model(tokens, *tables, None, caches)  # noqa: E731
            try:
                found = call().float()
                expected = found if expected is None else expected
                apart = difference(found, expected)
                notes[name] = "" if apart <= TOLERANCE else f"wrong: differs by {apart:.1e}"
                kinds["eager"][name] = call
            except Exception as error:
                failed["eager"][name] = reason_of(error)
                continue
            if self.device == "cuda":
                try:
                    kinds["CUDA graph"][name] = self.captured(call)
                except Exception as error:
                    failed["CUDA graph"][name] = reason_of(error)
        for kind, calls in kinds.items():
            steps = {name: self.timed(call, sizes.steps) for name, call in calls.items()}
            middle = medians(interleave(steps, self.repeats, failed[kind]))
            what = f"decode, batch {batch}, {keys} keys, {kind}"
            yield from self.figures(what, middle, failed[kind], notes)

    def captured(self, call: Callable[[], object]) -> Callable[[], object]:
        """A call as a CUDA graph."""
        cuda = self.torch.cuda
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            for _ in range(3):
                call()
        cuda.current_stream().wait_stream(stream)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            call()
        return graph.replay


def figures(sizes: Sizes, device: str, repeats: int, parts: tuple[str, ...]) -> Iterator[Figure]:
    """The rows of the parts."""
    bench = Bench(sizes, device, repeats)
    measured: Mapping[str, Callable[[], Iterator[Figure]]] = {
        "train": bench.train,
        "decode": bench.decode,
    }
    for part in parts:
        yield from measured[part]()
        importlib.import_module("torch._dynamo").reset()  # graphs keep memory


def main() -> None:
    """Print every figure, or why there is none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line per figure")
    parser.add_argument("--repeats", type=int, default=7, help="measurements of each candidate")
    parser.add_argument("--part", action="append", choices=PARTS, help="measure this alone")
    parser.add_argument("--small", action="store_true", help="tiny sizes, on the CPU")
    arguments = parser.parse_args()
    add_installed_peers()
    if not arguments.small and (reason := missing()):
        report([Figure("model", None, "ms", note=reason)], arguments.json)
        return
    sizes, device = (SMALL, "cpu") if arguments.small else (Sizes(), "cuda")
    parts = tuple(arguments.part or PARTS)
    report(figures(sizes, device, arguments.repeats, parts), arguments.json)


if __name__ == "__main__":
    main()
