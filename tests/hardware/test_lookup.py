from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from flopcast.errors import DataError, NotPublishedError, UnknownGPUError
from flopcast.hardware import all_gpus, find, find_gfx, read_gpu
from flopcast.hardware.lookup import _plain


@pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.name)
def test_every_name_and_alias_finds_its_gpu_in_any_case(gpu):
    for name in (gpu.name, *gpu.aliases):
        assert find(name) is gpu
        assert find(f" {name.upper()} ") is gpu
        assert find(name.lower().replace(" ", "-")) is gpu


def test_no_spelling_belongs_to_two_gpus():
    spellings = Counter(_plain(name) for gpu in all_gpus() for name in {gpu.name, *gpu.aliases})
    assert {name: count for name, count in spellings.items() if count > 1} == {}


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("AMD Instinct MI300X VF", "MI300X"),
        ("AMD Instinct MI300X", "MI300X"),
        ("amd instinct mi355x", "MI355X"),
        ("AMD Instinct MI210", "MI210"),
        ("AMD Instinct MI250X", "MI250X (per GCD)"),
        ("MI250X", "MI250X"),
        ("AMD Instinct MI250", "MI250 (per GCD)"),
        ("MI300A_A1", "MI300A"),
        ("MI355", "MI355X"),
        ("AMD Radeon Instinct MI60", "MI60"),
        ("H100", "H100 SXM5"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB SXM4"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA A100-PG509-200", "A100 40GB SXM4"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("B200", "B200 (HGX)"),
        ("GB200", "GB200 (per GPU)"),
    ],
)
def test_what_drivers_and_people_write(name, canonical):
    assert find(name).name == canonical


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        ("MI375X", {"MI355X"}),
        ("MI350 X", {"MI350X"}),
        ("A100", {"A100 40GB PCIe", "A100 40GB SXM4", "A100 80GB PCIe", "A100 80GB SXM4"}),
        ("H-100 SXM", {"H100 SXM5"}),
        ("MI300", {"MI300A", "MI300X"}),
        ("gfx942", {"MI300A", "MI300X", "MI308X", "MI325X"}),
        ("gfx950:sramecc+:xnack-", {"MI350X", "MI355X"}),
    ],
)
def test_an_unknown_or_ambiguous_name_names_the_closest(name, matches):
    with pytest.raises(UnknownGPUError) as caught:
        find(name)
    assert matches <= set(caught.value.matches)
    assert all(match in str(caught.value) for match in matches)
    assert "\n" not in str(caught.value)


def test_a_name_of_several_gpus_is_answered_with_the_names_to_type():
    names = ("A100 40GB PCIe", "A100 40GB SXM4", "A100 80GB PCIe", "A100 80GB SXM4")
    for given in ("A100", "NVIDIA a100"):
        with pytest.raises(UnknownGPUError, match="is several GPUs: say which of") as caught:
            find(given)
        assert caught.value.matches == names
        assert ", ".join(map(repr, names)) in str(caught.value)
    assert (
        len(
            {
                (find(name).memory_gb, find(name).memory_bw_gbs, find(name).form_factor)
                for name in names
            }
        )
        == 4
    )


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("AMD_Instinct_MI355X_OAM", "MI355X"),
        ("AMD_Instinct_MI355_OAM", "MI355X"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5"),
        ("NVIDIA_H100_80GB_HBM3", "H100 SXM5"),
        ("gfx1250", "MI455X"),
        ("gfx908:sramecc+", "MI100"),
    ],
)
def test_what_drivers_report_is_understood(name, gpu):
    assert find(name).name == gpu


@pytest.mark.parametrize("name", ["AMD Radeon Graphics", "", "nvidia", "abacus"])
def test_a_name_that_says_nothing_suggests_nothing(name):
    with pytest.raises(UnknownGPUError, match="flopcast gpus") as caught:
        find(name)
    assert caught.value.matches == ()


