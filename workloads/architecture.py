"""A model as the numbers that decide its matrices, and the kernels of one of its layers on one GPU.

`model_catalogue.find` and `model_config.from_config` make an `Architecture`. `layer` says which
matrices one GPU has of it, `attention_flop`, `cached_bytes` and `read_bytes` how much attention and
cache.

Layers need not be alike: a model is a list of attentions (each of so many layers, all of the
context or a window of it), of recurrent mixers (linear attention, state spaces), of dense
feed-forward parts by width, and one mixture. What is said of "a layer" is a mean over all of them.

Tensor parallelism cuts the heads and the inner width of the feed-forward part (Shoeybi et al.,
Megatron-LM, arXiv:1909.08053): the projections into the heads and into the inner width by columns,
those out of them by rows, with a sum over the GPUs after each pair. Expert parallelism gives every
GPU some of the experts, and sends tokens to them and back. `check_split` says which numbers of GPUs
a model can be cut into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..errors import DataError, ParameterError
from ..operators.kinds.linear_attention import STATE_BYTES
from ..remarks import Remark

_LARGEST: Final = 10**7  # no dimension of a model is larger: what is, was mistyped
_MOST_LAYERS: Final = 10_000
PARTS: Final = ("attention", "output", "dense", "shared", "experts")
"""Parts whose weights may have separate formats: projections into the heads and out
of them (of recurrent mixers too), dense feed-forward parts, experts that every token visits, and
the others."""


@dataclass(frozen=True, kw_only=True)
class Latent:
    """Widths of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).

    ``query_rank`` and ``cache_rank`` are those of the compressed query (0: it is not compressed)
    and of the compressed keys and values; each head has ``plain`` and ``rotary`` dimensions for its
    keys, and ``value`` for its values.
    """

    query_rank: int
    cache_rank: int
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True, kw_only=True)
class Attention:
    """One kind of attention, in a number of layers."""

    # how many layers have it, query heads, heads with keys, width of a head
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int = 0  # width of a value where it is another (0: it is not)
    # tokens that a layer keeps and looks at (0: all), as sliding and chunked attention do
    window: int = 0
    # tokens that a query looks at of all that are kept (0: all), as sparse attention does
    picked: int = 0
    # of the small attention that picks them; its keys are cached too (0: there is none, or another
    # layer's serves)
    index_heads: int = 0
    index_dim: int = 0
    gated: bool = False  # whether a gate as wide as the queries multiplies the result
    one_projection: bool = False  # whether keys and values are one projection
    latent: Latent | None = None  # widths of latent attention

    @property
    def value(self) -> int:
        """Width of a value."""
        if self.latent:
            return self.latent.value
        return self.value_dim or self.head_dim

    def cached(self, tp: int = 1) -> float:
        """Return the elements of keys and values that one token leaves in one layer on one of ``tp`` GPUs.

        Heads are cut as long as there are any; a GPU beyond them, and every GPU with latent
        attention, holds a copy.
        """
        if self.latent is not None:
            return float(self.latent.cache_rank + self.latent.rotary)
        return self.kv_heads * (self.head_dim + self.value) * max(1.0 / tp, 1.0 / self.kv_heads)

    def pairs(self, query: FloatArray, context: FloatArray, *, causal: bool) -> FloatArray:
        """Return the pairs of queries and keys of new tokens that end a context, of one head."""
        if not causal:
            return query * context
        limit = self.window or self.picked or np.inf

        def below(length: FloatArray) -> FloatArray:
            near = np.minimum(length, limit)
            return near * near / 2 + np.where(length > near, (length - near) * near, 0.0)

        return below(context) - below(context - query)


@dataclass(frozen=True, kw_only=True)
class Recurrent:
    """A recurrent mixer in place of attention, in a number of layers: linear attention or a state space.

    ``into`` is the width of the projections into it, ``inner`` of what leaves it, ``state`` the
    elements that a sequence keeps, however long it is (Gated DeltaNet, arXiv:2412.06464; Mamba-2,
    arXiv:2405.21060).
    """

    layers: int
    into: int
    inner: int
    state: int


@dataclass(frozen=True, kw_only=True)
class Dense:
    """Dense feed-forward parts of one inner width, in so many layers."""

    layers: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """The mixtures of experts of so many layers.

    Each has ``experts`` of inner ``width``, of which a token visits ``visited``; every token visits
    ``shared`` more inner width besides. ``inputs`` is the width that tokens are projected to before
    the experts (0: they are not).
    """

    layers: int
    experts: int
    visited: int
    width: int
    shared: int = 0
    inputs: int = 0


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A transformer as its configuration describes it."""

    name: str  # name, for people
    # width of the residual stream, number of layers, number of tokens cached
    hidden: int
    layers: int
    vocab: int
    context: int = 0  # tokens that a sequence may have; 0: not stated
    # what the layers are made of; of several attentions the widest-reaching is the first
    attention: tuple[Attention, ...]
    recurrent: tuple[Recurrent, ...] = ()
    dense: tuple[Dense, ...] = ()
    mixture: Mixture | None = None
    gated: bool = True  # whether a feed-forward part has three matrices (gate, up, down) or two
    causal: bool = True  # False of an encoder: every token attends to every other
    tied: bool = False  # whether the embedding is the output matrix too
    # number formats that the checkpoint keeps its weights in, by `PARTS`: ``fp8``, or ``fp4/bf16``
    # where products are to be computed in another. What is not named is in 16 bits.
    formats: Mapping[str, str] = field(default_factory=dict)
    kv_format: str = ""  # that the checkpoint asks for its cache; empty: none
    remarks: tuple[Remark, ...] = ()  # what is to be said of how it was read

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "vocab"):
            check(self.name, name, getattr(self, name), least=1)
        for part in (
            *self.attention,
            *self.recurrent,
            *self.dense,
            *([self.mixture] if self.mixture else []),
        ):
            for name, value in vars(part).items():
                if isinstance(value, int) and not isinstance(value, bool):
                    needed = name in (
                        "layers",
                        "heads",
                        "kv_heads",
                        "head_dim",
                        "experts",
                        "width",
                        "into",
                        "inner",
                    )
                    check(self.name, name, value, least=int(needed))
            if part.layers > 2 * self.layers:  # a layer may have two of a kind
                raise DataError(
                    f"{self.name}: {part.layers} of its {self.layers} layers are said to be of "
                    "one kind"
                )
        for one in self.attention:
            if one.heads % one.kv_heads:
                raise DataError(
                    f"{self.name}: {one.kv_heads} key heads do not divide {one.heads} query heads"
                )
        if not self.attention and not self.recurrent:
            raise DataError(f"{self.name}: no layer mixes tokens, by attention or otherwise")
        one = self.mixture
        if one and not 0 < one.visited <= one.experts:
            raise DataError(f"{self.name}: a token visits {one.visited} of {one.experts} experts")

    def check_length(self, tokens: int) -> None:
        """Refuse a sequence of so many tokens, prompt and answer, that is longer than the configuration allows.

        Raises ParameterError.
        """
        if self.context and tokens > self.context:
            raise ParameterError(
                "input_len",
                f"and `output_len` must be {self.context:,} tokens together at most, for which "
                f"{self.name} is configured (max_position_embeddings), got {tokens:,}: give a "
                "config.json that allows more where the model is served so",
            )

    @property
    def heads(self) -> int:
        """Query heads of the first attention; 0 without attention."""
        if self.attention:
            return self.attention[0].heads
        return 0

    @property
    def kv_heads(self) -> int:
        """Heads with keys of the first attention."""
        if self.attention:
            return self.attention[0].kv_heads
        return 0

    @property
    def head_dim(self) -> int:
        """Width of a head of the first attention."""
        if self.attention:
            return self.attention[0].head_dim
        return 0

    @property
    def latent(self) -> Latent | None:
        """Widths of latent attention."""
        if self.attention:
            return self.attention[0].latent
        return None

    @property
    def ffn(self) -> int:
        """Inner width of the widest dense feed-forward part; 0 where there is none."""
        return max((one.width for one in self.dense), default=0)

    @property
    def experts(self) -> int:
        """Experts of a layer; 0 for a dense model."""
        if self.mixture:
            return self.mixture.experts
        return 0

    @property
    def experts_per_token(self) -> int:
        """Experts that a token visits."""
        if self.mixture:
            return self.mixture.visited
        return 0

    @property
    def mixture_layers(self) -> int:
        """Layers whose feed-forward part is a mixture of experts."""
        if self.mixture:
            return self.mixture.layers
        return 0

    @property
    def met_width(self) -> int:
        """Inner width of the feed-forward part that a token meets in a layer: the widest of any."""
        if self.mixture:
            met = self.mixture.visited * self.mixture.width + self.mixture.shared
        else:
            met = 0
        return max(self.ffn, met)

    @property
    def sums(self) -> float:
        """Sums over the GPUs that share a layer, per layer: one behind each mixer and each feed-forward part."""
        parts = (*self.attention, *self.recurrent, *self.dense)
        return (sum(one.layers for one in parts) + self.mixture_layers) / self.layers

    @property
    def depth(self) -> float:
        """Layers of a mixer and a feed-forward part each; of a model whose layers are one of them, half as many."""
        return self.layers * self.sums / 2.0

    @property
    def ffn_matrices(self) -> int:
        """Matrices of a feed-forward part: three where it is gated, else two."""
        if self.gated:
            return 3
        return 2

    @property
    def expert_parameters(self) -> int:
        """Weights of one expert."""
        if self.mixture:
            return self.ffn_matrices * (self.mixture.inputs or self.hidden) * self.mixture.width
        return 0

    @property
    def embedding_parameters(self) -> int:
        """Weights of the embedding and of the output matrix."""
        return self.hidden * self.vocab * (1 if self.tied or not self.causal else 2)

    @property
    def parameters(self) -> int:
        """All weights; norms, biases and convolutions, well under 0.1 %, are not counted."""
        return self.embedding_parameters + round(layer(self).weights * self.layers)

    @property
    def active_parameters(self) -> int:
        """Weights that one token meets."""
        idle = (
            self.mixture_layers * (self.experts - self.experts_per_token) * self.expert_parameters
        )
        return self.parameters - idle

    @property
    def cached_per_token(self) -> float:
        """Elements that one token leaves in the cache of a mean layer, before they are split over GPUs."""
        return cached_per_token(self, 1)


