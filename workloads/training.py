"""A training step as sums of kernels: forward, backward, what is computed again, messages, bubble, optimizer.

Per layer and micro-batch, on one GPU (Korthikanti et al., arXiv:2205.05198; Narayanan et al., arXiv:2104.04473):

===========  ===========================================================================================================
products     forward once, backward twice (for the inputs and for the weights), again where layers are recomputed
attention    fused: operations by its law (kernel_times); else its products, and the s² scores through memory
elementwise  norms, activation, dropout and residuals through memory; cut along the sequence if that is parallel
collectives  two sums over the tensor-parallel GPUs forward, two more where layers are recomputed; the two backward
             hide behind the gradients of the weights, or, cut along the sequence, half of each does; keys and
             values go round the GPUs that share a sequence (ring attention, arXiv:2310.01889)
pipeline     messages between stages, and the bubble (pp - 1) / interleave of one micro-batch
gradients    their sum over the replicas, and over the GPUs that share a sequence, of which a part hides behind the
             backward pass; ZeRO 3 gathers weights too
optimizer    reading and writing its states
===========  ===========================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ..laws.achieved import streaming_gbs
from ..laws.product import ProductLaw
from ..projection.worlds import collective_us
from .architecture import Architecture
from .kernel_times import LearnedProducts, Sources
from .layers import Layer, cached_per_token, layer
from .setting import Setting

Products = ProductLaw | LearnedProducts
US: Final = 1e-6
WIDE: Final = 2.0
"""Bytes of an activation."""
SCORE_BYTES: Final = (9.0, 11.0)
"""Memory traffic of one score through softmax and dropout where they are not fused with the products, both ways."""
NORM_BYTES: Final = 22.0
"""Of one element of the residual stream in one layer forward: two norms, two dropouts with their residual."""
LORA_RANK: Final = 16
RING_BACKWARD: Final = 3.0
"""Rounds of the ring backward: keys and values again, and their gradients in 32 bits."""
HIDDEN_GRADIENTS: Final = 0.8
"""Part of the sum of gradients that hides behind the backward pass."""
OPTIMIZER_BYTES: Final = {"adam": 28.0, "adam-8bit": 14.0, "sgd": 14.0}
"""Read and written per weight: gradient, master weight, states."""


BUBBLES: Final = {"1f1b": 1.0, "zbv": 0.0, "v-half": 0.5, "v-min": 2 / 3}
"""Of each schedule over that of 1F1B, equal times of both halves of the backward pass given (arXiv:2405.15362)."""


@dataclass(frozen=True)
class _Micro:
    """Seconds of one micro-batch through one layer on one GPU, by part: forward, backward."""

    products: tuple[float, float]
    attention: tuple[float, float]
    elementwise: tuple[float, float]
    collectives: tuple[float, float]

    def total(self, place: int) -> float:
        return self.products[place] + self.attention[place] + self.elementwise[place] + self.collectives[place]


def training_parts(setting: Setting, sources: Sources | None = None) -> dict[str, float]:
    """Return the seconds of each part of one optimizer step; ``sources`` give the times of products, else the law.

    Raises
    ------
    DataError
        A figure of the GPU is not published, or its links were not measured.
    """
    model, dp = setting.model, setting.dp
    micros = setting.global_batch // (dp * setting.micro_batch)
    sources = sources or Sources()
    one = _micro(setting, sources)
    layers = model.layers / setting.pp
    again = _recomputed(setting, one)
    parts = {
        "products": layers * (one.products[0] + one.products[1] + again["products"]),
        "attention": layers * (one.attention[0] + one.attention[1] + again["attention"]),
        "elementwise": layers * (one.elementwise[0] + one.elementwise[1] + again["elementwise"]),
        "collectives": layers * (one.collectives[0] + one.collectives[1] + again["collectives"]),
    }
    micro = sum(parts.values())
    found = {name: value * micros for name, value in parts.items()}
    found["head"] = micros * _head(setting, sources)
    found["pipeline"] = _pipeline(setting, micro, micros)
    found["gradients"] = _gradients(setting, layer(model, setting.tp, setting.ep), micros)
    found["optimizer"] = _optimizer(setting, layer(model, setting.tp, setting.ep))
    return found


def counted_flop(model: Architecture, tokens: float, seq_len: int, *, frozen: bool = False) -> float:
    """Return the operations that a step on so many tokens needs, counted by hand: 6 N + 12 L H s of each token.

    N are the weights that a token meets, L H the layers times the width of all heads, s the length of a sequence; what
    is computed again is not counted, and of a causal model the whole square is (Chowdhery et al., arXiv:2204.02311,
    appendix B). Over the time of a step it is the achieved rate by which frameworks are compared; over a rate achieved
    before, a first forecast. ``frozen`` weights get no gradients: 4 N.

    Examples
    --------
    >>> from flopcast.workloads.architecture import find
    >>> f"{counted_flop(find('llama-3.1-70b'), 512 * 8192, 8192) / 1e18:.2f} EFLOP"
    '2.05 EFLOP'
    """
    weights = (4.0 if frozen else 6.0) * model.active_parameters
    return tokens * (weights + 12.0 * model.layers * model.heads * model.head_dim * seq_len)


def _micro(setting: Setting, sources: Sources) -> _Micro:
    model, tp = setting.model, setting.tp
    tokens = float(setting.micro_batch * setting.seq_len) / setting.cp
    law = sources(setting.gpu, setting.dtype)
    one = layer(model, tp, setting.ep)
    forward, inputs = _products(law, one, tokens), _backward(law, one, tokens, weights=False)
    weights = 0.0 if setting.lora else _backward(law, one, tokens, weights=True) - inputs
    bandwidth = streaming_gbs(setting.gpu) * 1e9
    inner = model.ffn if not model.experts else (model.experts_per_token + model.shared_experts) * model.expert_ffn
    share = 1.0 / tp if setting.sequence_parallel else 1.0
    activation = WIDE * (3.0 if model.gated else 2.0) * inner / tp
    element = tokens * (NORM_BYTES * model.hidden * share + activation) / bandwidth
    message = tokens * model.hidden * WIDE
    sums = 2.0 * float(collective_us(setting.gpu, "all_reduce", message, tp, setting.network)) * US
    back = sums / 2.0 if setting.sequence_parallel else max(sums - weights, 0.0)
    if model.experts and setting.ep > 1:
        sent = message * model.experts_per_token / tp
        exchange = 2.0 * float(collective_us(setting.gpu, "all_to_all", sent, setting.ep, setting.network)) * US
        sums, back = sums + exchange, back + exchange
    ring = _ring(setting)
    return _Micro(
        products=(forward, inputs + weights),
        attention=_attention(setting, law, sources),
        elementwise=(element, 2.0 * element),
        collectives=(sums + ring, back + RING_BACKWARD * ring),
    )


def _ring(setting: Setting) -> float:
    """Return the seconds in which keys and values go round the GPUs that share a sequence, once, per layer."""
    if setting.cp == 1:
        return 0.0
    tokens = setting.micro_batch * setting.seq_len / setting.cp
    size = tokens * cached_per_token(setting.model, setting.tp) * WIDE
    return (setting.cp - 1) * _sent(setting, size, setting.tp * setting.cp)


def _products(law: Products, one: Layer, tokens: float) -> float:
    found = sum(m.share * float(law.time_us(m.outputs, tokens, m.inputs)) for m in one.matrices)
    if one.experts:
        visits, touched = one.experts.visits(tokens), one.experts.touched(tokens)
        each = (float(law.time_us(m.outputs, visits, m.inputs, touched)) for m in one.experts.matrices)
        found += one.experts.share * sum(each)
    return found * US


def _backward(law: Products, one: Layer, tokens: float, *, weights: bool) -> float:
    """Return the seconds of the products for the gradients of the inputs, and of the weights unless they are frozen."""
    found = 0.0
    for m in one.matrices:
        found += m.share * float(law.time_us(m.inputs, tokens, m.outputs))
        if weights:
            found += m.share * float(law.time_us(m.outputs, m.inputs, tokens))
    if one.experts:
        visits, touched = one.experts.visits(tokens), one.experts.touched(tokens)
        for m in one.experts.matrices:
            found += one.experts.share * float(law.time_us(m.inputs, visits, m.outputs, touched))
            if weights:
                each = visits / touched
                found += one.experts.share * float(touched * law.time_us(m.outputs, m.inputs, each))
    return found * US


def _attention(setting: Setting, law: Products, sources: Sources) -> tuple[float, float]:
    model, tp, sequences = setting.model, setting.tp, setting.micro_batch
    if setting.flash:
        kernel = partial(sources.attention_us, setting.gpu, model, sequences, setting.seq_len, tp)
        forward, backward = (float(kernel(backward=way)) * US / setting.cp for way in (False, True))
        return forward, backward
    heads = sequences * model.heads / tp
    square = float(setting.seq_len) ** 2 / setting.cp
    each = law.time_us(setting.seq_len, setting.seq_len, model.head_dim)
    products = 2.0 * heads * float(each) * US
    bandwidth = streaming_gbs(setting.gpu) * 1e9
    scores = [heads * square * size / bandwidth for size in SCORE_BYTES]
    return products + scores[0], 2.0 * products + scores[1]


def _recomputed(setting: Setting, one: _Micro) -> dict[str, float]:
    """Return the seconds per layer that the backward pass spends on computing again."""
    if setting.recompute == "none":
        return dict.fromkeys(("products", "attention", "elementwise", "collectives"), 0.0)
    if setting.recompute == "selective":
        attention = 0.0 if setting.flash else one.attention[0]
        return {"products": 0.0, "attention": attention, "elementwise": 0.0, "collectives": 0.0}
    layers = setting.model.layers if setting.recompute_layers is None else setting.recompute_layers
    share = min(layers / setting.model.layers, 1.0)
    return {name: share * getattr(one, name)[0] for name in ("products", "attention", "elementwise", "collectives")}


def _head(setting: Setting, sources: Sources) -> float:
    """Return the seconds of embedding and output matrix of one micro-batch, spread over the pipeline's stages."""
    law = sources(setting.gpu, "bf16")
    tokens, width = setting.micro_batch * setting.seq_len / setting.cp, setting.model.vocab / setting.tp
    forward = float(law.time_us(width, tokens, setting.model.hidden))
    hidden = setting.model.hidden
    backward = float(law.time_us(hidden, tokens, width) + law.time_us(width, hidden, tokens))
    softmax = tokens * width * 12.0 / (streaming_gbs(setting.gpu) * 1e3)
    return (forward + backward + softmax) * US / setting.pp


