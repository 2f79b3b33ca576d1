"""What one GPU holds in a training step, as Megatron-LM and FSDP2 hold it: an estimate with a width.

What frameworks do differently, and what no configuration says, gives the width (`HOLDINGS`): a
lean framework sums gradients in 16 bits, fuses the loss with its logits, and leaves no holes; a
full one does none of this. A step fits where the full count has room, may fit where only the lean
one has, and does not fit where neither has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ..errors import ParameterError
from ..operators.work import BITS
from .architecture import cached_per_token, check_split, layer
from .inference import GIB, RESERVED_GIB, WIDE_BYTES
from .releases import PRIORS
from .setting import Setting

HOLDINGS: Final = ("lean", "usual", "full")
"""How much a framework holds where configurations do not say it: keys of ``by`` in constants.toml."""
SHARDED: Final = 3  # the ZeRO stage in which weights are cut as well: FSDP
GATHERED_LAYERS: Final = {"lean": 1.0, "usual": 2.0, "full": 3.0}
"""Layers whose weights are whole on a GPU at once under FSDP: that which computes, and those prefetched."""
_MOST_TP: Final = 64
_MOST_GPUS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class TrainingMemory:
    """Memory of one GPU in a training step, the first stage of a pipeline, in GiB.

    The parts are those of the usual count; ``lean`` and ``full`` are the limits of their sum.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    fragmentation: float
    available: float
    lean: float = 0.0
    full: float = 0.0

    @property
    def needed(self) -> float:
        """The total, with the runtime's memory."""
        return sum(self.held.values())

    @property
    def held(self) -> dict[str, float]:
        """The parts of the memory."""
        names = ("weights", "gradients", "optimizer", "activations", "logits", "fragmentation")
        return {name: getattr(self, name) for name in names} | {"reserved": RESERVED_GIB}

    @property
    def fits(self) -> bool:
        """Whether even a memory-hungry framework fits."""
        return self.full <= self.available

    @property
    def may_fit(self) -> bool:
        """Whether a lean framework fits."""
        return self.lean <= self.available


def training_memory(setting: Setting) -> TrainingMemory:
    """Return what one GPU holds in a training step.

    Weights in 16 bits, gradients in 32 (16 where they are sharded), a 32-bit master copy and the
    optimizer's states; ZeRO cuts the states (1), the gradients (2) and the weights (3, FSDP) over
    the replicas, those of experts over the replicas of experts alone. Of the activations each layer
    keeps what its backward pass reads, of as many micro-batches as are under way (Korthikanti et
    al., arXiv:2205.05198, section 4; Narayanan et al., arXiv:2104.04473, section 2.2), and a layer
    that is computed again has all of its own for a moment.

    >>> from flopcast.workloads.setting import complete
    >>> step = {"kind": "training", "model": "llama-3.1-8b", "gpu": "MI300X", "gpus": 8, "micro_batch": 2}
    >>> result = training_memory(complete({**step, "global_batch": 128, "seq_len": 8192}))
    >>> result.fits, result.lean < result.needed < result.full
    (True, True)
    """
    lean, usual, full = (_held(setting, how) for how in HOLDINGS)
    return replace(usual, lean=lean.needed, full=full.needed)


