"""How the documentation is built: `make docs`. Warnings are errors; nothing is fetched while it is built or read."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import plotly
from docutils import nodes
from plotly.basedatatypes import BaseFigure

sys.path.insert(0, str(Path(__file__).parent))

import generate
import miniature
import pandas as pd

import flopcast
from flopcast.report import static_figures
from flopcast.report.result import Result

project = "flopcast"
author = "The flopcast developers"
version = release = flopcast.__version__
copyright = author  # noqa: A001 - Sphinx asks for this name
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/*.ipynb", "_templates"]
# a function as a setting; sources that stand at the end of a text
suppress_warnings = ["config.cache", "ref.citation"]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_disable_syntax = ["myst_line_comment"]  # a line may begin with a per cent sign
default_role = "py:obj"
nitpicky = True  # a reference by its whole name has to lead somewhere; in docstrings a short one may be a mere word
nitpick_ignore_regex = [("py:.*", r"(?!flopcast\.)[\s\S]*")]
autodoc_typehints = "none"
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_predict_request, set_score_request"
}
autosummary_generate = True
numpydoc_show_class_members = False
html_theme = "furo"
html_title = f"flopcast {version}"
html_static_path = ["_static"]
html_css_files = ["flopcast.css"]
html_show_sphinx = False
html_use_index = html_domain_indices = False
html_copy_source = False
html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_show_search_summary = False  # it would fetch the pages, which a browser does not do for files
copybutton_prompt_text = ">>> "
linkcheck_timeout = 10

_PICTURED: dict[str, Any] = {}
"""Example -> the value that its last picture is of."""


def _has_figures(example: str) -> bool:
    return ".plot" in Path(example).read_text(encoding="utf-8")


def _picture(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save a small picture of what a block of an example shows, for the card of the example and the guides.

    That is each figure; of an example without any, each table. The example itself shows the whole.
    """
    example, shown = str(block_vars["src_file"]), block_vars["example_globals"].get("___")
    if shown is None or shown is _PICTURED.get(example):
        return ""
    title = Path(example).stem.partition("_")[2].replace("_", " ")
    text = ""
    if isinstance(shown, BaseFigure):
        text = static_figures.picture(shown, title)
    elif isinstance(shown, pd.DataFrame | Result) and not _has_figures(example):
        table = shown.table if isinstance(shown, Result) else shown
        text = miniature.table_picture(table, title)
    if text:
        _PICTURED[example] = shown
        path = Path(next(block_vars["image_path_iterator"])).with_suffix(".svg")
        path.write_text(text, encoding="utf-8")
    return ""


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": (_picture,),
    "reset_modules": (),
    "capture_repr": ("_repr_html_", "__repr__"),
    "reference_url": {"flopcast": None},
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
}

# A figure stands in a page as its data; plotly.js is copied beside the pages, so that reading them needs no network.
SCRIPT = "../_static/plotly.min.js"
BaseFigure._repr_html_ = lambda figure: figure.to_html(
    full_html=False,
    include_plotlyjs=SCRIPT,
    default_width="max(100%, 40rem)" if "xaxis3" in figure.layout else "100%",
    config={"displayModeBar": False},
)
os.environ.setdefault("OMP_NUM_THREADS", "1")


def _copied(app: Any, error: Exception | None) -> None:
    """Put plotly.js of the installed plotly beside the pages."""
    if error is None and app.builder.format == "html":
        script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
        (Path(app.outdir) / "_static" / "plotly.min.js").write_bytes(script.read_bytes())


def _as_meant(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make headings of a module words in bold, the page has its own, and an author's initial no list."""
    lines[:] = [re.sub(r"^(\s*\.\. \[\S+\] )([A-Z]\.)", r"\1\\\2", line) for line in lines]
    for at in range(len(lines) - 1 if what == "module" else 0):
        if lines[at + 1] and not lines[at + 1].strip("-") and len(lines[at + 1]) == len(lines[at]):
            lines[at : at + 2] = [f".. rubric:: {lines[at]}", ""]


def _unbroken(app: Any, tree: nodes.document, name: str) -> None:
    """Keep a number on one line with its per cent sign, its error after ``±``, or its next three digits."""
    for text in list(tree.findall(nodes.Text)):
        joined = re.sub(r"(?<=\d) (?=%|±|\d{3}\b)|(?<=±) (?=\d)", "\N{NO-BREAK SPACE}", text)
        if joined != text and not isinstance(text.parent, nodes.FixedTextElement | nodes.literal):
            text.parent.replace(text, nodes.Text(joined))


def _without_old_pictures(gallery: Path) -> None:
    """Remove a gallery that was made before its pictures are drawn as now, so that all examples run again."""
    made = gallery / "index.rst"
    drawn_by = [Path(__file__), Path(miniature.__file__), Path(static_figures.__file__)]
    if made.exists() and made.stat().st_mtime < max(code.stat().st_mtime for code in drawn_by):
        shutil.rmtree(gallery)


def _without_pictures(app: Any, config: Any) -> None:
    """Let pages lack the pictures of examples where these are not executed."""
    if str(config.plot_gallery).lower() in ("0", "false"):
        config.suppress_warnings = [*config.suppress_warnings, "image.not_readable"]


def setup(app: Any) -> None:
    """Write the pages that are made from the package itself, then let Sphinx read all."""
    generate.pages(Path(__file__).parent / "generated")
    _without_old_pictures(Path(__file__).parent / "gallery")
    app.connect("config-inited", _without_pictures)
    app.connect("doctree-resolved", _unbroken)
    app.connect("autodoc-process-docstring", _as_meant)
    app.connect("build-finished", _copied)
