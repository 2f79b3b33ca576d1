"""Write what transformers says of its model classes: what they take for granted, and how many weights they have.

    python benchmarks/model_counts.py workloads/model_types.json tests/workloads/model_counts.jsonl

Written with transformers 5.24.0 and torch 2.13.0 (CPU), in an environment that has them; flopcast
needs neither, and this file imports nothing of it. Models are built on the meta device, which holds
no weights. The first file has a line for each type of language model: the keys of its configuration
that may change a layer, with their defaults, its other names for keys (canonical name: name in the
file), and what no key says, whether feed-forward parts and attention are gated and whether it only
fills in masked tokens. The second has a line for each model built: of every type with all defaults,
and, with at most eight layers, with one key changed at a time.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

MAPPINGS: Final = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
)
SECONDS: Final = 120  # that a model may take to build
LAYERS: Final = 8  # that a model has whose keys are changed one at a time
IRRELEVANT: Final = re.compile(
    r"token|dropout|pdrop|drop_rate|init|(?<!qk_)rope|rotary|norm|epsilon|_eps$|bias|dtype|version|^_|scal|softcap"
    r"|logit|loss|aux|penalty|use_cache|position|beta|theta|return|output_|label|problem_type|pretraining"
    r"|vision|audio|image|video|multiplier|architectures|chunk_size_feed"
)
"""Keys that change neither how many weights a layer has, nor what it reads."""
PARTS: Final = ("text_config", "llm_config", "language_config")
LANGUAGE: Final = re.compile(r"(^|\.)(language_model|text_model|text_decoder)\.")
ELSEWHERE: Final = re.compile(r"embed_tokens_extend")
GATES: Final = re.compile(r"(gate_proj|gate_up_proj|gate_up|\.w3|wi_1|fc_gate|c_fc_1)(\.weight)?$")


def main(types_file: str, counts_file: str) -> None:
    """Write both files."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.filterwarnings("ignore")
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    types: dict[str, Any] = {}
    with Path(counts_file).open("w", encoding="utf-8") as lines:
        for kind, names in sorted(language_types().items()):
            try:
                said = described(transformers, kind, names)
                for name in said:
                    if name == kind or name not in types:
                        types[name] = said[name]
                for line in counted(transformers, kind, names):
                    lines.write(json.dumps(line) + "\n")
            except Exception as error:
                print(f"{kind}: {error!r}"[:160], file=sys.stderr)
    table = [f"{json.dumps(kind)}: {json.dumps(types[kind])}" for kind in sorted(types)]
    Path(types_file).write_text("{\n" + ",\n".join(table) + "\n}\n", encoding="utf-8")


def language_types() -> dict[str, list[str]]:
    """Return the classes of each type that make words, the most telling first."""
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    classes: dict[str, list[str]] = {}
    for mapping in MAPPINGS:
        for kind, name in getattr(auto, mapping, {}).items():
            several = name if isinstance(name, list | tuple) else [name]
            classes.setdefault(kind, []).extend(
                one for one in several[:1] if one not in classes.get(kind, [])
            )
    return classes


def described(transformers: Any, kind: str, names: list[str]) -> dict[str, Any]:
    """Return what is said of a type, and of the type of its language model."""
    config = configuration(transformers, kind)
    said = {}
    inner = next((getattr(config, part) for part in PARTS if hasattr(config, part)), None)
    for one in (config, inner):
        if one is None or not dataclasses.is_dataclass(one):
            continue
        said[one.model_type] = {"keys": keys(one), "names": dict(one.attribute_map)}
    weights = next(
        (shape for shape in (shapes(transformers, name, kind) for name in names) if shape), {}
    )
    sizes = inner if inner is not None else config
    facts: dict[str, Any] = gates(weights, sizes) if weights else {}
    if isinstance(listed := getattr(sizes, "layer_types", None), list):
        facts["cycle"] = cycle([str(one) for one in listed])
    if isinstance(listed := getattr(sizes, "mlp_layer_types", None), list) and listed[0] == "dense":
        facts["first_dense"] = listed.index("sparse") if "sparse" in listed else len(listed)
    if all(name.endswith("ForMaskedLM") for name in names):
        facts["masked"] = True
    said[sizes.model_type] |= facts
    if inner is not None:
        said[config.model_type]["language"] = inner.model_type
    return said


def keys(config: Any) -> dict[str, Any]:
    """Return the keys of a configuration that may change a layer, with their defaults."""
    defaults = {}
    for field in dataclasses.fields(config):
        plain = field.default is None or isinstance(field.default, str | int | float | bool | list)
        if not IRRELEVANT.search(field.name) or field.name == "tie_word_embeddings":
            defaults[field.name] = field.default if plain else None
    return defaults


