"""Which model a name, a file or a folder means.

Known models stand in models.toml: figures of their published configurations, other names, and the
number formats of quantised checkpoints. A name may go on with what does not change a model's shape
(``-Instruct``, ``-FP8-KV``, a date). Any other is looked for in the local Hugging Face cache.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources
from os import PathLike
from os.path import isdir, isfile  # False of a name too long to be one, where those of Path raise
from pathlib import Path
from typing import Any, Final

from ..errors import DataError, nearest
from .architecture import Architecture, Attention, Dense, Latent, Mixture, Recurrent
from .model_config import formats_of, from_config

_HARMLESS: Final = re.compile(
    r"(instruct|chat|base|it|hf|kv|thinking|preview|pt|sft|dpo|dynamic|static|per|pertensor|tensor|channel|block|ptpc"
    r"|quantized|quark|autofp8|w\d+a\d\w*|(mx|nv)?(fp8|fp4)\w*|bf16|fp16|int[48]\w*|awq|gptq|gguf|bnb|[48]bit"
    r"|mlperf|v?\d+k?)"
)
"""Words of a name that do not change the shape of a model."""
FORMATS: Final = re.compile(
    r"(?<![a-z0-9])(?:(?:mx|nv)?(fp8|fp4)|(int4|awq|gptq|w4a16|int8|w8a8|bf16)(?![a-z0-9]))"
)
"""What a name says of the format of the weights."""


def format_in(name: str) -> str | None:
    """Return the number format of the weights that a model's name states, if any.

    >>> format_in("nvidia/Qwen3-235B-A22B-NVFP4"), format_in("Qwen2.5-72B-Instruct-AWQ"), format_in("gpt-oss-20b")
    ('fp4', 'int4', None)
    """
    match = FORMATS.search(name.lower())
    word = match and (match[1] or match[2])
    return word and (word if word[:2] in ("fp", "bf") else "int8" if "8" in word else "int4")


def find(model: str | Path | Mapping[str, Any] | Architecture) -> Architecture:
    """Return the architecture of a model.

    It is named in any spelling of case and separators, with what follows a known name
    (``-Instruct``, ``-FP8-KV``), or without the active size of a mixture of experts (Qwen3-235B);
    or by the path of a Hugging Face ``config.json``, or of the folder that holds it (with the
    ``hf_quant_config.json`` beside it); the contents of one; or a model of the local Hugging Face
    cache. Raises DataError: the name is unknown (the message has the nearest), the file cannot be
    read, or a figure is missing or cannot be.

    >>> model = find("llama-3.1-70b")
    >>> model.layers, model.kv_heads, round(model.parameters / 1e9, 1)
    (80, 8, 70.6)
    """
    if isinstance(model, Architecture):
        return model
    if isinstance(model, Mapping):
        return from_config(model)
    if not isinstance(model, str | PathLike):
        raise DataError(f"a model must be a name, a file or a configuration, got {model!r}")
    path = Path(model)
    name = str(model)
    if path.suffix == ".json" or isdir(path):
        return _read(path / "config.json" if isdir(path) else path)
    if isfile(path):
        text = (
            "is no config.json, list of operators (CSV), graph of layers (JSON), execution trace "
            "or ONNX model"
        )
        raise DataError(text, source=str(path))
    if path.suffix in (".onnx", ".et", ".gz", ".csv") or path.is_absolute():
        raise DataError("no such file or folder", source=str(path))
    architecture = _called(name.rsplit("/", 1)[-1])
    if architecture:
        return architecture
    cached = _cached(name)
    if cached:
        return replace(_read(cached), name=name.rsplit("/", 1)[-1])
    raise DataError(
        f"unknown model {name!r}: {nearest(name, names())} (or the path of a config.json, or a "
        "model in the local "
        "Hugging Face cache)"
    )


def names() -> list[str]:
    """Return the names of the shipped models."""
    return list(_texts())


def quantised(name: str) -> list[str]:
    """Return the shipped models that are another one in narrower formats: deepseek-r1-nvfp4 of deepseek-r1."""
    name = configured_as(name)
    return [
        one
        for one in names()
        if one.startswith(f"{name}-") and FORMATS.fullmatch(one[len(name) + 1 :])
    ]


def hub_name(model: Architecture) -> str:
    """Return the model's name on the hub, as its table states it; else its name.

    >>> hub_name(find("llama-3.1-70b")), hub_name(find("llama-3.3-70b"))
    ('meta-llama/Llama-3.1-70B', 'llama-3.3-70b')
    """
    if model.name in _texts():
        source = str(_table(model.name).get("source", ""))
        if re.fullmatch(r"[\w.-]+/[\w.-]+", source):
            return source
    return model.name


@lru_cache(maxsize=256)
def configured_as(name: str) -> str:
    """Return the name of the table of a model with an equal configuration, else the name itself.

    >>> configured_as("glm-4.6"), configured_as("my-own")
    ('glm-4.5', 'my-own')
    """
    return next((model for model, text in _texts().items() if name in _aliases(text)), name)


@lru_cache(maxsize=256)
def _called(name: str) -> Architecture | None:
    """Return the shipped model of a name: the longest that it begins with, if the rest changes no shape.

    Of two as long, Qwen2.5-7B and Qwen2-57B, that whose digits stand apart as in the name.
    """
    title = name.lower()
    called = []
    for model, text in _texts().items():
        called += [(spelling, model) for spelling in (model, *_aliases(text))]
    spelt = {}
    for full, model in called:
        spelt[_ACTIVE.sub("", full)] = spelt[full] = model
    begins = [word for word in spelt if _plain(title).startswith(_plain(word))]
    for word in sorted(
        begins, key=lambda one: (-len(_plain(one)), not _apart(title).startswith(_apart(one)))
    ):
        place = -1
        for _ in _plain(word):  # the letter of the title at which the known name ends
            place = next(at for at in range(place + 1, len(title)) if title[at].isalnum())
        rest = [one for one in re.split(r"[-_ :.]+", title[place + 1 :]) if one]
        if all(_HARMLESS.fullmatch(one) for one in rest):
            return _titled(word, spelt[word])
    return None


def _titled(word: str, model: str) -> Architecture:
    """Return a shipped model under the requested name, if that is another model of equal configuration."""
    architecture = _of_table(model)
    if word in _aliases(_texts()[model]):
        return replace(architecture, name=word)
    return architecture


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _apart(name: str) -> str:
    """Return a name with its digits kept apart: 2.5-7b and 2-57b."""
    return re.sub(r"[^a-z0-9~]+", "", re.sub(r"(?<=\d)[^a-z0-9]+(?=\d)", "~", name.lower()))


@cache
def _texts() -> dict[str, str]:
    """Return the text of each model's table by name: reading all of them takes longer than a forecast."""
    text = resources.files("flopcast.workloads").joinpath("models.toml").read_text(encoding="utf-8")
    tables = text.split("\n[[model]]\n")[1:]
    return {_NAME.findall(one)[0]: one for one in tables}