@pytest.mark.parametrize(
    ("gfx", "cus", "name"),
    [
        ("gfx906", 60, "MI50"),
        ("gfx906", 64, "MI60"),
        ("gfx908", 120, "MI100"),
        ("gfx90a", 104, "MI210"),
        ("gfx90a", 110, "MI250X (per GCD)"),
        ("gfx942", 228, "MI300A"),
        ("gfx942", 304, "MI300X"),
        ("gfx942", 80, "MI308X"),
        ("gfx950", 256, "MI355X"),
        ("gfx1250", 256, "MI455X"),
        ("GFX942:sramecc+:xnack-", 304, "MI300X"),
        ("gfx908", None, "MI100"),
        ("gfx950", None, "MI355X"),
        ("gfx1250", None, "MI455X"),
        ("8.9", 142, "L40S"),
    ],
)
def test_gfx_id_and_cu_count(gfx, cus, name):
    assert find_gfx(gfx, cus).name == name


@pytest.mark.parametrize(
    ("gfx", "cus", "matches"),
    [
        ("gfx942", None, {"MI300A", "MI300X", "MI308X"}),
        ("gfx942", 38, {"MI300A", "MI300X", "MI308X", "MI325X"}),
        ("gfx90a", None, {"MI210"}),
        ("gfx1250", 96, {"MI455X"}),
        ("9.0", 132, {"H100 SXM5", "H200 SXM"}),
        ("gfx951", 256, {"MI355X"}),
    ],
)
def test_a_gfx_id_that_fits_none_or_several_names_them(gfx, cus, matches):
    with pytest.raises(UnknownGPUError, match=gfx) as caught:
        find_gfx(gfx, cus)
    assert matches <= set(caught.value.matches)


def test_a_gpu_that_shares_its_id_says_with_whom():
    shared = {gpu.name: gpu.same_id_as for gpu in all_gpus() if gpu.same_id_as}
    assert shared == {"MI250 (per GCD)": "MI210", "MI325X": "MI300X", "MI350X": "MI355X"}
    for name, other in shared.items():
        assert (find(name).gfx, find(name).cus) == (find(other).gfx, find(other).cus)


def test_a_gpu_based_on_another_inherits_what_is_not_given(write_toml):
    path = write_toml(
        'name = "MI375X"\nbased_on = "AMD Instinct MI355X"\n'
        "memory_bw_gbs = 10_000\npeak_tflops.fp8_matrix = 6000\npeak_tops.int8_matrix = 6001\n"
    )
    gpu, base = find(str(path)), find("MI355X")
    assert gpu.name == "MI375X"
    assert (gpu.memory_bw_gbs, gpu.peak_tflops("fp8"), gpu.peak_tflops("int8")) == (
        10_000.0,
        6000.0,
        6001.0,
    )
    assert (gpu.cus, gpu.peak_tflops("bf16"), gpu.l2_mb) == (
        base.cus,
        base.peak_tflops("bf16"),
        base.l2_mb,
    )
    assert (gpu.confidence, gpu.note, gpu.aliases, gpu.same_id_as) == ("", "", (), "")
    assert gpu.sources == ("mine.toml", "MI355X: what the file does not give")
    assert base.memory_bw_gbs == 8000
    assert base.peak_tflops("fp8") == 5033.2


@pytest.mark.parametrize(
    ("given", "other"), [("link_bw_gbs", "p2p_uni_gbs"), ("p2p_uni_gbs", "link_bw_gbs")]
)
def test_the_bandwidths_of_the_same_links_change_together(write_toml, given, other):
    base = find("MI300X")
    gpu = find(write_toml(f'based_on = "MI300X"\n{given} = {2 * getattr(base, given)}\n'))
    assert getattr(gpu, other) == 2 * getattr(base, other)
    assert gpu.note == f"{other} in proportion to what the file gives of the links"
    both = find(
        write_toml('based_on = "MI300X"\nlink_bw_gbs = 900\np2p_uni_gbs = 64\nnote = "mine"\n')
    )
    assert (both.link_bw_gbs, both.p2p_uni_gbs, both.note) == (900, 64, "mine")
    alone = find(write_toml("link_bw_gbs = 900\n"))
    assert alone.p2p_uni_gbs is None


