"""Memory of one GPU: weights, cache, activations, gradients, optimizer; what fits, and by how much it does not.

The memory of a GPU is counted in GiB as its maker means it: the 192 GB of an MI300X are 8 stacks of 24 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..hardware import GPU
from ..operators.work import BITS
from .architecture import Architecture
from .layers import cached_per_token, layer
from .setting import Setting

GIB: Final = 2.0**30
RESERVED_GIB: Final = 2.0
"""What the runtime, its graphs and its communication keep for themselves on every GPU."""
WIDE_BYTES: Final = 2.0
"""Of an element of what is not quantised: embeddings, output matrix, activations."""


@dataclass(frozen=True, kw_only=True)
class InferenceMemory:
    """Memory of one GPU while it serves, in GiB.

    Attributes
    ----------
    weights, activations : float
        Weights of its part of the model; activations of the largest batch of tokens, and what the runtime keeps.
    available : float
        Memory of the GPU times the part that may be used.
    cache_per_token : float
        Cache of one token.
    """

    weights: float
    activations: float
    available: float
    cache_per_token: float

    @property
    def tokens(self) -> float:
        """Tokens whose cache has room; below 0 where not even the weights have."""
        return (self.available - self.weights - self.activations) / self.cache_per_token

    def needed(self, tokens: float) -> float:
        """Return the memory that so many cached tokens take in all."""
        return sum(self.held(tokens).values())

    def held(self, tokens: float) -> dict[str, float]:
        """Return what fills the memory while so many tokens are cached."""
        own = {"weights": self.weights, "activations": self.activations - RESERVED_GIB, "reserved": RESERVED_GIB}
        return own | {"cache": tokens * self.cache_per_token}


def weight_bytes(model: Architecture, dtype: str, tp: int, pp: int = 1, ep: int = 1) -> float:
    """Return the bytes of the weights on one GPU: the layers in ``dtype``, embedding and output in 16 bits."""
    layers = layer(model, tp, ep).weights * model.layers / pp
    return layers * BITS[dtype] / 8 + model.embedding_parameters / tp * WIDE_BYTES


def inference_memory(
    model: Architecture,
    gpu: GPU,
    *,
    dtype: str,
    kv_dtype: str,
    tp: int,
    pp: int = 1,
    ep: int = 1,
    batched_tokens: int,
    utilisation: float,
) -> InferenceMemory:
    """Return what one GPU holds while it serves.

    The activations of the largest batch are the inputs and results of the feed-forward part and eight residual streams,
    in 16 bits or less: ``batched_tokens`` · (6 · ffn / tp + 8 · hidden) bytes, as measured peaks say.

    Raises
    ------
    NotPublishedError
        The memory of the GPU is not published.
    """
    inner = max(model.ffn, (model.experts_per_token + model.shared_experts) * model.expert_ffn)
    batch = batched_tokens * (6.0 * inner / tp + 8.0 * model.hidden)
    per_token = cached_per_token(model, tp) * BITS[kv_dtype] / 8 * model.layers / pp
    return InferenceMemory(
        weights=weight_bytes(model, dtype, tp, pp, ep) / GIB,
        activations=batch / GIB + RESERVED_GIB,
        available=gpu.require("memory_gb") * utilisation,
        cache_per_token=per_token / GIB,
    )


MASTER_BYTES: Final = {"adam": 12.0, "adam-8bit": 6.0, "sgd": 8.0}
"""Of a trained weight: 32-bit master copy and the optimizer's states."""
GRADIENT_BYTES: Final = 4.0
DROPOUT: Final = 3.0
"""Bytes of masks per element of the residual stream, in models that are trained with dropout (no gated product)."""


