from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError, NotPublishedError
from flopcast.hardware import GPU, find
from flopcast.projection.collective_laws import (
    LAWS,
    Link,
    NodeBandwidths,
    Protocol,
    communication_factors,
    find_link,
    law_errors,
    link_bandwidth_gbs,
    measured_links,
)
from flopcast.remarks import remark
from flopcast.traces.summary import Annotated

MI300X, MI355X, H100, A100 = (
    find(name) for name in ("MI300X", "MI355X", "H100 SXM5", "A100 80GB SXM4")
)
Make = Callable[..., pd.DataFrame]


@pytest.fixture
def activities() -> Callable[..., pd.DataFrame]:
    """Return a function that makes communication rows of the dispatch table: message, ranks and time may be None."""

    def make(
        *rows: tuple[str, int | None, int | None, int], name: str = "ncclDevKernel_Generic_1"
    ) -> pd.DataFrame:
        table = pd.DataFrame(
            rows, columns=["collective", "collective_bytes", "group_size", "duration_ns"]
        )
        integers = dict.fromkeys(["collective_bytes", "group_size", "duration_ns"], "Int64")
        return table.assign(name=name).astype(integers).set_axis(range(10, 10 + len(rows)))

    return make


def _link(gpu: str, base_us: float, efficiency: float) -> Link:
    return Link(
        (gpu,), "all_reduce", "ring", (Protocol(0.0, base_us, 1.0, efficiency),), ranks=(2, 8)
    )


HOST_LINK, TARGET_LINK = _link("A100 80GB SXM4", 16.0, 0.5), _link("H100 SXM5", 4.0, 0.8)
BOTH = [HOST_LINK, TARGET_LINK]


def _only(result: pd.DataFrame) -> pd.Series:
    assert len(result) == 1
    return result.iloc[0]


def test_the_contract_of_a_law(activities: Make) -> None:
    table = activities(
        ("allreduce", 1 << 20, 8, 100), ("broadcast", None, 8, 100), ("", None, None, 100)
    )
    result = communication_factors(table, A100, H100)
    assert list(result) == ["factor", "law", "why", "bound", "sigma"]
    assert result.index.equals(table.index)
    assert result["factor"].gt(0).all()
    assert result["law"].tolist() == ["alpha-beta", "bandwidth", "bandwidth"]


@pytest.mark.parametrize("law", LAWS)
def test_no_collectives_no_rows(law: str, activities: Make) -> None:
    result = communication_factors(activities(), A100, H100, law)
    assert result.empty
    assert list(result) == ["factor", "law", "why", "bound", "sigma"]


def test_the_bandwidth_law_by_hand(activities: Make) -> None:
    table = activities(
        ("allreduce", 1 << 20, 8, 100), ("allreduce", None, 2, 100), ("send", 8, 2, 100)
    )
    result = communication_factors(table, MI300X, H100, "bandwidth")
    assert result["factor"].tolist() == pytest.approx([448 / 450, 64 / 450, 64 / 450])
    assert set(result["law"]) == {"bandwidth"}
    assert set(result["why"]) == {()}
    assert set(result["bound"]) == {"link"}
    assert set(result["sigma"]) == {law_errors().bandwidth}


def test_the_models_ratio_by_hand(activities: Make) -> None:
    """2 ranks, 3 MB: 16 + 2 + 3e6/(150e3) = 38 us on the host; on the target the bytes take 3e6/(360e3) = 8.33 us."""
    row = _only(
        communication_factors(
            activities(("allreduce", 3_000_000, 2, 38_000)), A100, H100, links=BOTH
        )
    )
    assert row["factor"] == pytest.approx((18 + 3e3 / 360) / 38)
    assert (row["law"], row["why"], row["bound"]) == ("alpha-beta", (), "latency")
    assert law_errors().alpha_beta < row["sigma"] < law_errors().latency


def test_latency_stays_and_bytes_change_as_bandwidths(activities: Make) -> None:
    table = activities(("allreduce", 0, 2, 18_000), ("allreduce", 10**14, 2, 9))
    result = communication_factors(table, A100, H100, links=BOTH)
    assert result["factor"].tolist() == pytest.approx([1.0, 300 * 0.5 / (450 * 0.8)])
    assert result["bound"].tolist() == ["latency", "link"]
    assert result["sigma"].tolist() == pytest.approx(
        [law_errors().latency, law_errors().alpha_beta]
    )