def test_a_missing_figure_of_a_known_gpu_can_be_supplied_under_its_name(write_toml):
    gpu = find(write_toml('name = "MI308X"\nbased_on = "MI308X"\npeak_tflops.fp8_matrix = 400\n'))
    assert (gpu.name, gpu.peak_tflops("fp8"), gpu.memory_bw_gbs) == ("MI308X", 400.0, 5300.0)


def test_a_gpu_described_alone_has_only_what_is_given(write_toml):
    gpu = read_gpu(write_toml("memory_bw_gbs = 100\n", "new-chip.TOML"))
    assert (gpu.name, gpu.memory_bw_gbs, gpu.sources) == ("new-chip", 100.0, ("new-chip.TOML",))
    with pytest.raises(NotPublishedError, match=r"cus \(compute units\) of new-chip"):
        gpu.require("cus")
    assert find(write_toml("memory_bw_gbs = 100\n", "new-chip.TOML")) == gpu


def test_a_cpu_is_a_device_like_any_other(write_toml):
    cpu = find(
        write_toml(
            'name = "Xeon, 2 threads"\nvendor = "Intel"\ngfx = ""\ncus = 2\nboost_mhz = 2100\n'
            "memory_bw_gbs = 20\npeak_tflops.fp32_vector = 0.27\npeak_tflops.bf16_matrix = 4.3\n"
        )
    )
    assert (cpu.cus, cpu.peak_tflops("fp32"), cpu.peak_tflops("bf16")) == (2, 0.27, 4.3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory_bw_gbs = 0", "memory_bw_gbs must be above 0"),
        ("memory_bw = 5", "unknown key memory_bw"),
        ("based_on = 3", r"based_on.*GPU.*3"),
        ("name = 'x'", r"`based_on`.*GPU"),
        ("[gpu.MI300X]\ncus = 3", "unknown key gpu"),
        ("cus = x\n", "TOML"),
        ("cus = 1\ncus = 2", "is not valid TOML"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_that_names_it(write_toml, text, message):
    path = write_toml(text)
    with pytest.raises(DataError, match=message) as caught:
        find(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_file_based_on_nothing_known_names_itself_and_the_closest(write_toml):
    with pytest.raises(DataError, match=r"mine\.toml.*based_on.*GPU.*'MI355XX'.*MI355X"):
        find(write_toml('based_on = "MI355XX"'))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"none\.toml"):
        find(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"binary\.toml: is not valid TOML"):
        find(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    "name", ["MI355X", "mi355x", "AMD Instinct MI355X", "ＭＩ355X", "МІ355Х", "ΜΙ355Χ"]
)
def test_ones_own_gpu_under_the_name_of_a_known_one_says_that_it_is_ones_own(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f'name = "{name}"\nbased_on = "MI355X"\nmemory_bw_gbs = 1\n')
    assert find(file).name == f"{name} (your own)"
    assert find(file).measured_name == "MI355X"
    assert find(find(file)) == find(file)
    assert find(replace(find("MI355X"), memory_bw_gbs=1.0)).name == "MI355X (your own)"
    assert find(find("MI355X")) is find("MI355X")


@pytest.mark.parametrize("name", ["gfx942", "gfx950:sramecc+", "A100", "NVIDIA H100"])
def test_ones_own_gpu_under_a_name_that_several_known_ones_answer_to_is_ones_own(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f'name = "{name}"\nbased_on = "MI355X"\nmemory_bw_gbs = 1\n')
    assert find(file).name == f"{name} (your own)"


def test_a_name_longer_than_a_line_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f'name = "{"M" * 101}"\nbased_on = "MI355X"\n')
    with pytest.raises(DataError, match="name has 101 letters, more than 100"):
        find(file)


@pytest.mark.parametrize("sign", ["\\u200b", "\\u202e", "\\u00a0", "\\u001b[2J", "\\n"])
def test_a_name_with_signs_that_cannot_be_seen_is_refused(sign: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f'name = "MI355X{sign}"\nbased_on = "MI355X"\nmemory_bw_gbs = 1\n')
    with pytest.raises(DataError, match="that can be seen"):
        find(file)
