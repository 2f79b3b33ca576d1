"""What a call of the API returns: one protocol of results, whatever was asked.

`Result` has it: a table, a document for readers, plain values for programs, files, and how notebooks show it.
`Shown` is a result whose answer is its document more than its table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, isfunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, Self, TypeVar, cast

import pandas as pd
import pyarrow as pa

from ..allowed import Declared
from ..errors import FlopcastError, ParameterError
from ..output import (
    FORMATS,
    MADE_BY,
    check_name,
    check_output,
    check_place,
    check_replaceable,
    dumps,
    is_called_a_file,
    replacing,
    write_table,
    write_text,
    write_texts,
)
from ..settings import configured
from .document import Document, Figure, Headline, Part, Section, Sliders, Table, footer
from .html import frame, page
from .notebook import framed

P = ParamSpec("P")
R = TypeVar("R", bound="Result")
T = TypeVar("T")
_FRAME: Final = 460  # pixels of an answer in a notebook


class Result:
    """The result of a call of the API.

    Attributes
    ----------
    table : DataFrame
        The result as one table.
    saved_as : tuple of str
        What `save` writes into a folder: JSON, page, and what stands beside them.
    heading : str
        The title of the page, where the document has none.
    """

    saved_as: ClassVar[tuple[str, ...]] = ()
    heading: ClassVar[str] = ""
    if TYPE_CHECKING:  # of a dataclass it may be a field, whose default this would be

        @property
        def table(self) -> pd.DataFrame:
            """The result as one table."""

    def __init_subclass__(cls, **how: Any) -> None:
        """Give each kind checked methods, a short `__repr__` in place of a dataclass's, and files named after it."""
        super().__init_subclass__(**how)
        _check_methods(cls)
        if "__repr__" not in cls.__dict__:
            type.__setattr__(cls, "__repr__", Result.__repr__)
        if not cls.saved_as:
            stem = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()
            cls.saved_as = (f"{stem}.json", f"{stem}.html")

    @classmethod
    def from_fields(cls, other: Any) -> Self:
        """Make the result from the dataclass of a lower room that it corresponds to."""
        if not is_dataclass(other):
            problem = f"must be what a function of a lower room returns, got {type(other).__name__}"
            raise ParameterError("other", problem)
        return cls(
            **{field.name: getattr(other, field.name) for field in fields(other) if field.init}
        )

    @property
    def saved_besides(self) -> tuple[Path, ...]:
        """Files and folders that were written with the result, by the call that made it."""
        return ()

    def document(self) -> Document:
        """Return the result for readers; its ``data`` are those of the JSON."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON types: what ``--json`` prints and the JSON of `save` holds."""
        return json.loads(dumps(self.document().data, missing=True))

    def report(self, made: Mapping[str, Any] | None = None) -> str:
        """Return the page, which needs no other files; it ends with what it was ``made`` of, if given."""
        whole = self.document()
        if not whole.title:
            whole = replace(whole, title=self.heading)
        if made is not None:
            whole = replace(whole, footer=footer(made))
        return page(whole)

    def save(
        self,
        path: str | Path,
        *,
        made: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the result, whole or not at all: `saved_as` into a folder, or the one file that the suffix asks for.

        ``.json`` holds `to_dict`, ``.html`` the page, ``.csv``, ``.parquet`` and ``.xlsx`` the table.

        Parameters
        ----------
        path : path
            A folder, which is new or has these files of before, or a file.
        made : mapping, optional
            What the page says it was made of (`report.document.footer`).
        overwrite : bool
            Whether files that flopcast did not write may be replaced.

        Raises
        ------
        DataError
            The folder holds other files, there are files that flopcast did not write and
            ``overwrite`` is not set, or nothing can be written there.
        """
        out = Path(path)
        check_name(out)
        suffix = out.suffix.lower()
        with replacing(overwrite=overwrite):
            if out.is_dir() or suffix not in (".json", ".html", *FORMATS):
                self._write(out, made)
            elif suffix == ".json":
                write_text(out, dumps({**MADE_BY, **self.to_dict()}))
            elif suffix == ".html":
                write_text(out, self.report(made))
            else:
                table = pa.Table.from_pandas(self.table, preserve_index=False)
                write_table(table, out, dumps(self.document().data, missing=True))

    @classmethod
    def _check_folder(cls, folder: Path) -> None:
        """Refuse a folder that `save` cannot write to; called before the work, not after."""
        check_output(folder, cls.saved_as)

    def _write(self, folder: Path, made: Mapping[str, Any] | None) -> None:
        """Write `saved_as` into a folder."""
        data = dumps(self.document().data, missing=True)
        texts = (data, self.report(made), *self._beside())
        write_texts(folder, dict(zip(self.saved_as, texts, strict=True)))

    def _beside(self) -> tuple[str, ...]:
        """Return the texts of `saved_as` other than JSON and page."""
        return ()

    def what_if(self) -> Answer:
        """Return the sliders of the page, for the output of a notebook's cell: every setting that was computed.

        Raises ParameterError: there are none: one setting, or more combinations than a page holds.
        """
        whole = self.document()
        parts = []
        for section in whole.sections:
            for part in section.parts:
                if isinstance(part, Sliders):
                    parts.append(part)
        lacking = "has nothing to slide over: give several settings, and no more than a page holds"
        return slid(whole.title, parts, lacking)

    def __repr__(self) -> str:
        whole = self.document()
        heads = [part for part in whole.opening if isinstance(part, Headline)]
        heads = [head for head in heads if head.medium != "page"] or heads
        answers = []
        for head in heads:
            if head.about and head.rival:
                answers.append(f"{head.about}: {head.rival} → {head.answer}")
            else:
                answers.append(head.answer)
        titles = [part.title for part in whole.opening if isinstance(part, Table)]
        title = whole.title or "".join(titles[:1])
        return f"<{type(self).__name__}: {'; '.join([title, *answers])}>"

    def _repr_html_(self) -> str:
        return framed(repr(self)[1:-1], self.table, answer=self.document())


def _check_methods(kind: type) -> None:
    """Let the public methods of a class refuse values that their annotations do not allow."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_") or hasattr(member, "__wrapped__"):  # or is checked
            continue
        if isfunction(member):
            type.__setattr__(kind, name, configured(member))
        elif isinstance(member, classmethod):
            type.__setattr__(kind, name, classmethod(configured(member.__func__)))