def test_waiting_for_peers_stays(activities: Make) -> None:
    """Of 1038 us the model explains 38, of which 20 are of bytes."""
    row = _only(
        communication_factors(
            activities(("allreduce", 3_000_000, 2, 1_038_000)), A100, H100, links=BOTH
        )
    )
    assert row["factor"] == pytest.approx((1018 + 3e3 / 360) / 1038)
    assert row["bound"] == "latency"
    assert row["sigma"] == pytest.approx(law_errors().waiting, rel=0.1)


@pytest.mark.parametrize("host", ["A100 80GB SXM4", "MI300X", "MI300A", "MI250X"])
@pytest.mark.parametrize("time_ns", [20_000, 2_000_000])
def test_links_do_not_change_a_message_of_424_bytes(
    host: str, time_ns: int, activities: Make
) -> None:
    """Whether the links of both GPUs were measured, of one, or of none."""
    for target in ("MI355X", "MI455X", "H100 SXM5"):
        row = _only(
            communication_factors(
                activities(("allreduce", 424, 4, time_ns)), find(host), find(target)
            )
        )
        assert row["law"] == "alpha-beta"
        assert row["factor"] == pytest.approx(1.0, abs=0.01)
        assert row["bound"] == "latency"


@pytest.mark.parametrize(
    ("host", "target"), [(MI300X, MI355X), (MI355X, MI300X), (A100, H100), (H100, A100)]
)
def test_no_time_changes_by_more_than_its_bytes(host: GPU, target: GPU, activities: Make) -> None:
    sizes = np.array([4**power for power in range(2, 17)])
    of_host, of_target = (
        find_link(measured_links(), gpu.name, "all_reduce").parts_us(
            "all_reduce", sizes, 8, link_bandwidth_gbs(gpu, "all_reduce", 8)
        )
        for gpu in (host, target)
    )
    by_bytes = of_target[1] - of_host[1]
    for time_us in (1.0, 30.0, 3e3):
        table = activities(*[("allreduce", int(size), 8, int(time_us * 1e3)) for size in sizes])
        changed = time_us * (communication_factors(table, host, target)["factor"].to_numpy() - 1.0)
        assert (np.abs(changed) <= np.abs(by_bytes) + 1e-6).all()


@pytest.mark.parametrize("size", [424, 1 << 20, 1 << 28])
def test_knowing_less_of_the_links_never_narrows(size: int, activities: Make) -> None:
    table = activities(("allreduce", size, 8, 50_000))
    both, one = (
        communication_factors(table, A100, H100, links=links) for links in (BOTH, BOTH[:1])
    )
    lent = replace(HOST_LINK, gpus=("MI300X",))
    neither, none = (
        communication_factors(table, A100, H100, links=links) for links in ([lent], [])
    )
    silent = communication_factors(table.assign(collective_bytes=pd.NA), A100, H100, links=BOTH)
    sigmas = [float(found["sigma"].iloc[0]) for found in (both, one, neither, none, silent)]
    assert sigmas[1] == pytest.approx(sigmas[2], abs=0.05)
    assert max(sigmas[:3]) <= sigmas[3] == sigmas[4]


@pytest.mark.parametrize(
    ("links", "used"), [([HOST_LINK], HOST_LINK), ([TARGET_LINK], TARGET_LINK)]
)
def test_the_measured_side_speaks_for_the_other(
    links: list[Link], used: Link, activities: Make
) -> None:
    table = activities(
        ("allreduce", 0, 2, 6_000), ("allreduce", 3_000_000, 2, 9), ("allreduce", 10**14, 2, 9)
    )
    result = communication_factors(table, A100, H100, links=links)
    sent = 3e6 / used.protocols[0].efficiency / 1e3
    latency = used.protocols[0].base_us + 2
    middle = (latency + sent / 450) / (latency + sent / 300)
    assert result["factor"].tolist() == pytest.approx([1.0, middle, 300 / 450])
    assert set(result["law"]) == {"alpha-beta"}
    unmeasured = ({"A100 80GB SXM4", "H100 SXM5"} - {used.gpus[0]}).pop()
    assert set(result["why"]) == {
        (remark("links-of-another", unmeasured=unmeasured, measured=used.gpus[0]),)
    }
    assert result["sigma"].iloc[0] == pytest.approx(law_errors().latency)
    assert result["sigma"].iloc[2] == pytest.approx(law_errors().one_sided)