def cached_per_token(model: Architecture, tp: int) -> float:
    """Return the elements that one token leaves in the cache of a mean layer on one of ``tp`` GPUs, windows unfilled.

    Heads are cut as long as there are any; a GPU beyond them, and every GPU with latent attention,
    holds a copy.
    """
    return (
        sum(one.layers * (one.cached(tp) + one.index_dim) for one in model.attention) / model.layers
    )


def cached_bytes(model: Architecture, tp: int, tokens: ArrayLike, bits: float) -> FloatArray:
    """Return the cache bytes of a sequence of so many tokens in all layers, on one of ``tp`` GPUs."""
    tokens = np.asarray(tokens, dtype=np.float64)
    kept = sum(
        one.layers * (one.cached(tp) + one.index_dim) * np.minimum(tokens, one.window or np.inf)
        for one in model.attention
    )
    return np.asarray(kept * bits / 8 + _states(model, tp))


def read_bytes(model: Architecture, tp: int, tokens: ArrayLike, bits: float) -> FloatArray:
    """Return the bytes that a step moves for a sequence of so many tokens: cached keys and values, states both ways."""
    tokens = np.asarray(tokens, dtype=np.float64)
    read = sum(
        one.layers
        * (
            one.cached(tp) * np.minimum(tokens, one.window or one.picked or np.inf)
            + one.index_dim * tokens
        )
        for one in model.attention
    )
    return np.asarray(read * bits / 8 + 2.0 * _states(model, tp))