_check_methods(Result)


class Shown(Result):
    """A result that notebooks show as its document rather than as its table."""

    def _repr_html_(self) -> str:
        """Return the answer and the tables for the output of a notebook's cell; figures (megabytes) are the page's."""
        whole = self.document()
        light = []
        for section in whole.sections:
            parts = [part for part in section.parts if not isinstance(part, Figure)]
            light.append(replace(section, parts=parts))
        return frame(replace(whole, sections=light, footer=(), framed=True), _FRAME)


@dataclass(frozen=True, repr=False)
class Answer(Shown):
    """An answer in words and tables.

    Attributes
    ----------
    found : Document
        What it says.
    """

    found: Document

    @property
    def table(self) -> pd.DataFrame:
        """Its first table, as it is shown; empty where it has none."""
        whole = self.found
        sections = []
        for place in whole.sections:
            sections.extend(place.parts)
        for part in (*whole.opening, *sections, *whole.closing):
            if isinstance(part, Table) and part.rows:
                heads = [column.head for column in part.columns]
                rows = []
                for row in part.rows:
                    texts = [getattr(cell, "text", cell) for cell in row.cells]
                    rows.append(texts + [""] * (len(heads) - len(texts)))
                return pd.DataFrame(rows, columns=heads)
        return pd.DataFrame()

    def document(self) -> Document:
        """Return the answer for readers."""
        return self.found


