"""Which devices a model is for: one, a pair, or many with their hosts."""

import pytest

from flopcast.hardware import GPU, Comparison, find

MANY = Comparison.MANY
HOST = find("MI300X")
TARGET = find("MI355X")


@pytest.mark.parametrize(
    ("host", "target", "kinds", "devices"),
    [
        (None, TARGET, set(), (TARGET,)),
        (HOST, TARGET, {"is_pair"}, (HOST, TARGET)),
        (None, MANY, {"is_many"}, ()),
        (HOST, MANY, {"is_many", "is_from_hosts_to_many"}, (HOST,)),
        (MANY, MANY, {"is_many", "has_many_hosts", "is_from_hosts_to_many"}, ()),
    ],
)
def test_a_comparison_says_which_kind_it_is_and_names_the_devices_that_are_fixed(
    host: GPU | None, target: GPU, kinds: set[str], devices: tuple[GPU, ...]
) -> None:
    comparison = Comparison(host, target)
    names = ("is_pair", "is_many", "has_many_hosts", "is_from_hosts_to_many")
    assert {name for name in names if getattr(comparison, name)} == kinds
    assert comparison.devices == devices


def test_names_of_a_saved_run_say_the_same_as_its_gpus() -> None:
    for host, target in ((None, TARGET), (HOST, TARGET), (HOST, MANY), (MANY, MANY)):
        by_name = Comparison.of_names(host.name if host else None, target.name)
        by_gpu = Comparison(host, target)
        assert by_name.is_pair == by_gpu.is_pair
        assert by_name.is_many == by_gpu.is_many
        assert by_name.has_many_hosts == by_gpu.has_many_hosts


@pytest.mark.parametrize("given", ["all", " ALL ", "every GPU", MANY])
def test_words_for_every_device(given: object) -> None:
    assert Comparison.means_all(given)


@pytest.mark.parametrize("given", [None, "", "MI300X", HOST, ["all"]])
def test_other_values_are_not_every_device(given: object) -> None:
    assert not Comparison.means_all(given)