@pytest.mark.parametrize("law", LAWS)
def test_where_nothing_changes_nothing_is_uncertain(law: str, activities: Make) -> None:
    table = activities(
        ("allreduce", 1 << 20, 8, 9), ("allreduce", 1 << 20, 16, 9), ("", None, None, 9)
    )
    found = communication_factors(table, A100, A100, law)
    assert found["sigma"].tolist() == [0.0] * 3
    same = communication_factors(table, A100, A100, law, network=NodeBandwidths(50.0, 50.0))
    assert same["sigma"].tolist() == [0.0] * 3
    faster = communication_factors(table, A100, A100, law, network=NodeBandwidths(50.0, 100.0))
    assert np.isnan(faster["sigma"].iloc[1]) == (law == "bandwidth")
    assert communication_factors(table, A100, H100, "kept")["sigma"].isna().all()


def test_unmeasured_links_fall_back_to_the_bandwidths(activities: Make) -> None:
    row = _only(
        communication_factors(activities(("allreduce", 1 << 20, 8, 9)), A100, H100, links=[])
    )
    assert row["factor"] == pytest.approx(300 / 450)
    why = remark("links-not-measured", gpus=("A100 80GB SXM4", "H100 SXM5"))
    assert (row["law"], row["why"]) == ("bandwidth", (why,))
    assert row["sigma"] == pytest.approx(np.hypot(law_errors().latency, np.log(1.5) / 1.645))


def test_the_stand_in_speaks_where_neither_was_measured(activities: Make) -> None:
    """A mesh of MI300X: its rings hold for a GPU of the same mesh, and not for one on a switch."""
    table = activities(("allreduce", 1 << 30, 5, 9), ("allreduce", 1 << 30, 8, 9))
    found = communication_factors(table, find("MI250X"), find("MI455X"))
    assert {why[0].code for why in found["why"]} == {"links-not-measured"}
    assert found["factor"].tolist() == pytest.approx([200 / 1800, 400 / 1800], rel=0.12)


@pytest.mark.parametrize(
    ("row", "missing"),
    [
        (("", 1 << 20, 8, 9), ("collective",)),
        (("allreduce", None, 8, 9), ("message",)),
        (("allreduce", 1 << 20, None, 9), ("group",)),
        (("", None, None, 9), ("collective", "group", "message")),
    ],
)
def test_what_the_trace_does_not_say_is_named(
    row: tuple, missing: tuple[str, ...], activities: Make
) -> None:
    found = _only(communication_factors(activities(row), A100, H100))
    why = (remark("message-unknown", missing=missing),)
    assert (found["law"], found["why"], found["factor"]) == (
        "bandwidth",
        why,
        pytest.approx(300 / 450),
    )


def test_the_kernels_name_helps_where_the_arguments_are_missing(activities: Make) -> None:
    table = activities(
        ("", 1 << 20, 8, 9), name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclWork*)"
    )
    assert _only(communication_factors(table, A100, H100))["law"] == "alpha-beta"


