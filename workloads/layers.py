"""The kernels of one layer on one GPU: which matrices, how much attention and cache, which messages.

Tensor parallelism cuts the heads and the inner width of the feed-forward part (Shoeybi et al., Megatron-LM,
arXiv:1909.08053): the projections into the heads and into the inner width by columns, those out of them by rows, with
a sum over the GPUs after each pair. Expert parallelism gives every GPU some of the experts, and sends tokens to them
and back. `check_split` says which numbers of GPUs a model can be cut into.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..errors import ParameterError
from .architecture import Architecture


@dataclass(frozen=True)
class Matrix:
    """Weights of one product on one GPU: ``outputs`` by ``inputs``, and the part of the layers that have it."""

    name: str
    outputs: int
    inputs: int
    share: float = 1.0


@dataclass(frozen=True)
class Experts:
    """The experts of one layer on one GPU.

    ``held`` of ``all`` experts, of which a token visits ``visited``; ``matrices`` are those of one expert, and the
    ``share`` of the layers that have them. Tokens come from ``senders`` groups of GPUs that cut heads among them; below
    1 it is a part of the tokens of one.
    """

    matrices: tuple[Matrix, ...]
    held: int
    all: int
    visited: int
    share: float
    senders: float

    def visits(self, tokens: ArrayLike) -> FloatArray:
        """Return the visits to the experts held here, if the tokens of each sender spread evenly."""
        return np.asarray(tokens, dtype=np.float64) * self.senders * self.visited * self.held / self.all

    def touched(self, tokens: ArrayLike) -> FloatArray:
        """Return how many of the experts held here are expected to be visited at all, tokens choosing at random."""
        missed = (1.0 - self.visited / self.all) ** (np.asarray(tokens, dtype=np.float64) * self.senders)
        return np.maximum(self.held * (1.0 - missed), 1.0)


@dataclass(frozen=True)
class Layer:
    """What one GPU does for an average layer: every token meets the ``matrices``, some the ``experts``."""

    matrices: tuple[Matrix, ...]
    experts: Experts | None

    @property
    def weights(self) -> float:
        """Weights of an average layer on this GPU."""
        found = sum(one.outputs * one.inputs * one.share for one in self.matrices)
        if self.experts:
            each = sum(one.outputs * one.inputs for one in self.experts.matrices)
            found += self.experts.share * self.experts.held * each
        return found


def check_split(model: Architecture, tp: int, ep: int = 1) -> None:
    """Raise unless a model can be cut over ``tp`` GPUs by its heads and over ``ep`` by its experts.

    Raises
    ------
    ParameterError
        ``tp`` does not divide the query heads, neither divides the heads with keys nor is a multiple of them, or ``ep``
        does not divide the experts; the message says what would.
    """
    if not _cuts_heads(model, tp):
        fits = [n for n in range(1, min(model.heads, 64) + 1) if _cuts_heads(model, n)]
        heads = f"{model.heads} heads" + (f", {model.kv_heads} with keys," if model.kv_heads != model.heads else "")
        raise ParameterError("tp", f"must divide the {heads} of {model.name}, got {tp}: {_few(fits)} do")
    if ep > 1 and not model.experts:
        raise ParameterError("ep", f"must be 1, got {ep}: {model.name} has no experts")
    if ep > 1 and model.experts % ep:
        raise ParameterError("ep", f"must divide the {model.experts} experts of {model.name}, got {ep}")


def _cuts_heads(model: Architecture, tp: int) -> bool:
    return model.heads % tp == 0 and (model.kv_heads % tp == 0 or tp % model.kv_heads == 0)


def layer(model: Architecture, tp: int = 1, ep: int = 1) -> Layer:
    """Return what one of ``tp`` GPUs does for an average layer; experts are cut over ``ep`` groups of them.

    Examples
    --------
    >>> from flopcast.workloads.architecture import find
    >>> for one in layer(find("llama-3.1-70b"), tp=8).matrices:
    ...     print(one.name, one.outputs, one.inputs)
    qkv 1280 8192
    out 8192 1024
    up 7168 8192
    down 8192 3584
    """
    plain = model.plain_layers / model.layers
    shared = model.shared_experts * model.expert_ffn
    matrices = list(_attention(model, tp))
    if model.plain_layers:
        matrices += _feed_forward(model, model.ffn, tp, plain)
    if shared:
        matrices += _feed_forward(model, shared, tp, 1.0 - plain, "shared ")
    if not model.experts:
        return Layer(tuple(matrices), None)
    matrices.append(Matrix("router", model.experts, model.hidden, 1.0 - plain))
    cut = 1 if ep > 1 else tp
    each = tuple(_feed_forward(model, model.expert_ffn, cut, 1.0, "expert "))
    senders = ep / tp if ep > 1 else 1.0
    held = model.experts // ep
    return Layer(tuple(matrices), Experts(each, held, model.experts, model.experts_per_token, 1.0 - plain, senders))


def cached_per_token(model: Architecture, tp: int) -> float:
    """Return the elements that one token leaves in the cache of one layer on one of ``tp`` GPUs.

    Heads are cut as long as there are any; a GPU beyond them, and every GPU with latent attention, holds a copy.
    """
    if model.latent is not None:
        return float(model.cached_per_token)
    return model.cached_per_token * max(1.0 / tp, 1.0 / model.kv_heads)


def attention_flop(model: Architecture, query: ArrayLike, context: ArrayLike, tp: int) -> FloatArray:
    """Return the operations of scores and weighted sums of one sequence in one layer, on one of ``tp`` GPUs.

    ``query`` new tokens attend to a ``context`` that ends with them; a causal kernel skips what lies ahead.
    """
    q, context = np.asarray(query, dtype=np.float64), np.asarray(context, dtype=np.float64)
    pairs = q * (context - q / 2) if model.causal else q * context
    widths = 2 * model.head_dim if model.latent is None else model.head_dim + model.latent.value
    return 2.0 * pairs * widths * model.heads / tp


def _attention(model: Architecture, tp: int) -> list[Matrix]:
    if model.latent is None:
        pairs = max(model.kv_heads / tp, 1.0)
        projected = round((model.heads / tp + 2 * pairs) * model.head_dim)
        inner = model.heads * model.head_dim // tp
        return [Matrix("qkv", projected, model.hidden), Matrix("out", model.hidden, inner)]
    one, heads = model.latent, model.heads // tp
    return [
        Matrix("compress", one.query_rank + one.cache_rank + one.rotary, model.hidden),
        Matrix("query", heads * (one.plain + one.rotary), one.query_rank or model.hidden),
        Matrix("keys and values", heads * (one.plain + one.value), one.cache_rank),
        Matrix("out", model.hidden, heads * one.value),
    ]


def _feed_forward(model: Architecture, inner: int, tp: int, share: float, kind: str = "") -> list[Matrix]:
    width = -(-inner // tp)
    into = (model.ffn_matrices - 1) * width
    return [Matrix(f"{kind}up", into, model.hidden, share), Matrix(f"{kind}down", model.hidden, width, share)]


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