_NAME: Final = re.compile(r'^name = "(.*)"$', re.MULTILINE)
_ACTIVE: Final = re.compile(r"(?<=b)-a[\d.]+b$")  # Qwen3-235B is Qwen3-235B-A22B
_ALIASES: Final = re.compile(r"^aliases = \[[^\]]*\]", re.MULTILINE)


def _aliases(text: str) -> list[str]:
    match = _ALIASES.search(text)
    if match:
        return tomllib.loads(match[0])["aliases"]
    return []


@cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(f"[[model]]\n{_texts()[name]}")["model"][0]


@cache
def _of_table(name: str) -> Architecture:
    """Return the model of a table of models.toml; a table ``like`` another states only the differences."""
    table = _table(name)
    if "like" in table:
        table = _table(table["like"]) | table
    if "latent" in table:
        latent = Latent(**table["latent"])
    else:
        latent = None
    if "mixture" in table:
        mixture = Mixture(**table["mixture"])
    else:
        mixture = None
    return Architecture(
        name=name,
        hidden=table["hidden"],
        layers=table["layers"],
        vocab=table["vocab"],
        context=table.get("context", 0),
        attention=tuple(Attention(**one, latent=latent) for one in table.get("attention", ())),
        recurrent=tuple(Recurrent(**one) for one in table.get("recurrent", ())),
        dense=tuple(Dense(**one) for one in table.get("dense", ())),
        mixture=mixture,
        gated=table.get("gated", True),
        causal=table.get("causal", True),
        tied=table.get("tied", False),
        formats=table.get("formats", {}),
        kv_format=table.get("kv_format", ""),
    )


def _read(file: Path) -> Architecture:
    config = _json(file)
    if file.name.endswith("hf_quant_config.json"):
        beside = file.name.replace("hf_quant_config.json", "config.json")
        raise DataError(
            f"is the quantisation of a model alone: give the {beside} beside it", source=str(file)
        )
    name = str(
        config.get("_name_or_path")
        or (file.resolve().parent.name if file.stem == "config" else file.stem)
    )
    architecture = from_config(config, name)
    beside = file.parent / "hf_quant_config.json"
    if not architecture.formats and file.name == "config.json" and beside.is_file():
        stated = _json(beside).get("quantization")
        formats, cached = formats_of(
            stated if isinstance(stated, Mapping) else {}, name, architecture.layers
        )
        return replace(architecture, formats=formats, kv_format=cached)
    return architecture


def _json(file: Path) -> dict[str, Any]:
    if not isfile(file):
        problem = "holds no config.json: give the folder of a model, or the file of a workload"
        alone = file.name != "config.json"
        raise DataError(
            "no such file" if alone else problem, source=str(file if alone else file.parent)
        )
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"cannot be read as a model's configuration: {error}", source=str(file)
        ) from None
    if not isinstance(content, dict):
        wanted = 'a model\'s configuration or a graph of layers, {"layers": [...]}'
        raise DataError(
            f"must hold a JSON object ({wanted}), holds a {type(content).__name__}",
            source=str(file),
        )
    return content


def _cached(name: str) -> Path | None:
    """Return the config.json of a model in the local Hugging Face cache, of its main branch or the newest there is."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    folder = (
        Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
    )
    if not isdir(folder):
        return None
    main = folder / "refs" / "main"
    if main.is_file():
        file = folder / "snapshots" / main.read_text(encoding="utf-8").strip() / "config.json"
        if file.is_file():
            return file
    configs = sorted(folder.glob("snapshots/*/config.json"), key=lambda one: one.stat().st_mtime)
    if configs:
        return configs[-1]
    return None