def slid(title: str, parts: Sequence[Part], lacking: str) -> Answer:
    """Return sliders as an answer; where there are none, a ParameterError says what is ``lacking``."""
    if not parts:
        raise ParameterError("what_if", lacking)
    return Answer(Document(title=title, sections=[Section("", parts)], data={}))


def saving(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function take ``out``, the place that its result is saved to, and ``overwrite``, as `Result.save` does.

    They are what the options ``--out`` and ``--force`` of its command say.
    """
    stated = signature(function)
    parameters = [*stated.parameters.values()]
    added = [Parameter("out", Parameter.KEYWORD_ONLY, default=None, annotation="str | Path | None")]
    overwrites = "overwrite" in stated.parameters
    if not overwrites:
        added.append(
            Parameter("overwrite", Parameter.KEYWORD_ONLY, default=False, annotation="bool")
        )
    last = len(parameters)
    if parameters and parameters[-1].kind is Parameter.VAR_KEYWORD:
        last -= 1
    parameters[last:last] = added
    saved = Declared({parameter.name: parameter for parameter in added}, {"Path": Path})

    @wraps(function)
    def called(
        *args: Any, out: str | Path | None = None, overwrite: bool = False, **given: Any
    ) -> T:
        saved.check((), {"out": out, "overwrite": overwrite})
        if overwrites:
            given["overwrite"] = overwrite
        if out is not None:
            with replacing(overwrite=overwrite):
                _check_place(Path(out), str(stated.return_annotation))
        result = function(*args, **given)
        if out is not None:
            cast("Result", result).save(out, overwrite=overwrite)
        return result

    vars(called)["__signature__"] = stated.replace(parameters=parameters)
    return cast("Callable[P, T]", called)


def _check_place(out: Path, kinds: str) -> None:
    """Refuse, before the work, a place to which none of the kinds of results (``Check | Curve``) can be saved."""
    check_name(out)
    if is_called_a_file(out):
        check_replaceable(out)
        check_place(out)
        return
    refused = None
    for kind in _every_kind(Result):
        if kind.__name__ not in kinds.split(" | "):
            continue
        try:
            kind._check_folder(out)
        except FlopcastError as error:
            refused = error
        else:
            return
    if refused is not None:
        raise refused


def _every_kind(kind: type[Result]) -> Iterator[type[Result]]:
    for narrower in kind.__subclasses__():
        yield narrower
        yield from _every_kind(narrower)


def also_saving(keyword: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function that saves (`saving`) take another place too: the result's ``save_KEYWORD`` writes there.

    It is what the option of that name of its command says.
    """

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        stated = signature(function)
        added = Parameter(
            keyword, Parameter.KEYWORD_ONLY, default=None, annotation="str | Path | None"
        )
        parameters = [*stated.parameters.values()]
        last = [one.name for one in parameters].index("out")
        parameters.insert(last, added)
        saved = Declared({keyword: added}, {"Path": Path})

        @wraps(function)
        def called(*args: Any, **given: Any) -> T:
            place = given.pop(keyword, None)
            saved.check((), {keyword: place})
            overwrite = given.get("overwrite", False)
            if place is not None:
                with replacing(overwrite=overwrite):
                    _check_place(Path(place), "")
            result = function(*args, **given)
            if place is not None:
                save = getattr(result, f"save_{keyword}", None)
                if save is None:
                    problem = f"is not written of {type(result).__name__}: leave it out"
                    raise ParameterError(keyword, problem)
                save(place, overwrite=overwrite)
            return result

        vars(called)["__signature__"] = stated.replace(parameters=parameters)
        return cast("Callable[P, T]", called)

    return wrap


def returning(kind: type[R], call: Callable[P, Any]) -> Callable[P, R]:
    """Wrap a function of a lower room as one of the API: its result becomes a ``kind`` of `Result`."""
    checked = configured(call)

    @wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        return kind.from_fields(checked(*args, **kwargs))

    shown = signature(call).replace(return_annotation=kind.__name__)
    vars(called)["__signature__"] = shown
    return called
