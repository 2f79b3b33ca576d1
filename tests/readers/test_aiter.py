"""AITER's tuned tables: every header, families, devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.operators.operators import op_of
from flopcast.readers import Measurements, read, read_rows
from flopcast.readers.aiter import AiterReader

GEMM = "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio"
FMOE = (
    "cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1,"
    "block_m,ksplit,us1,kernelName1,err1,us2,kernelName2,err2,us,run_1stage,tflops,bw,_tag"
)

STATES = (
    "gfx,cu_num,dtype,K,V,BT,H,Hg,is_varlen,use_h0,store_fs,snapshot_bf16,state_bf16,T_flat,N,"
    "total_chunks,max_seq_chunks,BV,us"
)
STATES_ROW = "gfx942,80,torch.bfloat16,16,8,64,4,2,True,True,False,True,False,256,2,4,2,32,9.5"
STEPS = (
    "arch,variant,dtype,state_dtype,b,sq,num_k_heads,num_v_heads,head_k_dim,head_v_dim,"
    "NUM_BLOCKS_PER_V_DIM,NUM_WARPS,WARP_THREADS_K,duration,waves_per_eu"
)
STEPS_ROW = "gfx950,decode,torch.bfloat16,torch.bfloat16,3,1,4,8,128,64,8,4,16,4.5"
MEGA = "gfx,cu_num,tp,comm_mode,token,model_dim,inter_dim,expert,topk,act,block_m,us,model"
MEGA_ROW = "gfx950,256,4,ag_rs,8,64,32,16,2,silu,16,97.5,any"
GROUPED = "gfx,case,tp,ep,G,K,N,M,use_hip,hip_us,triton_us,speedup"
GROUPED_ROW = "gfx950,gemm1_w13,1,2,64,128,256,16,0,12.5,6.25,0.5"
CONVOLUTION = (
    "gfx,cu_num,N,C,D,H,W,K,kT,kH,kW,stride_d,stride_h,stride_w,pad_d,pad_h,pad_w,"
    "dil_d,dil_h,dil_w,groups,bias,tile_m,splitK,us,kernelName,err_ratio,tflops,bw"
)
CONVOLUTION_ROW = "gfx950,256,1,3,6,9,11,96,3,3,3,1,2,1,0,1,0,1,1,2,1,True,96,1,12.5,knl,0.0,1,1"


def read_table(folder: Path, name: str, header: str, *rows: str, **defaults: str) -> Measurements:
    file = folder / name
    file.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return read([file], defaults=defaults)


def fmoe(
    cus: str = "80", q_type: str = "per_1x128", act: str = "Silu", weight: str = "0", tag: str = ""
) -> str:
    fp8 = "torch.float8_e4m3fnuz"
    return (
        f"{cus},8,64,32,16,2,ActivationType.{act},torch.bfloat16,{fp8},{fp8},QuantType.{q_type},1,{weight},"
        f"32,0,1.5,stage1,0.0%,2.5,stage2,0.3%,4.0,0,1,1,{tag}"
    )


@pytest.mark.parametrize(
    ("name", "header", "row", "expected"),
    [
        (
            "a8w8_blockscale_tuned_gemm_glm5.2.csv", GEMM, "gfx942,304,16,512,7168,ck,8,3,6.5,knl,1,1,0.0",
            {"op": "gemm", "family": "a8w8_blockscale", "device": "MI300X", "m": 16, "n": 512, "k": 7168, "batch": 1,
             "dtype_a": "fp8", "dtype_b": "fp8", "dtype_out": "bf16", "scale_block": "1x128", "kernel": "knl",
             "library": "ck", "split_k": 3, "duration_us": 6.5, "campaign": "a8w8_blockscale_tuned_gemm_glm5.2"},
        ),
        (
            "a8w8_blockscale_bpreshuffle_tuned_gemm.csv", GEMM, "gfx950,256,1,2,3,ck,8,0,6.5,knl,1,1,0",
            {"family": "a8w8_blockscale_bpreshuffle", "device": "MI355X", "dtype_a": "fp8", "scale_block": "1x128"},
        ),
        (
            "dsv3_a4w4_blockscale_tuned_gemm.csv", "gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            "gfx950,256,1,2,3,21,0,5.4,knl,1,1,0",
            {"family": "a4w4_blockscale", "dtype_a": "fp4", "dtype_out": "bf16", "scale_block": "1x32", "library": ""},
        ),
        (
            "a8w8_tuned_gemm.csv", "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            "gfx942,80,1,2,3,torch.int8,78,0,9.1,knl,1,1,0",
            {"family": "a8w8", "device": "MI308X", "dtype_a": "int8", "dtype_b": "int8", "scale_block": "token"},
        ),
        (
            "a8w8_bpreshuffle_tuned_gemm_qwen3_5_397b_a17b_mxfp4_attnfp8.csv",
            "gfx,cu_num,M,N,K,q_dtype_w,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            "gfx950,256,1,2,3,torch.float8_e4m3fn,asm,78,0,9.1,knl,1,1,0.3%",
            {"family": "a8w8_bpreshuffle", "dtype_a": "fp8", "scale_block": "token"},
        ),
        (
            "llama405B_bf16_tuned_gemm.csv",
            "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw",
            "gfx950,256,64,256,5120,True,torch.bfloat16,torch.float32,False,False,asm,5,13,7.9,knl,0.0,1,1",
            {"family": "bf16", "dtype_a": "bf16", "dtype_out": "fp32", "variant": "bias", "scale_block": ""},
        ),
        (
            "bf16_tuned_gemm.csv",
            "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw",
            "gfx950,256,64,256,5120,False,torch.float8_e4m3fn,torch.bfloat16,True,True,asm,5,13,7.9,knl,0.0,1,1",
            {"family": "bf16_bpreshuffle", "dtype_a": "fp8", "variant": "", "scale_block": "tensor"},
        ),
        (
            "a8w8_tuned_batched_gemm.csv", "gfx,cu_num,B,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            "gfx942,304,16,1,8192,1024,78,0,37.7,knl,1,1,0",
            {"op": "batched_gemm", "family": "a8w8", "batch": 16, "m": 1, "dtype_a": "int8"},
        ),
        (
            "dsv4_batched_gemm_a8w8_blockscale_mxscale_tuned.csv",
            "gfx,b,m,n,k,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            "gfx950,2,1,1024,4096,opus,311,1,7.8,knl,1,1,0",
            {"op": "batched_gemm", "family": "a8w8_blockscale_mxscale", "batch": 2, "m": 1, "device": "MI355X",
             "dtype_a": "fp8", "scale_block": "1x128"},
        ),
        (
            "tuned_fmoe.csv", FMOE, fmoe(),
            {"op": "moe", "family": "fmoe_per_1x128", "device": "MI308X", "tokens": 8, "model_dim": 64, "inter_dim": 32,
             "experts": 16, "topk": 2, "gated": 1, "dtype_a": "fp8", "dtype_out": "bf16", "scale_block": "1x128",
             "variant": "silu", "kernel": "stage1 + stage2", "duration_us": 4.0},
        ),
        (
            "x_tuned_fmoe.csv", "gfx," + FMOE, "gfx950,256," + fmoe(q_type="No").split(",", 1)[1],
            {"family": "fmoe", "device": "MI355X", "scale_block": ""},
        ),
        (
            "tuned_grouped_fmoe.csv",
            "gfx,cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,"
            "doweight_stage1,max_m,split_k1,kernelName1,kernelName2,us,tflops,bw",
            "gfx950,256,64,4096,2048,256,6,ActivationType.Swiglu,torch.bfloat16,torch.bfloat16,torch.float4_e2m1fn_x2,"
            "QuantType.per_1x32,0,1,384,1,one,,468.1,0,0",
            {"family": "grouped_fmoe_per_1x32", "dtype_a": "bf16", "dtype_b": "fp4", "gated": 0, "kernel": "one",
             "variant": "swiglu doweight_stage1", "scale_block": "1x32"},
        ),
    ],
)  # fmt: skip
def test_every_header(
    tmp_path: Path, name: str, header: str, row: str, expected: dict[str, object]
) -> None:
    measured = read_table(tmp_path, name, header, row)
    assert measured.rejected.empty
    found = measured.frame.iloc[0]
    assert {column: found[column] for column in expected} == expected
    assert bool(found["tuned"])
    assert found["source"] == f"{name}:2"


def test_columns_are_found_in_any_order_and_case(tmp_path: Path) -> None:
    row = read_table(
        tmp_path, "a8w8_tuned_gemm.csv", "US,KernelName,k,n,m,CU_NUM,GFX", "5,knl,3,2,1,304,gfx942"
    ).frame
    assert row[["m", "n", "k", "duration_us", "device"]].to_numpy().tolist() == [
        [1, 2, 3, 5, "MI300X"]
    ]


def test_failed_rows_are_refused_by_line(tmp_path: Path) -> None:
    rows = [
        f"gfx942,304,{m},512,64,ck,8,3,{us},knl,0,0,0"
        for m, us in ((1, "0.0"), (2, 7), (3, -1), (4, "inf"), (5, ""))
    ]
    measured = read_table(
        tmp_path, "a8w8_blockscale_tuned_gemm.csv", GEMM, *rows, "1,2,3,4,5,6,7,8,9,10,11,12,13,14"
    )
    assert measured.frame["m"].tolist() == [2.0]
    assert dict(
        zip(measured.rejected["source"].str[-1], measured.rejected["reason"], strict=True)
    ) == {
        "2": "zero-duration",
        "4": "negative-duration",
        "5": "infinite-duration",
        "6": "no-duration",
        "7": "line-unlike-header",
    }


@pytest.mark.parametrize(
    ("cus", "device"), [("80", "MI308X"), ("304", "MI300X"), ("256", "MI355X")]
)
def test_a_missing_gfx_id_is_guessed_with_a_note(tmp_path: Path, cus: str, device: str) -> None:
    measured = read_table(tmp_path, "tuned_fmoe.csv", FMOE, fmoe(cus))
    assert measured.frame["device"].tolist() == [device]
    (guessed,) = (note.values for note in measured.notes if note.code == "gfx-by-units")
    assert (guessed["cus"], guessed["rows"], guessed["files"]) == (int(cus), 1, ("tuned_fmoe.csv",))


def test_the_users_device_stands_before_a_guess(tmp_path: Path) -> None:
    measured = read_table(tmp_path, "tuned_fmoe.csv", FMOE, fmoe("256"), device="mi350x")
    assert measured.frame["device"].tolist() == ["MI350X"]
    assert measured.notes == ()


def test_an_unknown_count_of_units_without_gfx_id_has_no_device(tmp_path: Path) -> None:
    measured = read_table(tmp_path, "tuned_fmoe.csv", FMOE, fmoe("64"), fmoe("80"))
    assert measured.rejected["reason"].tolist() == ["no-device"]


def test_activation_weighting_and_tag_are_variants_not_repeats(tmp_path: Path) -> None:
    rows = [fmoe(), fmoe(act="Gelu"), fmoe(weight="1"), fmoe(tag="flydsl_fallback"), fmoe()]
    frame = read_table(tmp_path, "tuned_fmoe.csv", FMOE, *rows).frame
    assert frame["variant"].tolist() == [
        "silu",
        "gelu",
        "silu doweight_stage1",
        "silu flydsl_fallback",
    ]
    assert frame["repeats"].tolist() == [2.0, 1.0, 1.0, 1.0]


def test_two_campaigns_on_one_problem_are_repeats(tmp_path: Path) -> None:
    for name, us, kernel in (("a", 10, "slow"), ("b", 8, "fast")):
        row = f"gfx942,304,16,512,7168,ck,8,3,{us},{kernel},1,1,0.0"
        (tmp_path / f"{name}_a8w8_blockscale_tuned_gemm.csv").write_text(
            f"{GEMM}\n{row}\n", encoding="utf-8"
        )
    row = read([tmp_path]).frame.iloc[0]
    assert (row["duration_us"], row["spread_us"], row["repeats"], row["kernel"]) == (
        9.0,
        1.0,
        2.0,
        "fast",
    )
    assert row["campaign"] == "a_a8w8_blockscale_tuned_gemm + b_a8w8_blockscale_tuned_gemm"


def test_without_a_family_in_the_name_the_kernels_tell(tmp_path: Path) -> None:
    rows = [
        f"gfx942,304,{m},512,64,ck,8,3,6,{k},1,1,0"
        for m, k in ((1, "a8w8_blockscale_1x128x128_v1"), (2, "other"))
    ]
    measured = read_table(tmp_path, "mine.csv", GEMM, *rows)
    assert measured.frame["family"].tolist() == ["a8w8_blockscale"] * 2
    assert [
        note.values["family"] for note in measured.notes if note.code == "gemm-family-by-kernels"
    ] == ["a8w8_blockscale"]


def test_an_unknown_family_has_the_number_format_that_the_user_states(tmp_path: Path) -> None:
    row = "gfx942,304,1,512,64,ck,8,3,6,knl,1,1,0"
    measured = read_table(tmp_path, "mine.csv", GEMM, row, dtype_a="int8")
    assert measured.frame[["family", "dtype_a", "dtype_b"]].to_numpy().tolist() == [
        ["", "int8", "int8"]
    ]


def test_states_of_chunks_are_work(tmp_path: Path) -> None:
    rows = [
        STATES_ROW,
        "gfx942,80,torch.bfloat16,16,8,64,4,2,True,True,False,False,False,257,2,5,3,32,9.9",
    ]
    measured = read_table(tmp_path, "q_chunk_gdn_h_opt_tuned.csv", STATES, *rows)
    row = measured.frame.iloc[0]
    assert (row["op"], row["device"], row["duration_us"]) == ("chunk_state", "MI308X", 9.5)
    assert (row["variant"], row["dtype_a"], row["dtype_out"]) == (
        "is_varlen use_h0",
        "bf16",
        "bf16",
    )
    op = op_of("chunk_state")
    # 256 tokens, 4 heads: w h and k v of 16 x 8, a multiply and an add each
    assert op.flops(measured.frame).tolist() == [256 * 4 * 2 * (2 * 16 * 8)]
    # keys of 2 heads, corrections and values of 4, values written; 4 states of 4 heads; 2 bytes
    moved = 256 * (2 * 16 + 4 * 16 + 4 * 8 + 4 * 8) * 2 + 4 * 4 * 16 * 8 * 2
    assert op.bytes(measured.frame).tolist() == [moved]
    assert measured.rejected["reason"].tolist() == ["dimension-not-whole"]


def test_comments_before_the_header_count_as_lines(tmp_path: Path) -> None:
    header = "# about\n#\nmodel,arch,dtype,K,V,BT,H,Hg,snapshot_bf16,T_flat,N,BV,us"
    row = "any,gfx942,torch.bfloat16,16,8,64,4,2,False,256,2,32,9.5"
    frame = read_table(tmp_path, "chunk_gdn_h_mfma16_hip_tuned.csv", header, row).frame
    assert frame["source"].tolist() == ["chunk_gdn_h_mfma16_hip_tuned.csv:4"]
    assert frame[["dtype_out", "device"]].to_numpy().tolist() == [["fp32", "gfx942"]]
    stated = read_table(tmp_path, "chunk_gdn_tuned.csv", header, row, device="MI308X").frame
    assert stated["device"].tolist() == ["MI308X"]


def test_steps_of_a_delta_rule(tmp_path: Path) -> None:
    frame = read_table(tmp_path, "gdr_decode_tuned.csv", STEPS, STEPS_ROW).frame
    assert frame[["op", "variant"]].to_numpy().tolist() == [["linear_attention", "decode"]]
    assert frame[["duration_us", "batch", "seq", "heads", "key_heads"]].to_numpy().tolist() == [
        [4.5, 3, 1, 8, 4]
    ]
    # the state of 3 sequences and 8 heads read by the key, added to, read by the query
    assert op_of("linear_attention").flops(frame).tolist() == [3 * 8 * 3 * (2 * 128 * 64)]


def test_a_slice_of_the_experts_says_of_how_many(tmp_path: Path) -> None:
    frame = read_table(tmp_path, "mega_moe_tp_a4w4_tuned.csv", MEGA, MEGA_ROW).frame
    row_ = frame.iloc[0]
    assert (row_["op"], row_["family"], row_["variant"]) == ("moe", "mega_moe", "silu with ag_rs")
    assert (row_["inter_dim"], row_["tp"], row_["gated"]) == (128, 4, 1)
    assert (row_["dtype_a"], row_["dtype_b"], row_["scale_block"]) == ("fp4", "fp4", "1x32")
    # three matrices of 64 x 32 on this GPU, for 8 tokens that go to 2 experts each
    assert op_of("moe").flops(frame).tolist() == [8 * 2 * 3 * 2 * 64 * 32]


def test_a_table_without_times_is_work_to_predict(tmp_path: Path) -> None:
    header = (
        "gfx,cu_num,token,model_dim,inter_dim,expert,topk,shared_expert_id,act_type,dtype,q_dtype_a,"
        "q_dtype_w,q_type,use_g1u1,doweight_stage1,kernelName1,kernelName2"
    )
    fp4, fp8 = "torch.float4_e2m1fn_x2", "torch.float8_e4m3fn"
    row = (
        f"gfx950,256,1,64,32,17,3,16,ActivationType.Silu,torch.bfloat16,{fp8},{fp4},"
        "QuantType.per_1x32,1,0,one,two"
    )
    file = tmp_path / "tuned_fhmoe.csv"
    file.write_text(f"{header}\n{row}\n")
    asked, _ = read_rows([file], timed=False)
    assert asked[["op", "family", "tokens", "experts", "topk"]].to_numpy().tolist() == [
        ["moe", "fhmoe_per_1x32", 1, 17, 3]
    ]
    with pytest.raises(DataError, match="no-duration: 1"):
        read([file])


def test_a_line_with_times_of_two_libraries_is_two_rows(tmp_path: Path) -> None:
    frame = read_table(tmp_path, "grouped_gemm_mxfp8_tuned.csv", GROUPED, GROUPED_ROW).frame
    times = dict(zip(frame["library"], frame["duration_us"], strict=True))
    assert times == {"hip": 12.5, "triton": 6.25}
    assert frame["dtype_a"].tolist() == ["fp8", "fp8"]
    assert op_of("batched_gemm").flops(frame).tolist() == [64 * 2 * 16 * 256 * 128] * 2


def test_outputs_of_convolutions_follow_from_their_inputs(tmp_path: Path) -> None:
    frame = read_table(tmp_path, "conv3d_bf16_tuned.csv", CONVOLUTION, CONVOLUTION_ROW).frame
    assert frame[["out_d", "out_h", "out_w"]].to_numpy().tolist() == [[4, 5, 7]]
    assert frame[["op", "dtype_a", "variant"]].to_numpy().tolist() == [["conv", "bf16", "bias"]]
    assert op_of("conv").flops(frame).tolist() == [2 * 96 * 3 * 27 * 4 * 5 * 7]


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("a6w6_blockscale_tuned_gemm", ("fp6", "fp6", "1x32")),
        ("a6w4_asm_tuned_gemm_flux", ("fp6", "fp4", "1x32")),
        ("a16w8_mxfp8_asm_tuned_gemm", ("bf16", "fp8", "1x32")),
        ("a8w8_bpreshuffle_mxfp8_tuned_gemm", ("fp8", "fp8", "1x32")),
    ],
)
def test_formats_of_narrow_families(
    tmp_path: Path, name: str, formats: tuple[str, str, str]
) -> None:
    row = "gfx950,256,16,512,7168,ck,8,3,6.5,knl,1,1,0.0"
    frame = read_table(tmp_path, f"{name}.csv", GEMM, row).frame
    assert tuple(frame.loc[0, ["dtype_a", "dtype_b", "scale_block"]]) == formats


@pytest.mark.parametrize(
    "header", ["gfx,cu_num,M,N,K", "op,M,N,K,us", "gfx,us,kernelName", "M,N,K,us,kernelName", ""]
)
def test_other_headers_are_not_aiters(header: str) -> None:
    assert not AiterReader().sniff(Path("tuned_gemm.csv"), f"{header}\n1,2,3\n".encode())
