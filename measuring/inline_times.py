"""Times of a user's program as it runs: events around the modules of a model and around named regions.

`flopcast.inline` puts a pair of hooks on every module for as long as its block or the function it decorates
lasts, no profiler beside it; `InlineTimes` then has a row per module and shape in the columns of
the measurement table. On a GPU events are recorded in the current stream and read when the times
are asked for, so the program never waits for one; on a CPU it is the host's clock. What a timed
call costs the program is stated beside the times, and not taken off them: the time within the hooks,
measured at every call, and what PyTorch takes to call hooks that do nothing, measured beforehand.

Backward passes and compiled or captured graphs call no hooks of modules: put a region around them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError
from ..operators.call import Tensor
from ..operators.operators import OPS
from ..output import SCHEMA
from ..readers.labels import canonical_device
from ..table.measurements import DTYPE_COLUMNS
from ..traces.activity_work import call_text, describe_call
from .backend import import_torch

Mark = Any
# sizes, dtype and strides of the first argument
Signature = tuple[tuple[int, ...], Any, tuple[int, ...]]
Key = tuple[str, Signature | None]  # name, and what it was called with
_PLAIN: Final = {
    "ReLU": "aten::relu",
    "GELU": "aten::gelu",
    "SiLU": "aten::silu",
    "Sigmoid": "aten::sigmoid",
    "Tanh": "aten::tanh",
}
_CONVOLUTIONS: Final = {f"Conv{axes}d": f"aten::conv{axes}d" for axes in (1, 2, 3)}
_CALLS = 100
_OTHERS = 2**20
"""Calls that are timed with hooks and without to learn their cost, and the numbers that fill the caches in between."""


class _HostClock:
    """The host's clock, for a CPU."""

    def mark(self) -> Mark:
        return time.perf_counter_ns()

    def wait(self) -> None:
        pass

    def us(self, begin: Mark, end: Mark) -> float:
        return (end - begin) / 1e3