def _states(model: Architecture, tp: int) -> float:
    return sum(one.layers * one.state for one in model.recurrent) * STATE_BYTES / tp


def attention_flop(
    model: Architecture, query: ArrayLike, context: ArrayLike, tp: int
) -> FloatArray:
    """Return the operations of scores and weighted sums of one sequence in a mean layer, on one of ``tp`` GPUs.

    ``query`` new tokens attend to a ``context`` that ends with them; a causal kernel skips what
    lies ahead, a window what lies too far back. A recurrent layer reads and writes its state once a
    token.
    """
    q = np.asarray(query, dtype=np.float64)
    context = np.asarray(context, dtype=np.float64)
    flop = np.zeros(np.broadcast(q, context).shape)
    for one in model.attention:
        pairs = one.pairs(q, context, causal=model.causal)
        flop = flop + one.layers * 2.0 * pairs * (one.head_dim + one.value) * one.heads / tp
        if one.index_heads:
            everywhere = replace(one, picked=0, window=0).pairs(q, context, causal=model.causal)
            flop = flop + one.layers * 2.0 * everywhere * one.index_dim * one.index_heads
    for mixer in model.recurrent:
        flop = flop + mixer.layers * 4.0 * q * mixer.state / tp
    return flop / model.layers


def check(name: str, field: str, value: object, *, least: int) -> int:
    """Return a dimension as a whole number; a DataError names model and field of any other value."""
    largest = _LARGEST
    if "layer" in field:
        largest = _MOST_LAYERS
    is_number = (
        isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= largest
    )
    if not is_number or value != int(value):
        raise DataError(
            f"{name}: {field} must be a whole number from {least} to {largest:,}, got "
            f"{repr(value)[:40]}"
        )
    return int(value)