def gates(weights: Mapping[str, tuple[int, ...]], config: Any) -> dict[str, bool]:
    """Return whether feed-forward parts have a third matrix, and attention one as wide as its queries."""
    sizes = [getattr(config, name, None) for name in ("intermediate_size", "moe_intermediate_size")]
    widths = [2 * size for size in sizes if isinstance(size, int)]
    gated = attention = False
    for name, shape in weights.items():
        if "attn" in name or "attention" in name:
            queries = weights.get(re.sub(r"gate_proj|g_proj|output_gate", "q_proj", name))
            attention |= bool(re.search("gate_proj|g_proj|output_gate", name)) and queries == shape
        elif GATES.search(name) or (".Wi." in name and shape[0] in widths):
            gated = True
    return {"gated": gated, "attention_gate": attention}


def cycle(listed: list[str]) -> list[str]:
    """Return the shortest beginning that the layers repeat; nothing where they repeat none of at most 16."""
    for length in range(1, 17):
        if all(one == listed[place % length] for place, one in enumerate(listed)):
            return listed[:length]
    return []


def counted(transformers: Any, kind: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the weights of a type with its defaults, then with one key changed at a time."""
    for name in names:
        weights = shapes(transformers, name, kind)
        if not weights:
            continue
        language = [one for one in weights if LANGUAGE.search(one)]
        if language:
            language += [
                one for one in weights if one.split(".")[-2:-1] in (["lm_head"], ["output"])
            ]
        else:
            language = [one for one in weights if not ELSEWHERE.search(one)]
        written = relevant(configuration(transformers, kind).to_diff_dict())
        text = sum(math.prod(weights[one]) for one in set(language))
        yield {"type": kind, "class": name, "changed": False, "language": text, "config": written}
        break
    config = configuration(transformers, kind)
    parts = [part for part in PARTS if hasattr(config, part)]
    if (
        parts
        or getattr(config, "is_encoder_decoder", False)
        or not dataclasses.is_dataclass(config)
    ):
        return
    fewer = {}
    for layers in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
        if (keys(config).get(layers) or 0) > LAYERS:
            fewer = {layers: LAYERS}
    before = None
    for change in ({}, *changes(keys(config), fewer)):
        weights = shapes(transformers, names[0], kind, **fewer, **change)
        if any(ELSEWHERE.search(name) for name in weights):
            return
        total = sum(math.prod(shape) for shape in weights.values())
        if not weights or (change and total == before):
            continue
        before = before or total
        stated = {"model_type": kind, **fewer, **change}
        yield {
            "type": kind,
            "class": names[0],
            "changed": True,
            "language": total,
            "config": stated,
        }


def changes(stated: Mapping[str, Any], fewer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each key with another value than its default."""
    for key, value in stated.items():
        if key in fewer:
            continue
        if isinstance(value, bool):
            yield {key: not value}
        elif isinstance(value, int) and value > 1:
            yield {key: value // 2}
            yield {key: value * 2}
        elif isinstance(value, int):
            yield {key: value + 1}
        elif value is None and re.search("head_dim|num_key_value|intermediate|n_inner|rank", key):
            yield {key: 2 if "num" in key else 64}


def configuration(transformers: Any, kind: str, **changed: Any) -> Any:
    return transformers.models.auto.configuration_auto.CONFIG_MAPPING[kind](**changed)


def shapes(transformers: Any, name: str, kind: str, **changed: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's weights by name, tied ones once; empty where it cannot be built."""
    torch = importlib.import_module("torch")
    signal.alarm(SECONDS)
    try:
        with torch.device("meta"):
            model = getattr(transformers, name)(configuration(transformers, kind, **changed))
        return {key: tuple(weight.shape) for key, weight in model.named_parameters()}
    except Exception:
        return {}
    finally:
        signal.alarm(0)


def relevant(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration as it is written, without what changes nothing here."""
    kept: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and key not in ("per_layer_config", "linear_attn_config"):
            sizes = {name: value[name] for name in ("hidden_size", "depth") if name in value}
            kept[key] = (
                relevant(value)
                if key in (*PARTS, "attn_config", "ffn_config", "thinker_config")
                else sizes
            )
        elif not IRRELEVANT.search(key) or key in ("tie_word_embeddings", "is_encoder_decoder"):
            kept[key] = value
    return kept


def _late(*_: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _late)
    main(*sys.argv[1:])