def _pipeline(setting: Setting, micro: float, micros: int) -> float:
    """Return the bubble of 1F1B, shorter by interleaving (arXiv:2104.04473, section 2.2), and the messages."""
    if setting.pp == 1:
        return 0.0
    bubble = BUBBLES[setting.schedule] * (setting.pp - 1) / setting.interleave * micro
    size = setting.micro_batch * setting.seq_len * setting.model.hidden * WIDE / setting.tp
    return bubble + 2.0 * micros * setting.interleave * _sent(setting, size, setting.tp * setting.pp)


def _sent(setting: Setting, size: float, ranks: int) -> float:
    return float(collective_us(setting.gpu, "send_recv", size, ranks, setting.network)) * US


def _gradients(setting: Setting, one: Layer, micros: int) -> float:
    """Return the seconds of the sum of gradients over replicas that do not hide behind the backward pass."""
    if setting.dp * setting.cp == 1:
        return 0.0
    trained = _trained(setting, one)
    size = trained * WIDE * (1.5 if setting.zero == 3 else 1.0)
    spread = replace(setting.network, node_gpus=max(setting.node_gpus // (setting.tp * setting.pp), 1))
    seconds = float(collective_us(setting.gpu, "all_reduce", size, setting.dp * setting.cp, spread)) * US
    if setting.zero == 3:
        seconds *= micros
    return seconds * (1.0 - HIDDEN_GRADIENTS)


def _trained(setting: Setting, one: Layer) -> float:
    """Return the weights that are trained on one GPU."""
    if setting.lora:
        wide = sum(m.outputs + m.inputs for m in one.matrices) * LORA_RANK
        return wide * setting.model.layers / setting.pp
    return one.weights * setting.model.layers / setting.pp + setting.model.embedding_parameters / setting.tp


def _optimizer(setting: Setting, one: Layer) -> float:
    own = _trained(setting, one) / (setting.dp * setting.cp if setting.zero else 1)
    return own * OPTIMIZER_BYTES[setting.optimizer] / (streaming_gbs(setting.gpu) * 1e9)
