"""What launches state, as features, and the occupancy that it leaves."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from flopcast.benchmarks.launch_features import OWN, UNITS, launched, occupancy
from flopcast.tests.readers.kineto.made_up import write_trace


@pytest.mark.parametrize(
    ("device", "wavefront", "launch", "share"),
    [
        # 8 waves a SIMD
        ("MI350X", 64, {"threads": 256, "vgpr": 64, "accum_vgpr": 0, "lds_bytes": 0}, 1.0),
        # 2 of 8
        ("MI350X", 64, {"threads": 256, "vgpr": 128, "accum_vgpr": 128, "lds_bytes": 0}, 0.25),
        # 2 groups of 4 waves
        ("MI350X", 64, {"threads": 256, "vgpr": 32, "accum_vgpr": 0, "lds_bytes": 65536}, 0.25),
        # 2 of 16
        ("H100 SXM5", 32, {"threads": 128, "vgpr": 255, "accum_vgpr": None, "lds_bytes": 0}, 0.125),
        # 32 groups of one
        ("H100 SXM5", 32, {"threads": 32, "vgpr": 16, "accum_vgpr": None, "lds_bytes": 0}, 0.5),
    ],
)
def test_occupancy_is_what_registers_and_local_memory_leave(
    device: str, wavefront: int, launch: dict[str, float], share: float
) -> None:
    assert occupancy(pd.DataFrame([launch]).astype(float), UNITS[device], wavefront)[
        0
    ] == pytest.approx(share)


def test_what_launches_state_stands_beside_each_call(tmp_path: Path) -> None:
    found = launched([write_trace(tmp_path / "model__1.json")])
    assert set(found["group"]) == {"model"}
    assert {f"{OWN}vgpr", f"{OWN}lds_bytes"} <= {*found}