@dataclass(frozen=True, kw_only=True)
class TrainingMemory:
    """Memory of one GPU in a training step, the first stage of a pipeline, in GiB."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    available: float

    @property
    def needed(self) -> float:
        """All of it, and what the runtime keeps."""
        return sum(self.held.values())

    @property
    def held(self) -> dict[str, float]:
        """What fills the memory."""
        names = ("weights", "gradients", "optimizer", "activations")
        return {name: getattr(self, name) for name in names} | {"reserved": RESERVED_GIB}


def training_memory(setting: Setting) -> TrainingMemory:
    """Return what one GPU holds in a training step.

    Weights in 16 bits, gradients in 32, a master copy and states by optimizer; ZeRO cuts the states (1), the gradients
    (2) and the weights (3) over the replicas. Of the activations each layer keeps what its backward pass reads, of as
    many micro-batches as are under way (Korthikanti et al., arXiv:2205.05198, section 4; Narayanan et al.,
    arXiv:2104.04473, section 2.2).
    """
    model, shared = setting.model, float(setting.dp * setting.cp)
    one = layer(model, setting.tp, setting.ep).weights * model.layers / setting.pp
    folded = setting.schedule != "1f1b" or setting.pp == 1  # first and last stage on one GPU
    every = one + model.embedding_parameters / setting.tp / (1 if folded else 2)
    trained = every if not setting.lora else 0.0
    held = BITS[setting.dtype] / 8 if setting.lora else WIDE_BYTES
    micros = setting.global_batch // (setting.dp * setting.micro_batch)
    kept = (
        min(under_way(setting) * setting.pp, micros * max(1.0, under_way(setting)))
        * activation_bytes(setting)
        * model.layers
        / setting.pp
    )
    tokens = setting.micro_batch * setting.seq_len / setting.cp
    head = tokens * model.vocab / setting.tp * 6.0 if folded else 0.0
    return TrainingMemory(
        weights=every * held / (shared if setting.zero >= 3 else 1.0) / GIB,
        gradients=trained * GRADIENT_BYTES / (shared if setting.zero >= 2 else 1.0) / GIB,
        optimizer=trained * MASTER_BYTES[setting.optimizer] / (shared if setting.zero >= 1 else 1.0) / GIB,
        activations=(kept + head) / GIB,
        available=setting.gpu.require("memory_gb") * setting.memory_utilisation,
    )


def under_way(setting: Setting) -> float:
    """Return what the fullest stage keeps over what one micro-batch leaves in all layers.

    1F1B keeps as many micro-batches as there are stages, interleaved 1 + (pp - 1) / (pp · interleave) times that
    (arXiv:2104.04473, section 2.2), the V shapes as much, half, or a third, and one stage more (arXiv:2405.15362).
    """
    if setting.pp == 1:
        return 1.0
    if setting.schedule == "1f1b":
        more = (setting.pp - 1) / (setting.pp * setting.interleave) if setting.interleave > 1 else 0.0
        return 1.0 + more
    part = {"zbv": 1.0, "v-half": 1 / 2, "v-min": 1 / 3}[setting.schedule]
    return min(part + 1.0 / setting.pp, 1.0)


def activation_bytes(setting: Setting) -> float:
    """Return the bytes that an average layer keeps of a micro-batch for its backward pass, on one GPU."""
    model, tp = setting.model, setting.tp
    tokens = setting.micro_batch * setting.seq_len / setting.cp
    stream = 2.0 * model.hidden * tokens
    if setting.recompute == "full" and setting.recompute_layers is None:
        return stream
    inner = model.ffn if not model.experts else (model.experts_per_token + model.shared_experts) * model.expert_ffn
    heads = model.heads * model.head_dim
    inputs = 0 if setting.lora else 1  # frozen products need no inputs: those of the down projection, outputs of norms
    within = 2.0 * (2.0 * heads + cached_per_token(model, 1) + (model.ffn_matrices - 1 + inputs) * inner) / tp
    around = 4.0 * (1 + inputs) * model.hidden + (0.0 if model.gated else DROPOUT * model.hidden)
    kept = tokens * (within + around / (tp if setting.sequence_parallel else 1))
    if not setting.flash and setting.recompute != "selective":
        kept += 5.0 * setting.micro_batch * model.heads / tp * float(setting.seq_len) ** 2 / setting.cp
    again = min((setting.recompute_layers or 0) / model.layers, 1.0) if setting.recompute == "full" else 0.0
    return (1.0 - again) * kept + again * stream