def _held(setting: Setting, how: str) -> TrainingMemory:
    model = setting.model
    sharded = setting.zero >= SHARDED
    dense, expert = _weights(setting)
    replicas = float(setting.dp * setting.cp)
    of_experts = max(expert_replicas(setting), 1.0)

    def cut(stage: int) -> float:
        """Return the weights held here, under the stage of sharding that splits them."""
        if setting.zero < stage:
            return dense + expert
        return dense / replicas + expert / of_experts

    trained = 1.0
    if setting.lora:
        trained = 0.0
    if setting.lora:
        bytes_of_weight = BITS[setting.dtype] / 8
    else:
        bytes_of_weight = WIDE_BYTES
    weights = cut(SHARDED) * bytes_of_weight
    if sharded:
        whole = layer(model, setting.tp, setting.ep).weights
        weights += GATHERED_LAYERS[how] * whole * bytes_of_weight
    if BITS[setting.dtype] < BITS["bf16"]:  # products read copies in 8 bits
        if sharded:
            copied = layer(model, setting.tp, setting.ep).weights
        else:
            copied = dense + expert
        weights += copied * PRIORS["bytes.narrow_copy"].of(how)
    gradient = PRIORS["bytes.sharded_gradient" if sharded else "bytes.gradient"].of(how)
    states = PRIORS["bytes.states"].of(setting.optimizer)
    activations = _activations(setting)
    logits = _logits(setting) * PRIORS["bytes.logit"].of(how)
    return TrainingMemory(
        weights=weights / GIB,
        gradients=trained * cut(2) * gradient / GIB,
        optimizer=trained * cut(1) * states / GIB,
        activations=activations / GIB,
        logits=logits / GIB,
        fragmentation=(activations + logits) * PRIORS["memory.fragmentation"].of(how) / GIB,
        available=setting.gpu.require("memory_gb") * setting.memory_utilisation,
    )


def _weights(setting: Setting) -> tuple[float, float]:
    """Return the weights of one GPU, those of experts apart."""
    model = setting.model
    parts = layer(model, setting.tp, setting.ep).weights_by_part()
    stage = model.layers / setting.pp
    expert = parts.pop("experts", 0.0) * stage
    embedding = model.embedding_parameters / setting.tp
    if not _folded(setting):
        embedding /= 2
    return sum(parts.values()) * stage + embedding, expert


def expert_replicas(setting: Setting) -> float:
    """Return how many GPUs of a stage hold the same experts."""
    whole = layer(setting.model).experts
    held = layer(setting.model, setting.tp, setting.ep).experts
    if whole is None or held is None:
        return 1.0
    return setting.tp * setting.dp * setting.cp * held.weights / whole.weights


def _folded(setting: Setting) -> bool:
    """Whether the first stage of a pipeline is the last one too."""
    return setting.schedule != "1f1b" or setting.pp == 1


def _tokens(setting: Setting) -> float:
    return setting.micro_batch * setting.seq_len / setting.cp


def _logits(setting: Setting) -> float:
    """Return how many logits one GPU of the first stage computes of a micro-batch."""
    if not _folded(setting):
        return 0.0
    return _tokens(setting) * setting.model.vocab / setting.tp


def _activations(setting: Setting) -> float:
    """Return the bytes of all kept activations, and those of a layer that is recomputed."""
    micros = setting.global_batch // (setting.dp * setting.micro_batch)
    ahead = under_way(setting)
    together = min(ahead * setting.pp, micros * max(1.0, ahead))
    kept = together * activation_bytes(setting) * setting.model.layers / setting.pp
    if setting.recompute == "full":
        kept += activation_bytes(replace(setting, recompute="none", recompute_layers=None))
    return kept


def under_way(setting: Setting) -> float:
    """Return the ratio of the fullest stage's activations to those that one micro-batch leaves in all layers.

    1F1B keeps as many micro-batches as there are stages, interleaved 1 + (pp - 1) / (pp ·
    interleave) times that (arXiv:2104.04473, section 2.2), the V shapes as much, half, or a third,
    and one stage more (arXiv:2405.15362).
    """
    if setting.pp == 1:
        return 1.0
    if setting.schedule == "1f1b":
        if setting.interleave == 1:
            return 1.0
        return 1.0 + (setting.pp - 1) / (setting.pp * setting.interleave)
    part = {"zbv": 1.0, "v-half": 1 / 2, "v-min": 1 / 3}[setting.schedule]
    return min(part + 1.0 / setting.pp, 1.0)


