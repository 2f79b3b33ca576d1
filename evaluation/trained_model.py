"""A trained model with all that a prediction needs beside it: as a run folder holds it, from rows to intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from scipy import stats

from .. import sealing
from ..errors import ArtifactError, DataError, NotPublishedError, UnknownGPUError, counted
from ..features.context import PRIOR
from ..features.matrix import FOREIGN, OTHER_HOST, SIBLING, STRANGER, KnownGroups
from ..features.recipe import FeatureRecipe
from ..hardware import GPU, Comparison, all_gpus, find
from ..laws.applied import laws_of_one, scaling_laws, size, sum_of_parts
from ..laws.rates import HOST_DEVICE, each_gpu, each_pair, on_each, published
from ..models import artifact
from ..models.base import selected_features
from ..operators.operators import Work, work_of
from ..operators.work import as_categories
from ..remarks import Reasons, Remark, remark
from ..table.measurements import DTYPE_COLUMNS, TEXT_COLUMNS, TEXT_DIMENSIONS, fill_text
from ..table.problems import HOST, beside, codes_of
from .campaigns import stated
from .domain import WIDENING, TrainedRange
from .extrapolation import Beyond, FallbackLaw, blend, by_operator, limits
from .folds import NEW_CAMPAIGN
from .interval_scale import ON_DEVICE, Spread
from .intervals import LEVEL
from .stated_error import (
    KNOWN_GROUP,
    NEW_CAMPAIGN_ROW,
    NEW_GROUP,
    NOTHING_STATED,
    StatedErrors,
    by_trained_rows,
)
from .verdicts import Interval

_MODEL: Final = "model"  # the `basis` of rows where a run did not keep its groups
_KNOWN = KNOWN_GROUP
_NEW = NEW_GROUP
_NEW_CAMPAIGN = NEW_CAMPAIGN_ROW
ANSWERS: Final = 5  # rows whose answers are kept with a model
_WORDS: Final = tuple(
    dict.fromkeys(
        ("op", "device", "library", *DTYPE_COLUMNS, *TEXT_COLUMNS, *sorted(TEXT_DIMENSIONS))
    )
)


@dataclass(frozen=True)
class Correction:
    """A factor on all that a model answers, measured after it was trained.

    Attributes
    ----------
    factor, lower, upper, level : float
        The factor with its interval of that level.
    rows, groups : int
        What it was measured on.
    """

    factor: float
    lower: float
    upper: float
    level: float
    rows: int
    groups: int

    @classmethod
    def of(cls, shift: Interval, *, rows: int, groups: int) -> Self:
        """Return the correction of a shift."""
        return cls(shift.value, shift.lower, shift.upper, shift.level, rows, groups)

    @property
    def remark(self) -> Remark:
        """The correction as a remark on the model's predictions."""
        text = (
            f"corrected afterwards by {self.factor:.3f} [{self.lower:.3f}, {self.upper:.3f}], "
            f"measured on {self.rows} "
            f"rows of {self.groups} groups"
        )
        return remark("corrected", text, **vars(self))

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what a manifest holds; a KeyError, TypeError or ValueError where it is damaged."""
        factor, lower, upper, level = (
            float(saved[name]) for name in ("factor", "lower", "upper", "level")
        )
        if not (0 < lower <= factor <= upper < np.inf and 0 < level < 1):
            raise ValueError("a correction must be a positive factor inside its interval")
        return cls(factor, lower, upper, level, int(saved["rows"]), int(saved["groups"]))

    def applied(self, answers: pd.DataFrame, level: float) -> pd.DataFrame:
        """Return ``predicted``, ``lower`` and ``upper`` times the factor, the interval of that level widened.

        Its half-widths (log scale) are the roots of the sum of the squares of their own and the
        factor's.
        """
        sides = stats.norm.ppf((1 + np.array([level, self.level])) / 2)
        half_width = np.log(self.upper / self.lower) / 2 * sides[0] / sides[1]
        centre = answers["predicted"] * self.factor
        with np.errstate(divide="ignore", over="ignore"):
            down = np.hypot(np.log(answers["predicted"] / answers["lower"]), half_width)
            up = np.hypot(np.log(answers["upper"] / answers["predicted"]), half_width)
            return answers.assign(
                predicted=centre, lower=centre * np.exp(-down), upper=centre * np.exp(up)
            )


@dataclass(frozen=True)
class TrainedModel:
    """A run's model with all that a prediction needs beside it.

    Attributes
    ----------
    saved : Artifact
        The estimator, and the manifest.
    recipe : FeatureRecipe
        How rows become features; holds the specifications of the devices.
    domain : TrainedRange
        Of the training rows.
    spreads : dict of str to Spread
        By scheme the intervals of what it asks: ``kfold`` those of known groups, ``grouped`` those
        of new ones, ``campaign`` those of new campaigns. In runs that learnt one of them alone it
        serves all rows. ``sibling`` and ``stranger`` those of new devices.
    scheme : str
        Of the saved model.
    baselines : dict
        ``constant ratio`` and ``affine``, fitted to the training rows.
    beyond : Beyond or None
        How the model goes on outside the trained range; None in runs that did not learn it.
    law : FallbackLaw or None
        What may be said of what was never trained; None where there is no law, and in runs that did
        not learn it.
    groups : KnownGroups or None
        The groups that were trained; None in runs that did not keep them.
    correction : Correction or None
        A factor measured on newer rows (`checking`), on all but the law's answers; None as trained.
    prior : TrainedModel or None
        The run over other devices whose prediction is a feature.
    of_trained_groups : TrainedModel or None
        The model that answers rows of known groups in its place; None where one model answers all.
    campaigns : frozenset of str or None
        Those that were trained, where rows of others have separate intervals (`campaign` of
        ``spreads``).
    errors : StatedErrors
        What is stated of the error of the rows that it answers, those of ``of_trained_groups`` apart; of a
        corrected run of all rows, since the correction.
    user_gpu : (str, GPU) or None
        A GPU that the catalogue does not have, after the word that rows name it with: of a run over
        all devices. The caller describes it; it is never saved.
    """

    saved: artifact.Artifact
    recipe: FeatureRecipe
    domain: TrainedRange
    spreads: Mapping[str, Spread]
    scheme: str
    baselines: Mapping[str, Any]
    beyond: Beyond | None = None
    law: FallbackLaw | None = None
    groups: KnownGroups | None = None
    correction: Correction | None = None
    prior: TrainedModel | None = None
    of_trained_groups: TrainedModel | None = None
    campaigns: frozenset[str] | None = None
    errors: StatedErrors = NOTHING_STATED
    user_gpu: tuple[str, GPU] | None = None

    def __repr__(self) -> str:
        host = ""
        if self.recipe.host is not None:
            host = f"{self.recipe.host.name} → "
        return f"<TrainedModel {host}{self.recipe.target.name}: {self.name}>"

    @property
    def name(self) -> str:
        """The model in tables; of two the one for new groups and the one for known ones."""
        name = str(self.saved.manifest.get("selected", "?"))
        if self.of_trained_groups is None or self.of_trained_groups.name == name:
            return name
        return f"{name} (new groups), {self.of_trained_groups.name} (known groups)"

    @cached_property
    def used(self) -> frozenset[str]:
        """The features without which no row is answered: those that the saved models, and what stands beside, read."""
        read = self._read()
        if self.of_trained_groups is not None:
            read |= self.of_trained_groups._read()
        return frozenset(read)

    def _read(self) -> set[str]:
        """Return the features that this model reads, all of them where it does not say which."""
        columns = set(self.recipe.columns)
        selected = selected_features(self.saved.estimator)
        if selected is None or not columns.issuperset(selected):
            return columns
        read = set(selected)
        if self.beyond is not None:
            read.update(self.beyond.wider)
            for rule in (self.beyond.rule, self.beyond.other):
                if rule is not None:
                    read.update(rule.terms, rule.classes)
        for spread in self.spreads.values():
            if spread.difficulty:
                read.update(spread.difficulty.names)
        return read & columns

    def completed(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return features with a trained value where one is missing: what is not `used` changes no prediction."""
        lows = np.nan_to_num(self.domain.low).tolist()
        return X.fillna(dict(zip(self.domain.names, lows, strict=True)))

    def answering(self, row: pd.DataFrame) -> TrainedModel:
        """Return the model that answers one row."""
        if (
            self.of_trained_groups is None
            or self._question(row, self._trained_rows(row))[0] != _KNOWN
        ):
            return self
        return self.of_trained_groups

    def _trained_rows(self, rows: pd.DataFrame) -> np.ndarray | None:
        """Return the trained rows of the group of each row, (n,); None in runs that did not keep their groups."""
        if self.groups is None:
            return None
        return self.groups.trained_rows(rows)

    def _question(self, rows: pd.DataFrame, trained_rows: np.ndarray | None) -> np.ndarray:
        """Return what each row is, (n,): of a trained group, a new one, a new campaign, or device."""
        if self.groups is None or trained_rows is None:
            return np.full(len(rows), _MODEL, dtype=object)
        near = self.groups.nearness(rows, self.recipe.target)
        asked = np.where(trained_rows > 0, _KNOWN, _NEW).astype(object)
        new = np.flatnonzero(asked == _NEW)
        if self.campaigns is not None and len(new):
            trained = pd.Series(stated(rows.iloc[new])).isin(self.campaigns).to_numpy()
            asked[new[~trained]] = _NEW_CAMPAIGN
        return np.where(near != "", near, asked)

    @classmethod
    def load(cls, run: Path) -> Self:
        """Return the model of a run folder, which must be as it was sealed (`sealing.check`).

        Raises
        ------
        ArtifactError
            The folder is no run, or its model is damaged, foreign, or of other versions.
        """
        folder = run / artifact.MODEL
        if not folder.is_dir():
            raise ArtifactError(
                f"{run} is not a run folder (it has no {folder.name}/): {sealing.which_run(run)}"
            )
        sealing.check(run)
        return cls.read(folder)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the model of a folder ``model/``, whose seal the caller has checked; raises as `load`."""
        inner = folder / artifact.PRIOR
        prior = None
        if inner.is_dir():
            prior = cls.of(artifact.load(inner), inner / artifact.MANIFEST)
        inner = folder / artifact.KNOWN
        groups_model = None
        if inner.is_dir():
            groups_model = cls.of(artifact.load(inner), inner / artifact.MANIFEST, prior)
        return cls.of(artifact.load(folder), folder / artifact.MANIFEST, prior, groups_model)

    @classmethod
    def of(
        cls,
        saved: artifact.Artifact,
        source: Path | str = "the model",
        prior: TrainedModel | None = None,
        groups_model: TrainedModel | None = None,
    ) -> Self:
        """Return the model that an artifact describes; ``source`` is what messages call its manifest.

        ``prior`` is the one whose prediction it takes as a feature, ``groups_model`` the one that answers
        rows of known groups. Raises ArtifactError: the manifest is damaged, or foreign.
        """
        manifest = saved.manifest
        errors_now = "errors"
        if manifest.get("correction"):
            errors_now = "errors_since"
        try:
            spread = Spread.from_dict(manifest)
            model = cls(
                saved,
                FeatureRecipe.from_dict(manifest["recipe"]),
                TrainedRange.from_dict(manifest["domain"]),
                {
                    spread.intervals.scheme: spread,
                    **{
                        str(near): Spread.from_dict(one)
                        for near, one in manifest.get("devices", {}).items()
                    },
                    **_of_campaigns(manifest),
                },
                spread.intervals.scheme,
                {
                    "constant ratio": {
                        "ratio": float(manifest["baselines"]["constant ratio"]["ratio"])
                    },
                    "affine": {
                        key: float(manifest["baselines"]["affine"][key])
                        for key in ("intercept", "ratio")
                    },
                },
                Beyond.from_dict(manifest["beyond"]) if manifest.get("beyond") else None,
                FallbackLaw.from_dict(manifest["law"]) if manifest.get("law") else None,
                KnownGroups.from_dict(manifest["groups"]) if manifest.get("groups") else None,
                Correction.from_dict(manifest["correction"])
                if manifest.get("correction")
                else None,
                prior,
                groups_model,
                _trained_campaigns(manifest),
                StatedErrors.from_dict(manifest.get(errors_now) or {}),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            what = f"{type(error).__name__}: {error}"
            raise ArtifactError(f"{source} is damaged ({what}): train again") from error
        artifact.check_columns(saved.feature_names, model.recipe.columns)
        if prior is None and manifest.get("prior"):
            raise ArtifactError(f"{source} names a prior that is not beside it: train again")
        if (groups_model is not None) != bool(manifest.get("known")):
            raise ArtifactError(
                f"{source} and the model of known groups beside it do not belong together: train "
                "again"
            )
        difficult = []
        for one in model.spreads.values():
            if one.difficulty:
                for name in one.difficulty.names:
                    difficult.append(name)
        wider = ()
        if model.beyond is not None:
            wider = model.beyond.wider
        difficult = [name for name in difficult if not name.startswith(ON_DEVICE)]
        foreign = sorted({*model.domain.names, *difficult, *wider} - set(saved.feature_names))
        if foreign:
            what = f"its trained range or difficulty names {foreign[0]}, which is not a feature"
            raise ArtifactError(f"{source} is damaged ({what}): train again")
        if not np.isfinite(
            [figure for law in model.baselines.values() for figure in law.values()]
        ).all():
            raise ArtifactError(f"{source} is damaged (a baseline is not finite): train again")
        model._check_answers(source)
        return model

    def answers(self, rows: pd.DataFrame) -> dict[str, Any]:
        """Return up to five rows of the training data and all that is predicted for them, fit for JSON.

        Kept in the manifest under ``answers``, they hold whoever loads it to the recipe, intervals
        and baselines too. ``rows`` are as `features.matrix.Dataset` has them: what the host
        measured stands in columns ``host_*``.
        """
        some = rows.iloc[
            np.unique(np.linspace(0, len(rows) - 1, min(ANSWERS, len(rows))).astype(int))
        ]
        some = self.as_asked(some)
        asked = {}
        for name in some:
            if name != "source":
                asked[(str(name))] = [_plain(value) for value in some[name]]
        return {"level": LEVEL, "rows": asked, "answers": self._answers(asked, LEVEL)}

    def as_asked(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows of a data set as the host measured them: what stands in ``host_*`` in place of the target's."""
        if self.recipe.host is None or HOST_DEVICE in rows:
            return rows
        theirs = [name for name in rows if str(name).startswith(HOST)]
        measured = {str(name).removeprefix(HOST): rows[name] for name in theirs}
        return rows.drop(columns=theirs).assign(**measured, device=self.recipe.host.name)

    def of_target(self, gpu: GPU, word: str = "") -> tuple[TrainedModel, str]:
        """Return the model of many targets told of one, and how rows name that: one's own by its name, or ``word``."""
        in_catalogue = {one.name: one for one in all_gpus()}.get(gpu.name)
        if in_catalogue == gpu:
            word = gpu.name
        else:
            word = word or f"{gpu.name} (your own)"
        return (self if in_catalogue == gpu else replace(self, user_gpu=(word, gpu))), word

    def asked_of(self, rows: pd.DataFrame, target: str) -> pd.DataFrame:
        """Return rows as a run with many targets is asked about one: with a host, what it measured stands beside."""
        if self.recipe.host is None:
            return rows.assign(device=target)
        asked_rows = beside(rows, rows, self.recipe.metric)
        return asked_rows.assign(device=target, **{HOST_DEVICE: rows["device"]})

    def for_new_groups(self) -> Self:
        """Return the model without the one for known groups, which answers all rows then: a prior's target is new."""
        manifest = {name: value for name, value in self.saved.manifest.items() if name != "known"}
        model = replace(self, saved=replace(self.saved, manifest=manifest), of_trained_groups=None)
        kept = manifest.get("answers")
        if kept is not None:
            manifest["answers"] = {
                **kept,
                "answers": model._answers(kept["rows"], float(kept["level"])),
            }
        return model

    def corrected(self, correction: Correction, errors: StatedErrors = NOTHING_STATED) -> Self:
        """Return the model with another correction, stated in its manifest, whose answers are those it now gives.

        ``errors`` are what it errs by since, rows of all questions together.
        """
        manifest = {
            **self.saved.manifest,
            "correction": vars(correction),
            "errors_since": errors.to_dict(),
        }
        groups_model = self.of_trained_groups and self.of_trained_groups.corrected(correction)
        model = replace(
            self,
            saved=replace(self.saved, manifest=manifest),
            correction=correction,
            of_trained_groups=groups_model,
            errors=errors,
        )
        kept = manifest.get("answers")
        if kept:
            manifest["answers"] = {
                **kept,
                "answers": model._answers(kept["rows"], float(kept["level"])),
            }
        return model

    def _answers(self, asked: Mapping[str, list[Any]], level: float) -> dict[str, list[Any]]:
        predicted = self.predict(fill_text(pd.DataFrame(asked)), level).select_dtypes("number")
        result = {}
        for name in predicted:
            result[(str(name))] = [_plain(value) for value in predicted[name]]
        return result

    def _check_answers(self, source: Path | str) -> None:
        """Refuse a manifest under which rows are answered otherwise than when it was saved."""
        kept = self.saved.manifest.get("answers")
        if kept is None:  # they are being made
            return
        try:
            now = self._answers(kept["rows"], float(kept["level"]))
            for name, values in kept["answers"].items():
                np.testing.assert_allclose(
                    np.array(now[name], float), np.array(values, float), artifact.TOLERANCE
                )
        except Exception as error:  # another version can fail in any way
            raise ArtifactError(
                artifact.not_reproduced(self.saved, source, f"answers: {error}")
            ) from error

    def predict(self, rows: pd.DataFrame, level: float, fallback: bool = False) -> pd.DataFrame:
        """Return ``predicted``, ``lower``, ``upper``, ``basis``, ``extrapolated``, ``reasons`` and the baselines.

        As `answer` does, with a tuple of `Remark` per row in the column ``reasons``.
        """
        frame, reasons = self.answer(rows, level, fallback)
        frame.insert(list(frame).index("extrapolated") + 1, "reasons", reasons.of_rows())
        return frame

    def answer(
        self, rows: pd.DataFrame, level: float, fallback: bool = False
    ) -> tuple[pd.DataFrame, Reasons]:
        """Return ``predicted``, ``lower``, ``upper``, ``basis``, ``extrapolated`` and the baselines, and reasons.

        The intervals are meant to hold a share ``level`` of rows; the frame has the index of
        ``rows``, clean rows with, where there is a host, its measurements. ``basis`` says what is
        known of the row and so which intervals it has: ``known group``, ``new group``, ``new
        campaign`` (of a run of five campaigns or more a row of a new group that states none of
        them), in a run over all devices ``new device`` or ``new host``, outside the trained range ``beyond``, where
        the model alone answers, a ``blend`` with the rule that goes on, or the ``rule`` alone (see
        `extrapolation`); of runs that did not keep their groups ``model`` stands for the first
        ones. The reasons say how a row is unlike training. Where a row's features cannot be
        computed, or what it computes was never trained, there is no prediction, and they say why;
        with ``fallback`` the ``law`` answers there, with its wide interval.
        """
        if self.user_gpu is None:
            return self._answer(rows, level, fallback)
        frames = list[pd.DataFrame]()
        places = list[np.ndarray]()
        reasons = Reasons(len(rows))
        for model, at in self._on_user_gpu(rows, *self.user_gpu):
            frame, why = model._answer(model._named(rows.iloc[at]), level, fallback)
            frames.append(frame)
            places.append(at)
            reasons.extend(why, at)
        return pd.concat(frames).iloc[np.argsort(np.concatenate(places))], reasons

    def _on_user_gpu(
        self, rows: pd.DataFrame, word: str, gpu: GPU
    ) -> list[tuple[TrainedModel, np.ndarray]]:
        """Return the model of the GPU `user_gpu` and that of all others, where rows name them, with their places."""
        named = rows["device"].to_numpy(dtype=object) == word
        other = replace(self, user_gpu=None)
        parts = [(replace(other, recipe=replace(self.recipe, target=gpu)), np.flatnonzero(named))]
        parts.append((other, np.flatnonzero(~named)))
        return [(model, at) for model, at in parts if len(at)] or [(other, np.arange(0))]

    def _named(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows under the name of the one device that this model is asked about; of several as they are."""
        if self.recipe.comparison.is_many:
            return rows
        return rows.assign(device=self.recipe.target.name)

    def _answer(
        self, rows: pd.DataFrame, level: float, fallback: bool
    ) -> tuple[pd.DataFrame, Reasons]:
        rows = self.with_prior(rows)
        rows = rows.assign(**{name: as_categories(rows[name]) for name in _WORDS if name in rows})
        work = work_of(rows)
        X, unlike, reasons = self._features(rows, work)
        able = ~reasons.any()
        places = np.flatnonzero(able)
        reference = self._reference(rows, work)
        asked_rows = rows
        if not able.all():
            asked_rows = rows[able]
        trained_rows = self._trained_rows(asked_rows)
        devices = None
        if self.recipe.comparison.is_many:
            devices = rows["device"].to_numpy(dtype=str)[able]
        asked = _Asked(
            asked_rows,
            work.take(places),
            X if able.all() else X[able],
            reference[able],
            unlike.where(able),
            self._question(asked_rows, trained_rows),
            trained_rows,
            devices,
        )
        answers, outside = self._by_question(asked, level)
        reasons.extend(outside, places)
        frame = answers.set_axis(places).reindex(range(len(rows))).set_axis(rows.index)
        frame = frame.assign(
            basis=frame["basis"].fillna(""), extrapolated=frame["extrapolated"].eq(True)
        )
        baselines = self._baselines(rows, work, reference)
        if fallback and self.law is not None:
            value = self.law.predict(baselines)
            here = ~able & np.isfinite(value) & (value > 0)
            if HOST_DEVICE in rows:  # what was measured is not made up
                here &= rows[HOST_DEVICE].ne(rows["device"]).to_numpy()
            lower, upper = self.law.intervals.bounds(value[here], level)
            frame.loc[here, ["predicted", "lower", "upper"]] = np.column_stack(
                [value[here], lower, upper]
            )
            frame.loc[here, "basis"] = "law"
            frame.loc[here, "extrapolated"] = True
        return pd.concat([frame, baselines], axis=1), reasons

    def parts(self, rows: pd.DataFrame, basis: pd.Series) -> pd.DataFrame:
        """Return the ``basis`` of each row, as `answer` says, and the ``part`` of its question that it is of."""
        part = np.full(len(rows), "", dtype=object)
        is_trained = basis.to_numpy() == _KNOWN
        if self.groups is not None and is_trained.any():
            part[is_trained] = by_trained_rows(self.groups.trained_rows(rows[is_trained]))
        return pd.DataFrame({"basis": basis.to_numpy(), "part": part}, dtype=object)

    @property
    def stated_errors(self) -> StatedErrors:
        """The errors of rows of each question, since the correction where there was one."""
        errors = dict(self.errors.of_basis)
        if self.of_trained_groups is not None:
            errors |= self.of_trained_groups.errors.of_basis
        return StatedErrors(errors)

    def features(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the features of rows, NaN where they cannot be computed."""
        if self.user_gpu is None:
            return self._features(self.with_prior(rows), work_of(rows))[0]
        parts = self._on_user_gpu(rows, *self.user_gpu)
        features = pd.concat([model.features(model._named(rows.iloc[at])) for model, at in parts])
        return features.iloc[np.argsort(np.concatenate([at for _, at in parts]))].reset_index(
            drop=True
        )

    def with_prior(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with the prior's predictions for the target, if there is a prior."""
        if self.prior is None:
            return rows
        return self.prior.with_predictions(rows, self.recipe.target)

    def with_predictions(self, rows: pd.DataFrame, gpu: GPU) -> pd.DataFrame:
        """Return the rows with the predictions of this model, as a prior, for a GPU; NaN where it has none.

        A run over all devices answers for that GPU, known or not; a run of one device for its own.
        """
        recipe = self.recipe
        if recipe.comparison.is_many:
            recipe = replace(recipe, target=gpu)
        X = replace(self, recipe=recipe).features(rows)
        whole = X[[name for name in X if name in self.used]].notna().all(axis=1).to_numpy()
        predicted = np.full(len(rows), np.nan)
        if whole.any():
            some = self.completed(X[whole].reset_index(drop=True))
            predicted[whole] = self.saved.predict(some)
        predicted[~(predicted > 0)] = np.nan
        return rows.assign(**{PRIOR + self.recipe.metric: predicted})

    def _by_question(self, asked: _Asked, level: float) -> tuple[pd.DataFrame, Reasons]:
        """Return the answers of `_from_features`, each row by the model of its question."""
        is_trained = asked.trained == _KNOWN
        if self.of_trained_groups is None or not is_trained.any():
            return self._from_features(asked, level)
        frames = []
        places = []
        reasons = Reasons(len(is_trained))
        for model, at in (
            (self.of_trained_groups, np.flatnonzero(is_trained)),
            (self, np.flatnonzero(~is_trained)),
        ):
            if not len(at):
                continue
            part = asked.take(at)
            if model.recipe.columns != self.recipe.columns:  # one of them reads a simple rule
                part = replace(part, X=model._features(part.rows, part.work)[0])
            if model.groups != self.groups:
                part = replace(part, trained_rows=model._trained_rows(part.rows))
            answers, why = model._from_features(part, level)
            frames.append(answers)
            places.append(at)
            reasons.extend(why, at)
        answers = pd.concat(frames, ignore_index=True).iloc[np.argsort(np.concatenate(places))]
        return answers.reset_index(drop=True), reasons

    def _from_features(self, asked: _Asked, level: float) -> tuple[pd.DataFrame, Reasons]:
        """Return the predictions of rows with features, with limits and basis, and how each is unlike training."""
        X = asked.X
        reference = asked.reference
        unlike = asked.unlike
        trained = asked.trained
        devices = asked.devices
        trained_rows = asked.trained_rows
        without = X.isna()
        missing = {}
        for name in X:
            if without[name].any():
                missing[str(name)] = without[name].to_numpy(dtype=bool)
        check = self.domain.check(X, self.recipe.unknown(asked.rows) | missing)
        new = unlike.any()
        if missing:
            X = self.completed(X)
        if len(X):
            predicted = self.saved.predict(X)
        else:
            predicted = np.empty(0)
        reasons = Reasons(len(X))
        reasons.add(
            np.flatnonzero(~(predicted > 0)),
            remark("no-positive-prediction", "the prediction is not positive: no interval"),
        )
        for reasons_of in (unlike, check.reasons):
            reasons.extend(reasons_of, np.arange(len(X)))
        alone = predicted
        second = []
        (share, wide) = np.zeros((2, len(X)))
        (times, widen) = np.ones((2, len(X)))
        far = np.where(new, np.maximum(check.distance, 1.0), check.distance)
        if self.beyond is None:
            widen = np.where(new, np.maximum(check.widening, 1 + WIDENING), check.widening)
        else:
            share = self.beyond.share(check.common)
            predicted = blend(alone, self.beyond.rule.predict(X, reference), share)
            second = self.beyond.second(alone, X, reference, check.common)
            wide = self.beyond.share(far)
            times = by_operator(X, self.beyond.wider)
        lower, upper = np.full((2, len(X)), np.nan)
        for question in pd.unique(trained).tolist():
            rows = trained == question
            spread = self._spread(question)
            if spread is None:
                reasons.add(np.flatnonzero(rows), self._no_interval(question))
                continue
            scale = spread.scale(
                X[rows],
                alone[rows],
                None if devices is None else devices[rows],
                None if trained_rows is None else trained_rows[rows],
            )
            lower[rows], upper[rows] = limits(
                spread.intervals,
                predicted[rows],
                [values[rows] for values in second],
                level,
                widen=widen[rows],
                scale=scale,
                outside=None if self.beyond is None else self.beyond.intervals,
                share=wide[rows],
                wider=times[rows],
            )
        elsewhere = np.isin(trained, (SIBLING, STRANGER, FOREIGN))
        inside = np.where((new | check.extrapolated) & (trained != _MODEL), "beyond", trained)
        inside = np.select([elsewhere, trained == OTHER_HOST], ["new device", "new host"], inside)
        basis = np.select([share <= 0, share < 1], [inside, "blend"], "rule")
        columns = {"predicted": predicted, "lower": lower, "upper": upper, "basis": basis}
        answers = pd.DataFrame({**columns, "extrapolated": new | check.extrapolated})
        return answers if self.correction is None else self.correction.applied(
            answers, level
        ), reasons

    def _spread(self, basis: str) -> Spread | None:
        """Return the intervals of rows of one basis; None where nobody measured how those err."""
        if basis == _MODEL:
            return self.spreads[self.scheme]
        if basis == _KNOWN:
            return self.spreads.get("kfold", self.spreads[self.scheme])
        return self.spreads.get({_NEW: "grouped", _NEW_CAMPAIGN: NEW_CAMPAIGN}.get(basis, basis))

    def _no_interval(self, basis: str) -> Remark:
        """Why rows of new groups, or of new devices, have no interval."""
        if basis == OTHER_HOST:
            text = (
                "no interval: the GPU that measured this row was no host in training, and how far "
                "such rows err was "
            )
            return remark(
                "new-host-without-interval",
                f"{text}not measured: train with rows of it",
                near=basis,
            )
        if basis == FOREIGN:
            text = (
                "no interval: no device of this maker was trained, and how far another's err was "
                "not measured"
            )
            return remark(
                "new-device-without-interval", f"{text}: train on some of them too", near=basis
            )
        if basis in (SIBLING, STRANGER):
            if basis == SIBLING:
                family = "some of its family were"
            else:
                family = "none of its family was"
            text = (
                f"no interval: this device was not trained, {family}, and how far such devices err "
                "was not measured: "
            )
            if self.groups and self.groups.by != ("device",):
                what = "train with group=device"
            else:
                what = "train on more GPUs"
            return remark("new-device-without-interval", f"{text}{what}", near=basis)
        count = 0
        if self.groups:
            count = len(self.groups.rows_of)
        text = (
            f"no interval: trained on {counted(count, 'group')}, which cannot tell how far new "
            "groups differ"
        )
        return remark("new-group-without-interval", text, groups=count)

    def _features(self, rows: pd.DataFrame, work: Work) -> tuple[pd.DataFrame, Reasons, Reasons]:
        """Return the features, in which ways each row is unlike every training row, and why it has no features."""
        values = np.empty((0, len(rows)))  # of each column, as `FeatureRecipe.transform` has them
        unlike = Reasons(len(rows))
        unable = Reasons(len(rows))
        for kind in _kinds(rows, work):
            if len(kind) == len(rows):
                part = rows
                its = work
            else:
                part = rows.iloc[kind]
                its = work.take(kind)
            new = Reasons(len(kind))
            why = None
            reason = self._cannot_run(part)
            if reason is not None:
                unable.add(kind, reason)
                continue
            try:
                context = self.recipe.context(part, its)
                new = self.recipe.never_trained(context)
                unable.extend(new, kind)
                if new.any().all():
                    continue
                of_kind = self.recipe.transform(context, self.used).to_numpy().T
                if len(kind) == len(rows):
                    values = of_kind
                else:
                    if not len(values):
                        values = np.full((len(of_kind), len(rows)), np.nan)
                    values[:, kind] = of_kind
                unlike.extend(self.recipe.unseen(context), kind)
            except NotPublishedError as error:
                why = error.remark
            except DataError as error:
                why = remark("features-impossible", str(error), problem=str(error))
            if why is not None:
                unable.add(kind[~new.any()], why)
        if not len(values):
            values = np.full((len(self.recipe.columns), len(rows)), np.nan)
        used = np.isin(self.recipe.columns, list(self.used))
        unknown = ~np.isfinite(values) & used[:, np.newaxis]
        for row in np.flatnonzero(unknown.any(axis=0) & ~unable.any()).tolist():
            name = self.recipe.columns[int(np.argmax(unknown[:, row]))]
            unable.add(
                [row], remark("feature-unknown", f"{name} is unknown for this row", feature=name)
            )
        X = pd.DataFrame(values.T, columns=list(self.recipe.columns), copy=False)
        return X, unlike, unable

    def _cannot_run(self, rows: pd.DataFrame) -> Remark | None:
        """Return why rows of one device and one host cannot be answered; None where they can."""
        target = self.recipe.target
        name = str(rows["device"].iloc[0])
        if each_gpu(rows, target):
            if HOST_DEVICE in rows:
                host = str(rows[HOST_DEVICE].iloc[0])
            else:
                host = ""
            if host == name and self.recipe.comparison.is_many:
                itself = f"this row was measured on {name} itself: there is nothing to predict"
                return remark("measured-on-target", itself, device=name)
            if not host or each_pair(rows, self.recipe.host or Comparison.MANY, target):
                return None
            text = f"no GPU {host!r} is known: what measured a row must be one of the catalogue"
            return remark("unknown-device", text, device=host)
        if name:
            problem = f"no GPU {name!r} is known"
        else:
            problem = "the row names no device"
        what = (
            "one that is none of the catalogue's is stated, by its file, as the default of device"
        )
        if name.casefold().endswith(".toml"):
            what = "data open no file: state it as the default of device"
        elif close := _closest(name):
            what = f"say which of {', '.join(map(repr, close))}, or {what}"
        return remark("unknown-device", f"{problem}: {what}", device=name)

    def _reference(self, rows: pd.DataFrame, work: Work) -> np.ndarray:
        """Return the figure that the fitted baselines scale: the host's time, or a size on the target."""
        measure = self.saved.manifest["baselines"].get("reference", "roofline")
        target = self.recipe.target
        if self.recipe.host is not None:
            if measure == "host":
                return self._measured(rows)
            return self._laws(rows, work)[0][measure].to_numpy()
        parts = sum_of_parts(self.recipe.metric, rows, target)
        if parts is not None:
            return parts
        return on_each(work, rows, target, published(partial(size, measure)))

    def _baselines(self, rows: pd.DataFrame, work: Work, reference: np.ndarray) -> pd.DataFrame:
        """Return the predictions of the laws, and of a constant ratio and a line fitted to the training rows."""
        line = self.baselines["affine"]
        return self._laws(rows, work)[0].assign(
            **{
                "constant ratio": self.baselines["constant ratio"]["ratio"] * reference,
                "affine": line["intercept"] + line["ratio"] * reference,
            }
        )

    def unpublished(self, rows: pd.DataFrame) -> dict[str, str]:
        """Return the laws that lack a figure for some of the rows, because it is not published, and which."""
        if self.user_gpu is None:
            if len(rows):
                return self._laws(rows, work_of(rows))[1]
            return {}
        lacking = dict[str, list[str]]()
        for model, at in self._on_user_gpu(rows, *self.user_gpu):
            for law, why in model.unpublished(model._named(rows.iloc[at])).items():
                lacking.setdefault(law, []).append(why)
        return {law: "; ".join(why) for law, why in lacking.items()}

    def _laws(self, rows: pd.DataFrame, work: Work) -> tuple[pd.DataFrame, dict[str, str]]:
        """Return the predictions of the analytic laws, and what they lack (see `laws`)."""
        host = self.recipe.host
        target = self.recipe.target
        metric = self.recipe.metric
        more = self.recipe.additions.laws
        if host is None:
            laws, lacking = laws_of_one(metric, work, target, rows, more)
        else:
            times = self._measured(rows)
            laws, lacking = scaling_laws(metric, work, times, host, target, rows, more)
        return laws.set_axis(rows.index), lacking

    def _measured(self, rows: pd.DataFrame) -> np.ndarray:
        """Return the metric as the host measured it."""
        name = self.recipe.metric
        return rows[f"{HOST}{name}" if HOST_DEVICE in rows else name].to_numpy(dtype=float)


@dataclass(frozen=True)
class _Asked:
    """Rows (n,) whose features are complete."""

    rows: pd.DataFrame
    work: Work
    X: pd.DataFrame
    reference: np.ndarray  # what the fitted baselines scale
    unlike: Reasons
    trained: np.ndarray  # of a trained group, of a new one, or how near the new device is
    trained_rows: np.ndarray | None  # of the group of each; None in runs that did not keep them
    devices: np.ndarray | None  # the device that each is asked of, in models of many

    def take(self, at: np.ndarray) -> _Asked:
        """Return some of the rows, by their places in order."""
        if len(at) == len(self.X):
            return self
        kept = np.zeros(len(self.X), dtype=bool)
        kept[at] = True
        return _Asked(
            self.rows.iloc[at],
            self.work.take(at),
            self.X.iloc[at],
            self.reference[at],
            self.unlike.where(kept),
            self.trained[at],
            None if self.trained_rows is None else self.trained_rows[at],
            None if self.devices is None else self.devices[at],
        )


def _of_campaigns(manifest: Mapping[str, Any]) -> dict[str, Spread]:
    """Return the intervals of new campaigns of a manifest, by their question."""
    if not manifest.get("campaigns"):
        return {}
    return {NEW_CAMPAIGN: Spread.from_dict(manifest["campaigns"]["spread"])}


def _trained_campaigns(manifest: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the campaigns that were trained, of a manifest with intervals of new ones."""
    if not manifest.get("campaigns"):
        return None
    return frozenset(str(name) for name in manifest["campaigns"]["trained"])


def _closest(name: str) -> tuple[str, ...]:
    """Return the GPUs of the catalogue that a name, which is of none or of several, comes closest to."""
    try:
        find(name)
    except UnknownGPUError as error:
        return error.matches
    return ()


def _kinds(rows: pd.DataFrame, work: Work) -> list[np.ndarray]:
    """Return the positions of the rows of each operator, precision and device: what is missing is missing for all."""
    devices = [rows[name] for name in ("device", HOST_DEVICE) if name in rows]
    kinds = codes_of([rows["op"], work.kinds()[0], *devices])
    return [np.flatnonzero(kinds == kind) for kind in range(kinds.max(initial=-1) + 1)]


def _plain(value: Any) -> Any:
    """Return a cell as JSON holds it, None where there is none."""
    if isinstance(value, float | np.floating):
        if np.isfinite(value):
            return float(value)
        return None
    if value is None or value is pd.NA:
        return None
    if isinstance(value, np.generic):
        return value.item()
    return value
