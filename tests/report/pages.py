"""Documents as text, and pages taken apart: their tags, their text, their figures."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser

from rich.console import Console

from flopcast.report.document import Document
from flopcast.report.terminal import print_document

VOID = {"meta", "br"}


def printed(document: Document, width: int = 120) -> str:
    """Return what a terminal of a width shows."""
    text = io.StringIO()
    print_document(Console(file=text, width=width), document)
    return text.getvalue()


class Checker(HTMLParser):
    """Collects text and tags of a page, and checks that every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def parsed(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def said(page: str) -> str:
    """Return the words of a page, one blank between them."""
    return " ".join(" ".join(parsed(page).text).split())


def own(page: str) -> str:
    """Return the page without plotly.js."""
    scripts = list(re.finditer(r"<script[^>]*>.*?</script>", page, re.DOTALL))
    if not scripts:
        return page
    longest = max(scripts, key=lambda found: len(found.group()))
    return page[: longest.start()] + page[longest.end() :]


def plots(page: str) -> list[dict]:
    text = own(page).split("const plots = ", 1)[1]
    return json.JSONDecoder().raw_decode(text)[0]