@pytest.mark.parametrize("law", ["alpha-beta", "bandwidth"])
@pytest.mark.parametrize(
    ("host", "target", "row", "why"),
    [
        ("MI300X", "L40S", ("allreduce", 64, 8, 9), ("figure-not-published", "L40S")),
        ("MI308X", "MI300X", ("allreduce", 64, 8, 9), ("figure-not-published", "MI308X")),
        ("MI300X", "MI455X", ("send", 64, 2, 9), ("figure-not-published", "MI455X")),
        ("MI300X", "H100 PCIe", ("allreduce", 64, 4, 9), ("no-link", None)),
        ("MI300X", "H100 SXM5", ("allreduce", 64, 1, 9), ("one-rank", None)),
        ("MI300X", "H100 SXM5", ("allreduce", 64, 16, 9), ("group-spans-nodes", None)),
    ],
)
def test_what_cannot_be_projected_is_kept_with_the_reason(
    host: str, target: str, row: tuple, why: tuple[str, str | None], law: str, activities: Make
) -> None:
    found = _only(communication_factors(activities(row), find(host), find(target), law))
    assert (found["factor"], found["law"], found["bound"]) == (1.0, "kept", "")
    assert [(reason.code, reason.values.get("gpu")) for reason in found["why"]] == [why]
    assert np.isnan(found["sigma"])


def test_kept_when_asked_for_needs_no_reason(activities: Make) -> None:
    result = communication_factors(
        activities(("allreduce", 64, 8, 9), ("", None, None, 9)), MI300X, H100, "kept"
    )
    assert result["factor"].tolist() == [1.0, 1.0]
    assert set(result["law"]) == {"kept"}
    assert set(result["why"]) == {()}


@pytest.mark.parametrize(
    ("law", "codes"), [("bandwidth", []), ("alpha-beta", ["group-spans-nodes"])]
)
def test_groups_of_several_nodes_take_the_network_that_is_stated(
    law: str, codes: list[str], activities: Make
) -> None:
    network = NodeBandwidths(host_gbs=25.0, target_gbs=100.0)
    table = activities(("allreduce", 1 << 20, 16, 9), ("allreduce", 1 << 20, 8, 9))
    result = communication_factors(table, A100, H100, law, network=network)
    assert result["factor"].iloc[0] == pytest.approx(0.25)
    assert result["law"].tolist() == ["bandwidth", law]
    assert [reason.code for reason in result["why"].iloc[0]] == codes
    assert result["why"].iloc[1] == ()


def test_between_nodes_too_only_what_the_bytes_take_changes(activities: Make) -> None:
    """At 25 GB/s 1 MiB of 16 ranks takes 78.6 us, of 1 ms that is a part; 64 bytes take nothing."""
    network = NodeBandwidths(host_gbs=25.0, target_gbs=100.0)
    table = activities(
        ("allreduce", 64, 16, 20_000),
        ("allreduce", 1 << 20, 16, 1_000_000),
        ("allreduce", None, 16, 9),
    )
    result = communication_factors(table, A100, H100, network=network)
    transfer = (1 << 20) * 2 * 15 / 16 / 25e3
    assert result["factor"].tolist() == pytest.approx(
        [1.0, 1 - 0.75 * transfer / 1000, 0.25], rel=1e-3
    )
    assert (
        result["sigma"].iloc[2]
        > result["sigma"].iloc[0]
        == pytest.approx(law_errors().latency, rel=1e-2)
    )


def test_the_ranks_of_a_node_are_the_users_to_state(activities: Make) -> None:
    table = activities(("allreduce", 1 << 20, 4, 9), ("allreduce", 1 << 20, 64, 9))
    narrow = communication_factors(
        table, A100, H100, network=NodeBandwidths(20.0, 40.0, ranks_per_node=2)
    )
    assert narrow["factor"].tolist() == [0.5, 0.5]
    wide = communication_factors(table, A100, H100, network=NodeBandwidths(ranks_per_node=72))
    assert set(wide["law"]) == {"alpha-beta"}


@pytest.mark.parametrize("law", LAWS)
def test_nothing_changes_on_the_same_gpu(law: str, activities: Make) -> None:
    table = activities(
        *(
            (name, size, n, 9)
            for name, size, n in product(
                ["allreduce", "send", ""], [None, 64, 1 << 24], [None, 2, 8]
            )
        )
    )
    for gpu in (MI300X, H100, find("L40S"), find("MI210")):  # NVLink, xGMI, PCIe
        result = communication_factors(table, gpu, gpu, law)
        assert result["factor"].eq(1.0).all(), gpu.name
        assert result["sigma"].fillna(0.0).eq(0.0).all(), gpu.name