def activation_bytes(setting: Setting) -> float:
    """Return the bytes that an average layer keeps of a micro-batch for its backward pass, on one GPU.

    Inputs of products are kept in the format of the products, all else in 16 bits. Frozen products
    need no inputs, but the adapters of attention read theirs. Each expert keeps a copy of the
    tokens that visit it.
    """
    model = setting.model
    tp = setting.tp
    tokens = _tokens(setting)
    stream = WIDE_BYTES * model.hidden * tokens
    if setting.recompute == "full" and setting.recompute_layers is None:
        return stream
    narrow = BITS[setting.dtype] < BITS["bf16"] and not setting.lora
    of_input = WIDE_BYTES
    if narrow:
        of_input = BITS[setting.dtype] / 8
    heads = model.heads * model.head_dim
    attention = WIDE_BYTES * (2.0 * heads + cached_per_token(model, 1))
    if narrow:
        attention += of_input * heads  # beside the result in 16 bits, which its backward reads
    feed_forward = WIDE_BYTES * (model.ffn_matrices - 1) * model.met_width
    norms = 2.0 * WIDE_BYTES * model.hidden
    if setting.lora:
        inputs = WIDE_BYTES * model.hidden
    else:
        feed_forward += of_input * model.met_width
        inputs = 2.0 * of_input * model.hidden
        if model.experts:
            share = model.mixture_layers / model.layers
            visits = model.experts_per_token * share
            feed_forward += of_input * visits * model.hidden
    if model.gated:
        dropout = 0.0
    else:
        dropout = PRIORS["bytes.dropout"].value * model.hidden
    around = norms + inputs + dropout
    if setting.sequence_parallel:
        around /= tp
    kept = tokens * ((attention + feed_forward) / tp + around)
    if not setting.flash and setting.recompute != "selective":
        square = float(setting.seq_len) ** 2 / setting.cp
        kept += 5.0 * setting.micro_batch * model.heads / tp * square
    if setting.recompute != "full":
        return kept
    again = min((setting.recompute_layers or 0) / model.layers, 1.0)
    return (1.0 - again) * kept + again * stream


def what_would_fit(setting: Setting) -> dict[str, Setting]:
    """Return the settings that may fit instead, by their change, the smallest first.

    Sharding, recomputation and the micro-batch come before tensor parallelism, and that before
    more GPUs.
    """
    ways = dict(_alternatives(setting))
    fitting = {name: other for name, other in ways.items() if training_memory(other).may_fit}
    if fitting:
        return fitting
    for tp in range(setting.tp + 1, _MOST_TP + 1):
        other = replace(setting, tp=tp)
        try:
            check_split(setting.model, tp, setting.ep)
        except ParameterError:
            continue
        if training_memory(other).may_fit:
            return {f"tp ≥ {tp}": other}
    least = _leanest(setting)
    gpus = 2 * least.gpus
    while gpus <= _MOST_GPUS:
        more = gpus // least.gpus
        other = replace(least, dp=least.dp * more, gpus=gpus)
        if training_memory(other).may_fit:
            return {f"{gpus} GPUs or more, with {_FSDP} and {_FULL}": other}
        gpus *= 2
    return {}


_FSDP: Final = "sharded weights (FSDP: zero 3)"
_FULL: Final = "full recomputation"


def _alternatives(setting: Setting) -> Iterator[tuple[str, Setting]]:
    shardable = setting.zero < SHARDED and setting.dp * setting.cp > 1
    sharded = replace(setting, zero=SHARDED)
    recomputable = setting.recompute != "full" or setting.recompute_layers is not None
    if shardable:
        yield _FSDP, sharded
    if recomputable:
        yield _FULL, replace(setting, recompute="full", recompute_layers=None)
    for micro_batch in range(setting.micro_batch - 1, 0, -1):
        if setting.global_batch % (setting.dp * micro_batch):
            continue
        other = replace(setting, micro_batch=micro_batch)
        if training_memory(other).may_fit:
            yield f"a micro-batch of at most {micro_batch:,}", other
            break
    if shardable and recomputable:
        both = replace(sharded, recompute="full", recompute_layers=None)
        yield f"{_FSDP} with {_FULL}", both
    if setting.micro_batch > 1:
        yield "all three: FSDP, full recomputation, a micro-batch of 1", _leanest(setting)


def _leanest(setting: Setting) -> Setting:
    return replace(setting, zero=SHARDED, recompute="full", recompute_layers=None, micro_batch=1)