@dataclass(frozen=True)
class Matrix:
    """Weights of one product on one GPU: ``outputs`` by ``inputs``, and the part of the layers that have it.

    ``part`` is one of `PARTS`, which may have a separate number format (empty: 16 bits whatever
    the others are in); ``cut`` whether GPUs that share a layer hold a piece each, or every one of
    them all of it.
    """

    name: str
    outputs: int
    inputs: int
    share: float = 1.0
    part: str = "attention"
    cut: bool = True

    @property
    def weights(self) -> float:
        """Weights of a mean layer."""
        return self.outputs * self.inputs * self.share


@dataclass(frozen=True)
class Experts:
    """The experts of one layer on one GPU.

    ``held`` of ``all`` experts, of which a token visits ``visited``; ``matrices`` are those of one
    expert, and the ``share`` of the layers that have them. Tokens come from ``senders`` groups of
    GPUs that cut heads among them; below 1 it is a part of the tokens of one.
    """

    matrices: tuple[Matrix, ...]
    held: int
    all: int
    visited: int
    share: float
    senders: float

    @property
    def weights(self) -> float:
        """Weights of the experts held here, in a mean layer."""
        return self.share * self.held * sum(one.outputs * one.inputs for one in self.matrices)

    def visits(self, tokens: ArrayLike) -> FloatArray:
        """Return the visits to the experts held here, if the tokens of each sender spread evenly."""
        return (
            np.asarray(tokens, dtype=np.float64)
            * self.senders
            * self.visited
            * self.held
            / self.all
        )

    def touched(self, tokens: ArrayLike) -> FloatArray:
        """Return the expected number of experts held here that are visited at all, tokens choosing at random."""
        missed = (1.0 - self.visited / self.all) ** (
            np.asarray(tokens, dtype=np.float64) * self.senders
        )
        return np.maximum(self.held * (1.0 - missed), 1.0)


@dataclass(frozen=True)
class Layer:
    """The work of one GPU for an average layer: every token meets the ``matrices``, some the ``experts``."""

    matrices: tuple[Matrix, ...]
    experts: Experts | None

    @property
    def weights(self) -> float:
        """Weights of an average layer on this GPU."""
        return sum(self.weights_by_part().values())

    def weights_by_part(self) -> dict[str, float]:
        """Return the weights of an average layer on this GPU by `PARTS`; routers are under ""."""
        by_part: dict[str, float] = {}
        for one in self.matrices:
            by_part[one.part] = by_part.get(one.part, 0.0) + one.weights
        if self.experts:
            by_part["experts"] = self.experts.weights
        return by_part


def check_split(model: Architecture, tp: int, ep: int = 1) -> None:
    """Raise unless a model can be cut over ``tp`` GPUs by its heads and over ``ep`` by its experts.

    Raises ParameterError: ``tp`` does not divide the query heads, neither divides the heads with
    keys nor is a multiple of them, or ``ep`` does not divide the experts; the message says what
    would.
    """
    if not cuts_heads(model, tp):
        fits = [n for n in range(1, min(model.heads, 64) + 1) if cuts_heads(model, n)]
        heads = f"{model.heads} heads" + (
            f", {model.kv_heads} with keys," if model.kv_heads != model.heads else ""
        )
        raise ParameterError(
            "tp",
            f"must divide the {heads} of {model.name}, got {tp}: {', '.join(map(str, fits))} do",
        )
    if ep > 1 and not model.experts:
        raise ParameterError("ep", f"must be 1, got {ep}: {model.name} has no experts")
    if ep > 1 and model.experts % ep:
        raise ParameterError(
            "ep", f"must divide the {model.experts} experts of {model.name}, got {ep}"
        )


