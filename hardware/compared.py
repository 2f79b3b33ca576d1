"""Which devices a model learns from and predicts: one device, a pair of host and target, or many.

What enters are GPUs, or their names as a saved run has them; what leaves are answers to the question how many devices
there are. Only this module knows the stand-in for "the device that each row names".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Self

from .spec import GPU

_ALL: Final = "all"  # what users write for every device
_MANY: Final = GPU(
    name="every GPU", note="stands for all devices of a table whose rows name their own"
)


@dataclass(frozen=True)
class Comparison:
    """The host, whose measurements a prediction starts from, and the target, which is predicted.

    Attributes
    ----------
    host : GPU or None
        None where a prediction starts from shapes alone; `Comparison.MANY` where each row names its host.
    target : GPU
        The device to predict; `Comparison.MANY` where each row names its own.

    Examples
    --------
    >>> from flopcast.hardware import Comparison, find
    >>> Comparison(find("MI300X"), find("MI355X")).is_pair
    True
    >>> Comparison.of_target(Comparison.MANY).devices
    ()
    """

    host: GPU | None
    target: GPU

    MANY: ClassVar[GPU] = _MANY

    @classmethod
    def of_target(cls, target: GPU) -> Self:
        """Return the comparison of a device that is predicted from shapes alone."""
        return cls(None, target)

    @classmethod
    def of_names(cls, host: str | None, target: str | None) -> Self:
        """Return the comparison that a saved run names; a GPU of it has its name alone."""
        by_host = None
        if host is not None:
            by_host = GPU(name=host)
        return cls(by_host, GPU(name=target or ""))

    @staticmethod
    def means_all(given: object) -> bool:
        """Whether a value stands for every device: ``all``, in any case, `MANY`, or its name."""
        if isinstance(given, GPU):
            return given.name == _MANY.name
        return isinstance(given, str) and given.strip().casefold() in (_ALL, _MANY.name.casefold())

    @property
    def is_many(self) -> bool:
        """Whether each row names the device to predict."""
        return self.means_all(self.target)

    @property
    def has_many_hosts(self) -> bool:
        """Whether each row names the device that measured it."""
        return self.means_all(self.host)

    @property
    def is_pair(self) -> bool:
        """Whether one device is predicted from what one other measured."""
        return self.one_host is not None and not self.is_many

    @property
    def is_from_hosts_to_many(self) -> bool:
        """Whether rows are a host's and do not say which of many targets is asked for."""
        return self.host is not None and self.is_many

    @property
    def one_host(self) -> GPU | None:
        """The host, where all rows have the same; else None."""
        if self.has_many_hosts:
            return None
        return self.host

    @property
    def one_target(self) -> GPU | None:
        """The target, where all rows have the same; else None."""
        if self.is_many:
            return None
        return self.target

    @property
    def devices(self) -> tuple[GPU, ...]:
        """The devices that are one each: the host before the target."""
        both = (self.one_host, self.one_target)
        return tuple(gpu for gpu in both if gpu is not None)
