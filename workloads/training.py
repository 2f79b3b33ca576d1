"""A training step as sums of kernels: forward, backward, what is computed again, messages, bubble, optimizer.

Per layer and micro-batch, on one GPU (Korthikanti et al., arXiv:2205.05198; Narayanan et al.,
arXiv:2104.04473):

- products: forward once, backward twice (for the inputs and for the weights), again where layers
  are recomputed
- attention: fused, operations by its law (kernel_times); else its products, and the s² scores
  through memory
- elementwise: norms, activation, dropout and residuals through memory; cut along the sequence if
  that is parallel
- collectives: two sums over the tensor-parallel GPUs forward, two more where layers are recomputed;
  the two backward hide behind the gradients of the weights, or, cut along the sequence, half of each
  does; keys and values go round the GPUs that share a sequence (ring attention, arXiv:2310.01889)
- pipeline: messages between stages, and the bubble (pp - 1) / interleave of one micro-batch
- gradients: their sum over the replicas (of experts over those that hold the same ones), and over
  the GPUs that share a sequence, of which a part hides behind the backward pass; ZeRO 3 gathers
  weights too
- optimizer: reading and writing its states

What one GPU holds meanwhile stands in `training_memory`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..laws.bounds import streaming_gbs
from ..laws.kernels import ProductLaw
from ..projection.collective_laws import collective_us
from .architecture import Architecture, Layer, cached_per_token, layer
from .inference import US, WIDE_BYTES
from .kernel_times import LearnedProducts, Sources
from .releases import PRIORS
from .setting import Setting
from .training_memory import expert_replicas

LORA_RANK: Final = 16
# rounds of the ring backward: keys and values again, and their gradients in 32 bits
RING_BACKWARD: Final = 3.0
BUBBLES: Final = {"1f1b": 1.0, "zbv": 0.0, "v-half": 0.5, "v-min": 2 / 3}
"""Of each schedule over that of 1F1B, equal times of both halves of the backward pass given (arXiv:2405.15362)."""


def training_parts(setting: Setting, sources: Sources | None = None) -> dict[str, float]:
    """Return the seconds of each part of one optimizer step; ``sources`` give the times of products, else the law.

    Raises DataError: a figure of the GPU is not published, or its links were not measured.
    """
    model = setting.model
    sources = sources or Sources()
    micros = setting.global_batch // (setting.dp * setting.micro_batch)
    tokens = setting.micro_batch * setting.seq_len / setting.cp
    layers = model.layers / setting.pp
    one = layer(model, setting.tp, setting.ep)
    forward, backward = _micro(setting, sources, one)
    # of the layers that are computed again
    share = {"none": 0.0, "selective": 0.0, "full": 1.0}[setting.recompute]
    if setting.recompute == "full" and setting.recompute_layers is not None:
        share = min(setting.recompute_layers / model.layers, 1.0)
    again = {name: share * seconds for name, seconds in forward.items()}
    if setting.recompute == "selective" and not setting.flash:
        again["attention"] = forward["attention"]
    parts = {name: layers * (forward[name] + backward[name] + again[name]) for name in forward}
    micro = sum(parts.values())
    part_seconds = {name: value * micros for name, value in parts.items()}
    # embedding and output matrix, spread over the pipeline's stages
    law = sources(setting.gpu, "bf16")
    width = model.vocab / setting.tp
    hidden = model.hidden
    bandwidth = streaming_gbs(setting.gpu)
    head = float(law.time_us(width, tokens, hidden))
    head += float(law.time_us(hidden, tokens, width) + law.time_us(width, hidden, tokens))
    part_seconds["head"] = micros * (
        (head + tokens * width * 12.0 / (bandwidth * 1e3)) * US / setting.pp
    )
    part_seconds["pipeline"] = 0.0
    # the bubble of 1F1B, shorter by interleaving (arXiv:2104.04473, section 2.2), and the messages
    if setting.pp > 1:
        bubble = BUBBLES[setting.schedule] * (setting.pp - 1) / setting.interleave * micro
        size = setting.micro_batch * setting.seq_len * hidden * WIDE_BYTES / setting.tp
        sent = _sent(setting, size, setting.tp * setting.pp)
        part_seconds["pipeline"] = bubble + 2.0 * micros * setting.interleave * sent
    if setting.lora:
        trained = (
            sum(m.outputs + m.inputs for m in one.matrices) * LORA_RANK * model.layers / setting.pp
        )
    else:
        trained = one.weights * model.layers / setting.pp + model.embedding_parameters / setting.tp
    replicas = setting.dp * setting.cp
    of_experts = max(expert_replicas(setting), 1.0)
    expert = 0.0
    if one.experts and not setting.lora:
        expert = one.experts.weights * model.layers / setting.pp
    # the sums of gradients, as far as they do not hide behind the backward pass
    spread = replace(
        setting.network, node_gpus=max(setting.node_gpus // (setting.tp * setting.pp), 1)
    )
    part_seconds["gradients"] = 0.0
    for weights, ranks in ((trained - expert, replicas), (expert, round(of_experts))):
        if ranks <= 1 or not weights:
            continue
        size = weights * WIDE_BYTES * (1.5 if setting.zero == 3 else 1.0)
        seconds = float(collective_us(setting.gpu, "all_reduce", size, ranks, spread)) * US
        times = 1
        if setting.zero == 3:
            times = micros
        part_seconds["gradients"] += seconds * times * (1.0 - PRIORS["hidden.gradients"].value)
    updated = trained
    if setting.zero:
        updated = (trained - expert) / replicas + expert / of_experts
    part_seconds["optimizer"] = (
        updated * PRIORS["bytes.updated"].of(setting.optimizer) / (bandwidth * 1e9)
    )
    return part_seconds


def counted_flop(
    model: Architecture, tokens: float, seq_len: int, *, frozen: bool = False
) -> float:
    """Return the operations that a step on so many tokens needs, counted by hand: 6 N + 12 L H s of each token.

    N are the weights that a token meets, L H the layers times the width of all heads, s the length
    of a sequence; what is computed again is not counted, and of a causal model the whole square is
    (Chowdhery et al., arXiv:2204.02311, appendix B). Over the time of a step it is the achieved
    rate by which frameworks are compared; over a rate achieved before, a first forecast. ``frozen``
    weights get no gradients: 4 N.

    >>> from flopcast.workloads.model_catalogue import find
    >>> f"{counted_flop(find('llama-3.1-70b'), 512 * 8192, 8192) / 1e18:.2f} EFLOP"
    '2.05 EFLOP'
    """
    weights = (4.0 if frozen else 6.0) * model.active_parameters
    widths = sum(one.layers * one.heads * one.head_dim for one in model.attention)
    return tokens * (weights + 12.0 * widths * seq_len)


def _micro(
    setting: Setting, sources: Sources, one: Layer
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of one micro-batch through one layer on one GPU by part, forward and backward."""
    model = setting.model
    tp = setting.tp
    gpu = setting.gpu
    tokens = float(setting.micro_batch * setting.seq_len) / setting.cp
    law = sources(gpu, setting.dtype)
    products = _products(law, one, tokens)
    inputs = _backward(law, one, tokens, weights=False)
    if setting.lora:
        weights = 0.0
    else:
        weights = _backward(law, one, tokens, weights=True) - inputs
    bandwidth = streaming_gbs(gpu) * 1e9
    if setting.flash:
        attention, attention_back = (
            float(
                sources.attention_us(
                    gpu, model, setting.micro_batch, setting.seq_len, tp, backward=way
                )
            )
            * US
            / setting.cp
            for way in (False, True)
        )
    else:
        heads = setting.micro_batch * model.heads / tp
        square = float(setting.seq_len) ** 2 / setting.cp
        scores = (
            2.0 * heads * float(law.time_us(setting.seq_len, setting.seq_len, model.head_dim)) * US
        )
        attention, attention_back = (
            times * scores + heads * square * size / bandwidth
            for times, size in zip((1.0, 2.0), PRIORS["bytes.score"].by.values(), strict=True)
        )
    inner = model.met_width
    share = 1.0
    if setting.sequence_parallel:
        share = 1.0 / tp
    activation = WIDE_BYTES * (3.0 if model.gated else 2.0) * inner / tp
    element = tokens * (PRIORS["bytes.norms"].value * model.hidden * share + activation) / bandwidth
    message = tokens * model.hidden * WIDE_BYTES
    sums = 2.0 * float(collective_us(gpu, "all_reduce", message, tp, setting.network)) * US
    if setting.sequence_parallel:
        back = sums / 2.0
    else:
        back = max(sums - weights, 0.0)
    if model.experts and setting.ep > 1:
        sent = message * model.experts_per_token / tp
        exchange = (
            2.0 * float(collective_us(gpu, "all_to_all", sent, setting.ep, setting.network)) * US
        )
        sums = sums + exchange
        back = back + exchange
    ring = 0.0
    if setting.cp > 1:  # keys and values go round the GPUs that share a sequence
        size = tokens * cached_per_token(model, tp) * WIDE_BYTES
        ring = (setting.cp - 1) * _sent(setting, size, tp * setting.cp)
    forward = {
        "products": products,
        "attention": attention,
        "elementwise": element,
        "collectives": sums + ring,
    }
    backward = {
        "products": inputs + weights,
        "attention": attention_back,
        "elementwise": 2.0 * element,
    }
    return forward, backward | {"collectives": back + RING_BACKWARD * ring}