def cuts_heads(model: Architecture, tp: int) -> bool:
    """Whether ``tp`` GPUs can share the heads of every layer."""
    return all(
        one.heads % tp == 0
        and (one.kv_heads % tp == 0 or tp % one.kv_heads == 0 or one.latent is not None)
        for one in model.attention
    )


def layer(model: Architecture, tp: int = 1, ep: int = 1) -> Layer:
    """Return the work of one of ``tp`` GPUs for an average layer; experts are split over ``ep`` groups of them.

    >>> from flopcast.workloads.model_catalogue import find
    >>> for one in layer(find("llama-3.1-70b"), tp=8).matrices:
    ...     print(one.name, one.outputs, one.inputs)
    qkv 1280 8192
    out 8192 1024
    up 7168 8192
    down 8192 3584
    """
    hidden = model.hidden
    matrices = list[Matrix]()
    for one in model.attention:
        share = one.layers / model.layers
        heads = one.heads // tp
        latent = one.latent
        if latent is None:
            keys = max(one.kv_heads / tp, 1.0) * (
                one.head_dim + (0 if one.one_projection else one.value)
            )
            queries = one.heads / tp * (one.head_dim * (2 if one.gated else 1))
            matrices.append(Matrix("qkv", round(queries + keys), hidden, share))
        else:
            compressed = latent.query_rank + latent.cache_rank + latent.rotary
            source = latent.query_rank or hidden
            matrices += [
                Matrix("compress", compressed, hidden, share, cut=False),
                Matrix("query", heads * (latent.plain + latent.rotary), source, share),
                Matrix(
                    "keys and values",
                    heads * (latent.plain + latent.value),
                    latent.cache_rank,
                    share,
                ),
            ]
        if one.index_heads:
            if one.latent and one.latent.query_rank:
                source = one.latent.query_rank
            else:
                source = hidden
            matrices.append(
                Matrix("index query", one.index_heads * one.index_dim, source, share, cut=False)
            )
            matrices.append(
                Matrix("index key", one.index_dim + one.index_heads, hidden, share, cut=False)
            )
        matrices.append(Matrix("out", hidden, one.heads * one.value // tp, share, "output"))
    for mixer in model.recurrent:
        share = mixer.layers / model.layers
        matrices.append(Matrix("into state", -(-mixer.into // tp), hidden, share))
        matrices.append(Matrix("out of state", hidden, -(-mixer.inner // tp), share, "output"))
    for plain in model.dense:
        matrices += _feed_forward(
            model, hidden, plain.width, tp, plain.layers / model.layers, "dense"
        )
    mixture = model.mixture
    if mixture is None:
        return Layer(tuple(matrices), None)
    share = mixture.layers / model.layers
    if mixture.shared:
        matrices += _feed_forward(model, hidden, mixture.shared, tp, share, "shared")
    matrices.append(Matrix("router", mixture.experts, hidden, share, "", cut=False))
    if mixture.inputs:
        matrices.append(Matrix("into experts", mixture.inputs, hidden, share, "shared", cut=False))
        matrices.append(
            Matrix("out of experts", hidden, mixture.inputs, share, "shared", cut=False)
        )
    each = _feed_forward(
        model, mixture.inputs or hidden, mixture.width, 1 if ep > 1 else tp, 1.0, "experts"
    )
    senders = 1.0
    if ep > 1:
        senders = ep / tp
    held = mixture.experts // ep
    return Layer(
        tuple(matrices),
        Experts(tuple(each), held, mixture.experts, mixture.visited, share, senders),
    )


def _feed_forward(
    model: Architecture, inputs: int, inner: int, tp: int, share: float, part: str
) -> list[Matrix]:
    width = -(-inner // tp)
    into = (model.ffn_matrices - 1) * width
    kind = {"shared": "shared ", "experts": "expert "}.get(part, "")
    return [
        Matrix(f"{kind}up", into, inputs, share, part),
        Matrix(f"{kind}down", inputs, width, share, part),
    ]