class _EventClock:
    """Events in the current stream of a GPU."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._cuda = torch.cuda
        self._device = device

    def mark(self) -> Mark:
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def wait(self) -> None:
        self._cuda.synchronize(self._device)

    def us(self, begin: Mark, end: Mark) -> float:
        return 1e3 * float(begin.elapsed_time(end))


class InlineTimes:
    """Times of the modules and regions that ran within a block (so many ``calls``), or while a function ran."""

    def __init__(
        self,
        clock: _HostClock | _EventClock,
        device: str,
        warmup: int = 0,
        calling_us: float = 0.0,
        now: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.device = device
        self.warmup = warmup
        self.calling_us = calling_us
        self.open = 0
        # ns within the hooks of each call
        self._now = now
        self._spent = list[int]()
        self._clock = clock
        self._modules = dict[str, Any]()
        self._keys = dict[Key, int]()
        # of each call, and nothing that Python's collector of garbage would have to look through
        self._key = list[int]()
        self._parent = list[int]()
        self._begin = list[Mark]()
        self._end = list[Mark]()
        self._open = threading.local()
        self._lock = threading.Lock()
        # calls, their table, share of the overhead
        self._timed_rows: tuple[int, pd.DataFrame, float] | None = None

    @property
    def overhead_us(self) -> float:
        """Least cost of a timed call to the host: the median time within its hooks, plus the cost of calling them."""
        return self.calling_us + (float(np.median(self._spent)) / 1e3 if self._spent else 0.0)

    @property
    def overhead_share(self) -> float:
        """That times the calls, over the time of all outermost calls; a GPU with work queued loses less."""
        return self._read()[1]

    @property
    def calls(self) -> int:
        """Timed calls that ended well."""
        return sum(end is not None for end in self._end)

    def region(self, name: str) -> AbstractContextManager[None]:
        """Time what the block does under a name; modules within it count as enclosed by it."""
        _check_name(name)
        return self._region(name)

    @contextmanager
    def _region(self, name: str) -> Generator[None]:
        self._enter((name, None))
        try:
            yield
        finally:
            self._leave(name)

    def watch(self, module: Any, name: str) -> list[Any]:
        """Attach hooks to a module; return the handles that detach them."""
        _check_name(name)
        if not hasattr(module, "register_forward_hook"):
            problem = f"must be a module of PyTorch, got {type(module).__name__}"
            raise ParameterError("module", problem)
        self._modules[name] = module

        def before(module: Any, inputs: Any) -> None:
            self._enter((name, _signature(inputs)))

        def after(module: Any, inputs: Any, output: Any) -> None:
            self._leave(name)

        return [
            module.register_forward_pre_hook(before),
            module.register_forward_hook(after, always_call=True),
        ]

    def _enter(self, key: Key) -> None:
        """Begin a call."""
        asked = self._now()
        stack = self._stack()
        with self._lock:
            place = len(self._key)
            self._key.append(self._keys.setdefault(key, len(self._keys)))
            self._parent.append(stack[-1][0] if stack else -1)
            self._begin.append(None)
            self._end.append(None)
            self._spent.append(0)
        stack.append((place, key[0], sys.exc_info()[1]))
        self._begin[place] = self._clock.mark()
        self._spent[place] = self._now() - asked

    def _leave(self, name: str) -> None:
        """End the innermost call of that name, and the calls inside that an exception left open."""
        asked = self._now()
        mark = self._clock.mark()
        stack = self._stack()
        if all(open_name != name for _, open_name, _ in stack):
            return
        place, last, raised = stack.pop()
        while last != name:
            place, last, raised = stack.pop()
        if sys.exc_info()[1] is raised:  # nothing new is being raised
            self._end[place] = mark
        self._spent[place] += self._now() - asked

    def _stack(self) -> list[tuple[int, str, BaseException | None]]:
        """Return the open calls of this thread: place, name, and the exception handled when they began."""
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        return self._open.stack

    @property
    def table(self) -> pd.DataFrame:
        """One row per module or region, and shape, in the order in which they first ran.

        ``op`` with its dimensions where the module is an operator (linear layers, convolutions,
        activations), else ``application`` with its name as ``variant``; ``kernel`` is the name;
        ``duration_us`` the median, modules inside included, ``self_us`` without them; ``spread_us``
        (MAD, NaN of one call) and ``repeats``; ``outer``, whether nothing timed enclosed it;
        ``clock_share``, the part of the time that timing it and what is inside takes. Raises
        DataError: the block has not ended, or nothing ran in it.
        """
        table, _ = self._read()
        if table.empty:
            raise DataError(
                "nothing was timed: the model was not called in the block, and there was no region"
            )
        return table

    @property
    def about(self) -> dict[str, Any]:
        """The JSON beside the table: the device, the calls, and the cost of timing them."""
        names = ("device", "calls", "warmup", "overhead_us", "overhead_share")
        return {"schema": SCHEMA, "what": "inline", **{name: getattr(self, name) for name in names}}

    def _read(self) -> tuple[pd.DataFrame, float]:
        """Return the table of all calls so far and the share of the overhead; marks are read once."""
        if self.open:
            raise DataError("the times are known when the block has ended")
        if self._timed_rows is None or self._timed_rows[0] != len(self._key):
            self._clock.wait()
            frame = self._frame()
            seen = frame.groupby("name", sort=False).cumcount()
            outer = float(frame.loc[frame["parent"] < 0, "us"].sum())
            share = 0.0
            if outer:
                share = self.overhead_us * len(frame) / outer
            parts = frame[seen >= self.warmup].groupby("key", sort=False)
            rows = [self._row(name, part) for name, part in parts]
            self._timed_rows = len(self._key), pd.DataFrame(rows), share
        return self._timed_rows[1:]

    def _frame(self) -> pd.DataFrame:
        """Return a row per call that ended well: its times, and how many calls it encloses."""
        marks = zip(self._begin, self._end, strict=True)
        us = np.full(len(self._end), np.nan)
        for place, (begin, end) in enumerate(marks):
            if end is not None:
                us[place] = self._clock.us(begin, end)
        self_us = us.copy()
        inside = np.zeros(len(us))
        for place in range(len(us) - 1, -1, -1):  # what is enclosed began later
            parent = self._parent[place]
            if parent >= 0:
                self_us[parent] -= np.nan_to_num(us[place])
                inside[parent] += 1 + inside[place]
        frame = pd.DataFrame({"us": us, "self_us": self_us, "inside": inside})
        keys = list(self._keys)
        frame["key"] = pd.Series([keys[number] for number in self._key], dtype=object)
        frame["name"] = [keys[number][0] for number in self._key]
        frame["parent"] = np.array(self._parent, dtype=np.int64)
        return frame[np.isfinite(us)]

    def _row(self, key: Any, calls: pd.DataFrame) -> dict[str, Any]:
        name, signature = key
        operator = _operator(self._modules.get(name), signature)
        what = {"op": "application", "variant": name}
        if operator:
            columns = ("op", *OPS[operator["op"]].dims, *DTYPE_COLUMNS)
            what = {one: operator[one] for one in columns if operator.get(one, "") != ""}
        middle = float(calls["us"].median())
        spread_us = clock_share = np.nan
        if len(calls) > 1:
            spread_us = float((calls["us"] - middle).abs().median())
        if middle:
            clock_share = self.overhead_us * (1 + float(calls["inside"].median())) / middle
        return {
            "device": self.device,
            **what,
            "kernel": name,
            "duration_us": middle,
            "self_us": float(calls["self_us"].median()),
            "spread_us": spread_us,
            "repeats": len(calls),
            "outer": bool((calls["parent"] < 0).all()),
            "clock_share": clock_share,
            "source": f"inline:{name}",
        }

    def __repr__(self) -> str:
        return (
            f"<InlineTimes on {self.device}: {self.calls} calls, {self.overhead_us:.2g} µs each "
            "for timing, "
            f"{100 * self.overhead_share:.2g} % of the time>"
        )


class Inline:
    """Times a model's modules within a ``with`` block, or whenever a function runs that it decorates."""

    kind: ClassVar[type[InlineTimes]] = InlineTimes

    def __init__(self, model: Any, device: str | None, name: str | None, warmup: int) -> None:
        if warmup < 0:
            raise ParameterError("warmup", f"must be 0 or more, got {warmup}")
        torch = import_torch()
        where = _device_of(torch, model, device)
        if not name and where.type == "cpu":
            name = f"CPU-{torch.get_num_threads()}T"
        elif not name:
            name = canonical_device(torch.cuda.get_device_name(where))[0]
        if where.type == "cpu":
            clock = _HostClock()
        else:
            clock = _EventClock(torch, where)
        self.times = self.kind(
            clock,
            name,
            warmup,
            _calling_us(torch),
        )
        self._model = model
        self._handles = list[Any]()

    def __enter__(self) -> InlineTimes:
        # within itself a second pair would count everything twice
        if not self.times.open and self._model is not None:
            for path, module in self._model.named_modules():
                self._handles += self.times.watch(module, path or type(self._model).__name__)
        self.times.open += 1
        return self.times

    def __exit__(self, *_: object) -> None:
        self.times.open -= 1
        while not self.times.open and self._handles:
            self._handles.pop().remove()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function timed: each call is a region of its name, and ``function.times`` has all of them."""

        @wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            with self as times, times.region(function.__name__):
                return function(*given, **named)

        timed.times = self.times  # type: ignore[attr-defined]  # pyrefly: ignore[missing-attribute]
        return timed


def _check_name(name: object) -> None:
    """Refuse a name that is no text: here, for what checks a call takes time within a region."""
    if not isinstance(name, str):
        raise ParameterError("name", f"must be text, got {name!r:.40}")


def _device_of(torch: Any, model: Any, word: str | None) -> Any:
    """Return the device whose clock is used."""
    if torch.cuda.is_available():
        usable = ("cpu", "cuda")
    else:
        usable = ("cpu",)
    held = None
    if model is not None and word is None:
        held = next(iter(model.parameters()), None)
    try:
        if held is None:
            device = torch.device(word or usable[-1])
        else:
            device = held.device
    except RuntimeError:
        raise ParameterError("device", f"must be cpu, or a GPU as cuda:0, got {word!r}") from None
    if device.type not in usable:
        raise ParameterError(
            "device", f"must be cpu, or a GPU of this machine as cuda:0, got {device}"
        )
    return device


def _signature(inputs: Any) -> Signature | None:
    first: Any = inputs[0] if inputs else None
    if hasattr(first, "stride"):
        return (tuple(first.shape), first.dtype, tuple(first.stride()))
    return None


def _operator(module: Any, signature: Signature | None) -> Mapping[str, Any]:
    """Return the operator of a module with its dimensions, by its call; none for modules without one."""
    kind = type(module).__name__
    if signature is None:
        return {}
    first = _as_tensor(*signature)
    if kind in _PLAIN:
        return describe_call(_PLAIN[kind], call_text([first]))
    if kind != "Linear" and kind not in _CONVOLUTIONS:
        return {}
    weights = [_held(module.weight), _held(module.bias)]
    if kind == "Linear":
        return describe_call("aten::linear", call_text([first, *weights]))
    if module.padding_mode != "zeros" or isinstance(module.padding, str):
        return {}
    window = [str(list(one)) for one in (module.stride, module.padding, module.dilation)]
    return describe_call(
        _CONVOLUTIONS[kind], call_text([first, *weights, *window, str(module.groups)])
    )


def _held(value: Any) -> Tensor | None:
    if value is None:
        return None
    return _as_tensor(value.shape, value.dtype, value.stride())


def _as_tensor(sizes: Any, dtype: Any, strides: Any) -> Tensor:
    return Tensor(tuple(sizes), str(dtype).removeprefix("torch."), tuple(strides))


def _calling_us(torch: Any) -> float:
    """Return the cost of calling a pair of hooks: the difference of an empty module with and without empty hooks.

    Each call finds the caches full of other data, as between the modules of a model: in a row they
    cost less.
    """
    module = torch.nn.Identity()
    nothing = torch.zeros(1)
    others = torch.zeros(_OTHERS)

    def call_us() -> float:
        others.add_(1)
        begin = time.perf_counter_ns()
        module(nothing)
        return (time.perf_counter_ns() - begin) / 1e3

    without = [call_us() for _ in range(_CALLS)]
    handles = [
        module.register_forward_pre_hook(lambda module, inputs: None),
        module.register_forward_hook(lambda module, inputs, output: None, always_call=True),
    ]
    within = [call_us() for _ in range(_CALLS)]
    for handle in handles:
        handle.remove()
    return max(float(np.median(within) - np.median(without)), 0.0)