def test_projecting_there_and_back_changes_nothing(activities: Make) -> None:
    table = activities(*[("allreduce", 4**i, n, 9) for i in range(4, 16) for n in (2, 4, 8)])
    for law in ("bandwidth", "kept"):
        there, back = (
            communication_factors(table, *pair, law)["factor"]
            for pair in ((MI300X, H100), (H100, MI300X))
        )
        np.testing.assert_allclose(there * back, 1.0)


def test_faster_links_never_take_longer(activities: Make) -> None:
    table = activities(*[("allreduce", 4**i, n, 9) for i in range(2, 16) for n in (2, 4, 8)])
    figures = {
        "link_bw_gbs": 2 * MI300X.require("link_bw_gbs"),
        "p2p_uni_gbs": 2 * MI300X.require("p2p_uni_gbs"),
    }
    factor = communication_factors(table, MI300X, replace(MI300X, name="twice", **figures))[
        "factor"
    ]
    assert factor.between(0.5, 1.0).all()
    assert factor.iloc[0] == pytest.approx(1.0, abs=1e-2)


def test_messages_unlike_those_measured_are_less_certain(activities: Make) -> None:
    """Other collectives, and MI300X at other than 8 ranks; A100 and H100 were measured at several."""
    table = activities(
        ("allreduce", 64, 8, 9), ("allreduce", 64, 4, 9), ("_allgather_base", 64, 8, 9)
    )
    long = table.assign(collective_bytes=1 << 34)
    errors = law_errors()
    mesh = communication_factors(long, MI300X, H100)["sigma"]
    assert mesh.tolist() == pytest.approx(
        [errors.alpha_beta, errors.one_sided, errors.one_sided], rel=1e-2
    )
    rows = activities(("allreduce", 1 << 34, 3, 9), ("send", 1 << 34, 8, 9))
    switched = communication_factors(rows, A100, H100)["sigma"]
    assert switched.tolist() == pytest.approx([errors.alpha_beta, errors.alpha_beta], rel=1e-2)


def test_a_mesh_measured_on_all_its_gpus_has_the_rings_of_its_successor(activities: Make) -> None:
    table = activities(("allreduce", 1 << 30, 6, 9), ("allreduce", 1 << 30, 8, 9))
    found = communication_factors(table, MI300X, H100)
    (why,) = found["why"].iloc[0]
    assert (why.code, why.values["gpu"], why.values["measured"]) == (
        "rings-of-another",
        "MI300X",
        "MI355X",
    )
    assert found["why"].iloc[1] == ()
    assert found["sigma"].iloc[0] > found["sigma"].iloc[1]
    assert found["factor"].iloc[0] < 0.2 < found["factor"].iloc[1]


def test_only_the_transfer_is_projected_where_waiting_is_kept(activities: Make) -> None:
    """The least of equal messages is the transfer, 40; the other waited 60 and takes 40 f + 60."""
    table = activities(
        ("allreduce", 1 << 30, 8, 100),
        ("allreduce", 1 << 30, 8, 40),
        ("allreduce", 1 << 31, 8, 500),
        ("", None, 8, 70),
    )
    whole, transfer = (
        communication_factors(table, A100, H100, keep_waiting=keep) for keep in (False, True)
    )
    f = whole["factor"].iloc[0]
    expected = [(40 * f + 60) / 100, f, whole["factor"].iloc[2], whole["factor"].iloc[3]]
    np.testing.assert_allclose(transfer["factor"], expected)
    assert transfer["law"].tolist() == whole["law"].tolist()


def test_a_message_without_a_time_is_no_transfer(activities: Make) -> None:
    table = activities(("allreduce", 1 << 20, 8, 0), ("allreduce", 1 << 20, 8, 40))
    plain, kept = (
        communication_factors(table, A100, H100, keep_waiting=keep) for keep in (False, True)
    )
    pd.testing.assert_frame_equal(plain, kept)


def test_a_barrier_has_no_message_that_links_change(activities: Make) -> None:
    free = Link(
        ("A100 80GB SXM4", "H100 SXM5"), "all_reduce", "ring", (Protocol(0.0, 0.0, 0.0, 0.5),)
    )
    row = _only(communication_factors(activities(("barrier", 0, 8, 9)), A100, H100, links=[free]))
    assert row["factor"] == pytest.approx(1.0, abs=1e-3)