def _products(law: ProductLaw | LearnedProducts, one: Layer, tokens: float) -> float:
    time = sum(m.share * float(law.time_us(m.outputs, tokens, m.inputs)) for m in one.matrices)
    if one.experts:
        visits = one.experts.visits(tokens)
        touched = one.experts.touched(tokens)
        each = (
            float(law.time_us(m.outputs, visits, m.inputs, touched)) for m in one.experts.matrices
        )
        time += one.experts.share * sum(each)
    return time * US


def _backward(
    law: ProductLaw | LearnedProducts, one: Layer, tokens: float, *, weights: bool
) -> float:
    """Return the seconds of the products for the gradients of the inputs, and of the weights unless they are frozen."""
    time = 0.0
    for m in one.matrices:
        time += m.share * float(law.time_us(m.inputs, tokens, m.outputs))
        if weights:
            time += m.share * float(law.time_us(m.outputs, m.inputs, tokens))
    if one.experts:
        visits = one.experts.visits(tokens)
        touched = one.experts.touched(tokens)
        for m in one.experts.matrices:
            time += one.experts.share * float(law.time_us(m.inputs, visits, m.outputs, touched))
            if weights:
                each = visits / touched
                time += one.experts.share * float(touched * law.time_us(m.outputs, m.inputs, each))
    return time * US


def _sent(setting: Setting, size: float, ranks: int) -> float:
    return float(collective_us(setting.gpu, "send_recv", size, ranks, setting.network)) * US