def test_an_unknown_law_is_refused(activities: Make) -> None:
    with pytest.raises(DataError, match=r"comm_law.*'flops'"):
        communication_factors(activities(), A100, H100, "flops")


TRACES = {
    "mi300_resnet_act_checkpoint": ("MI300X", 12, 5),
    "hta_nccl_data": ("A100 40GB SXM4", 21, 0),
}
"""GPU, collectives with their arguments, and collectives without."""


@pytest.mark.parametrize("name", TRACES)
def test_collectives_of_real_traces(name: str, kineto: Callable[[str], Annotated]) -> None:
    """Every all-reduce takes longer than the model of its messages: they wait for peers, tens of times the transfer."""
    gpu, known, unknown = find(TRACES[name][0]), *TRACES[name][1:]
    rows = kineto(f"other/{name}").dispatches.query("kernel_class == 'communication'")
    result = communication_factors(rows, gpu, H100)
    reasons = [(), (remark("message-unknown", missing=("collective", "message")),)]
    assert [sum(why == reason for why in result["why"]) for reason in reasons] == [known, unknown]
    assert result["law"].eq("alpha-beta").tolist() == [not why for why in result["why"]]
    link = next(
        link
        for link in measured_links()
        if gpu.name in link.gpus and link.collective == "all_reduce"
    )
    reduced = rows[rows["collective"] == "allreduce"]
    size, ranks = reduced["collective_bytes"].astype(float), reduced["group_size"].astype(float)
    rate = link_bandwidth_gbs(gpu, "all_reduce", ranks.iloc[0])
    assert (reduced["duration_ns"] / 1e3 > 5 * link.time_us("all_reduce", size, ranks, rate)).all()


@pytest.mark.parametrize(
    ("gpu", "collective", "ranks", "gbs"),
    [
        ("MI300X", "all_reduce", 8, 448),
        ("MI300X", "all_reduce", 4, 192),
        ("MI300X", "all_reduce", 2, 64),
        ("MI300X", "", 8, 448),
        ("MI300X", "all_gather", float("nan"), 448),
        ("MI300X", "send_recv", 8, 64),
        ("MI300X", "send_recv", float("nan"), 64),
        ("MI300A", "all_reduce", 4, 384),
        ("H100 SXM5", "all_reduce", 2, 450),
        ("H100 SXM5", "all_reduce", 8, 450),
        ("H100 SXM5", "send_recv", 2, 450),
        ("A100 80GB PCIe", "all_reduce", 2, 300),
        ("MI455X", "all_reduce", 4, 1800),
    ],
)
def test_the_links_a_group_has(gpu: str, collective: str, ranks: float, gbs: float) -> None:
    assert link_bandwidth_gbs(find(gpu), collective, ranks) == gbs


def test_a_bridge_joins_two() -> None:
    with pytest.raises(DataError, match=r"A100.*80GB.*PCIe.*GPUs"):
        link_bandwidth_gbs(find("A100 80GB PCIe"), "all_reduce", 4)


@pytest.mark.parametrize(
    ("gpu", "collective", "figure"),
    [("L40S", "all_reduce", "link_bw_gbs"), ("MI455X", "send_recv", "p2p_uni_gbs")],
)
def test_what_is_not_published_is_not_guessed(gpu: str, collective: str, figure: str) -> None:
    with pytest.raises(NotPublishedError, match=figure):
        link_bandwidth_gbs(find(gpu), collective, 8)


def test_more_links_than_peers_do_not_add_up() -> None:
    """Two GPUs with several links between them share those of the pair only."""
    gpu = replace(find("MI300X"), p2p_uni_gbs=128.0)
    assert [link_bandwidth_gbs(gpu, "all_reduce", n) for n in (2, 4, 8)] == [128.0, 384.0, 448.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"host_gbs": 0.0}, r"network.*GB/s"),
        ({"target_gbs": float("inf")}, r"network.*GB/s"),
        ({"ranks_per_node": 0}, "ranks_per_node"),
    ],
)
def test_a_network_must_make_sense(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        NodeBandwidths(**wrong)
