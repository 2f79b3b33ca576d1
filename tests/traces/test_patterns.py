"""The pattern file: every rule on names spelt as the libraries spell them."""

from __future__ import annotations

import pytest

from flopcast.traces import classes
from flopcast.traces.classes import classify, op_classes, rules
from flopcast.traces.dispatches import dispatch_table

# One name at least per rule.
KERNELS = {
    "memcpy": ["__amd_rocclr_copyBuffer", "__amd_rocclr_copyBufferRectAligned.kd"],
    "memset": ["__amd_rocclr_fillBufferAligned", "__amd_rocclr_fillBufferAligned.kd"],
    "runtime": ["__amd_rocclr_streamOpsWait", "void cub::EmptyKernel<void>()"],
    "collective": [
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic_1(ncclDevKernelArgs)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "mscclKernel_Sum_half_LL_false",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "_ZN5aiter26cross_device_reduce_2stageI14__hip_bfloat16Li8EEEvPNS_8RankDataE", "EpDispatchIntraNodeKernel",
        "void vllm::cross_device_reduce_1stage<__half, 8>(vllm::RankData*)", "void deep_ep::intranode::dispatch<8>()",
        "void dpsk::ep::internode_ll::dispatch<true, 3>(void*)", "_ZN4dpsk2ep9intranode7combineI14__hip_bfloat16EEvPT_",
        "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>>(__half const*)",
    ],
    "attention": [
        "triton_tem_fused_flex_attention_0", "attn_fwd", "_attn_fwd.kd", "bwd_kernel_dk_dv", "sage_fwd",
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)",
        "kernel_unified_attention_2d", "_ZN7ck_tile6kentryILi2ENS_13FmhaFwdKernelINS_26FmhaFwdTilePartitioner",
        "_ZN5aiter22mla_a16w16_stage1_asmE", "_Z35paged_attention_ll4mi_reduce_kernelIDF16_Li128EEvPT_",
        "_ZN5aiter21pa_bf16_noquant_gqa8E", "void vllm::paged_attention_v2_kernel<__half, 128>(__half*)",
        "_fwd_grouped_kernel_stage1", "reduce_segments",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<1>(int)", "flash_attn_combine_results<256>(float const*)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128_4x1x1_kernel0_0",
    ],
    "conv": [
        "triton_tem_fused_convolution_2", "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32_wt32x32x8", "Im2d2Col_v2",
        "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightI", "batched_transpose_16x32_half",
        "_ZN2ck16tensor_operation6device39kernel_grouped_conv_fwd_xdl_cshuffle_v3I", "miopenSp3AsmConv_v21_1_3_gfx9",
        "void cudnn::ops::nchwToNhwcKernel<float, float>(float const*)", "SubTensorOpWithCastTensor1d",
        "MIOpenConvUni", "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x64",
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8>(int)",
    ],
    "gemm": [
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32", "Dijk_BS_MT64x4_VW1_Reduction",
        "triton_tem_fused_addmm_4", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
        "ampere_sgemm_128x64_nn", "nvjet_tst_128x256_64x4",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align1>(int)",
        "mul_mat_q<(ggml_type)12, 128>(int)", "void gemv2T_kernel_val<int, int, float, float>(int)",
        "void wvSpltK_hf_sml_<64, 4, 16, 8, 1, 4>(int)", "a8w8_blockscale_1x128x128_256x16x64x256",
        "_ZN5aiter36f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)", "gemm_fusion_dot_3",
        "Custom_Cijk_Alik_Bljk_BBS_BH_MT256x256x64", "bmm_E4m3_E4m3E4m3_Fp32_t128x8x512u2_s6_et64x8_m64x8x32",
        "batched_matrix_multiplication_kernel_64x64",
    ],
    "moe": [
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu", "fused_moe_kernel", "_topk_forward",
        "_sum_bitmatrix_rows", "void vllm::moe::topkGatingSoftmax<4, 64, 4, 16>(float const*)",
        "_combined_routing_memset", "_ZN5aiter28fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_32x384E",
        "_ZN7ck_tile6kentryILi1ENS_16MoeSortingKernelI",
        "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<8>>(int)",
        "void routingDeepSeek::routingIndicesClusterKernel<int>(int)",
    ],
    "norm": [
        "triton_red_fused_add_mean_mul_pow_rsqrt_0", "triton_per_fused_native_layer_norm_backward_1",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64E", "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdI",
        "void at::native::(anonymous namespace)::GammaBetaBackwardSimpleCUDAKernel<float, float, false>(long)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512>(int)", "MIOpenBatchNormBwdSpatial",
        "std::enable_if<(((8)>(0))), void>::type vllm::fused_add_rms_norm_kernel<c10::Half, 8>(int)",
        "void at::native::elementwise_kernel<128, 4, at::native::GroupNormKernelImplInternal<float>>(int)",
        "rms_norm_f32<256, true, false>(float const*)",
    ],
    "softmax": [
        "triton_per_fused__softmax_3", "triton_red_fused_amax_div_exp_sub_sum_1",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16>(int)",
        "void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, true, false>(float*)",
    ],
    "loss": [
        "triton_red_fused_nll_loss_forward_2",
        "void at::native::vectorized_elementwise_kernel<4, at::native::mse_kernel_cuda>",
        "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>(float*)",
    ],
    "scan": [
        "triton_spl_fused_cumsum_0", "void cub::DeviceScanInitKernel<cub::ScanTileState<int, true> >(int)",
        "_ZN7rocprim17ROCPRIM_400001_NS6detail20lookback_scan_kernelI", "fbgemm::exclusive_sum_kernel",
        "void rocprim::detail::single_scan_kernel<false, rocprim::detail::wrapped_scan_config<int>>(int)",
    ],
    "optimizer": [
        "triton_for_fused_0", "void at::native::lpnorm_cleanup<float>(float const*)",
        "void at::native::multi_tensor_apply_kernel<at::native::BinaryOpListAlphaFunctor<float, 2>>(int)",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>>(int)",
    ],
    "embedding": [
        "triton_poi_fused_add_embedding_1",
        "void at::native::(anonymous namespace)::compute_grad_weight<float, long>(int)",
        "void split_embedding_codegen_forward_unweighted_kernel<c10::Half>(int)",
    ],
    "reduction": [
        "triton_red_fused_abs_amax_transpose_view_32",
        "void at::native::reduce_kernel<512, 1, at::native::WelfordOps<float>>",
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIf", "input_reduce_fusion_2",
        "void cub::DeviceReduceByKeyKernel<cub::ReduceByKeyScanTileState<int>>(int)",
    ],
    "pooling": [
        "triton_poi_fused_max_pool2d_with_indices_3",
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)",
    ],
    "copy": [
        "triton_poi_fused__to_copy_cat_slice_1", "triton_poi_fused_constant_pad_nd_moe_forward_0",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<at::native::OpaqueType<2u>>(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(int)>",
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_cudaE",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::CopyFunctor<float>>(int)",
    ],
    "fill": [
        "triton_poi_fused_zeros_0", "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE",
        "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out>(int)",
    ],
    "elementwise": [
        "triton_poi_fused_addmm_gelu_view_26", "triton_poi_fused_convolution_relu_1",
        "k_bin_bcast<&(op_add(float, float))>(int)",
        "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>>(int)",
        "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16",
        "void at::native::masked_fill_kernel_elementwise_kernel()",
        "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::BFloat16>(int)", "loop_add_fusion",
    ],
    "fused": ["triton__0d1d2d", "fusion_17"],
    "kv_cache": [
        "void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16>(int)",
        "void store_kvcache<2048l, 4, false, long>(int)", "create_flashinfer_kv_indices_triton",
    ],
    "rope": [
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(int)",
        "rope_multi<true, false, float>(float const*)",
    ],
    "ssm": [
        "chunk_fwd_kernel_o", "chunk_fwd_kernel_h_blockdim64",
        "gated_delta_net_cuda<128, false, false>(float const*)", "_selective_scan_update_kernel",
        "_causal_conv1d_fwd_kernel",
    ],
    "quantise": [
        "void vllm::scaled_fp8_quant_kernel<c10::Half>(int)", "quantize_mmq_q8_1<(mmq_q8_1_ds_layout)1>(int)",
        "sage_quant_kernel", "void fbgemm_gpu::_get_FP8_qparam_cuda_kernel<float>(float const*)",
    ],
    "sampling": ["void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024>(float*)"],
    "rng": ["void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>(int)"],
    "resample": ["void at::native::(anonymous namespace)::upsample_nearest2d_out_frame<float>(int)"],
    "rnn": ["void at::native::(anonymous namespace)::kernel::lstm_cell_forward<float, float>(int)"],
    "index": [
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>(int)",
        "k_get_rows_float<float>(int)", "void fbgemm_gpu::permute_2D_data_kernel<false, int, int>(int)",
        "void fbgemm_gpu::jagged_dense_elementwise(int)",
        "void rocprim::detail::partition_kernel<(rocprim::detail::select_method)0, true>(int)",
    ],
    "sort": [
        "void cub::DeviceRadixSortOnesweepKernel<long>(int)",
        "void at::native::sbtopk::gatherTopK<float, unsigned int>(int)",
        "void rocprim::ROCPRIM_400001_NS::detail::device_block_merge_mergepath_partition_kernel<int>(int)",
    ],
    "fft": ["fft_rtc_fwd_len1024_factors_8_8_16_wgs_128"],
    "sparse": ["void rocsparse::csrmvn_general_kernel<256u, 8u, float>(int)"],
    "linalg": ["void rocsolver::getf2_small_kernel<8, float>(int)"],
    "": [
        "saxpy(double *, double *, double *, double, int)", "void addition_kernel<float>(float*, float const*, int)",
        "laplacian_kernel<double>(double*, int) [clone .kd]", "vecCopy(double*, double*, double*, int, int) (.kd)",
        "void clover::par_reduce_kernel<calc_dt_kernel(global_variables &, int)>(int)", "compute_fd_xyz_lds_kernel",
        "advection_convective_flux", "quantum_walk", "stream_kernel", "l2norm_residual", "downsampling", "",
    ],
}  # fmt: skip

OPERATORS = {
    "gemm": [
        "aten::addmm", "aten::baddbmm_", "aten::_scaled_mm", "aiter::gemm_a8w8", "_rocm_C::wvSplitK",
        "vllm::rocm_unquantized_gemm",
    ],
    "conv": [
        "aten::miopen_convolution", "aten::convolution_backward", "aten::_slow_conv2d_forward",
        "ConvolutionBackward0",
    ],
    "attention": [
        "aten::_flash_attention_forward", "aten::_scaled_dot_product_efficient_attention_backward",
        "flash_attn::_flash_attn_forward", "aten::_native_multi_head_attention", "aiter::mha_batch_prefill",
        "vllm::unified_attention_with_output", "_rocm_C::paged_attention",
    ],
    "norm": [
        "aten::native_layer_norm", "aten::cudnn_batch_norm_backward", "aten::_fused_rms_norm", "aiter::add_rmsnorm",
        "_C::rms_norm",
    ],
    "softmax": ["aten::_softmax", "aten::_log_softmax_backward_data", "aten::_safe_softmax"],
    "elementwise": [
        "aten::mul_", "aten::rsub", "aten::threshold_backward", "aten::native_dropout", "aten::__rshift__",
        "_C::silu_and_mul",
    ],
    "reduction": ["aten::sum", "aten::linalg_vector_norm", "aten::argmax", "aten::var_mean"],
    "embedding": [
        "aten::embedding_dense_backward", "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>",
    ],
    "optimizer": [
        "aten::_foreach_addcdiv_", "aten::_fused_adamw_", "aten::_amp_foreach_non_finite_check_and_unscale_",
    ],
    "collective": [
        "record_param_comms", "c10d::_allgather_base_", "nccl:all_reduce", "_c10d_functional::all_gather_into_tensor",
        "vllm::all_reduce", "aiter::fused_allreduce_rmsnorm", "symm_mem::two_shot_all_reduce_",
    ],
    "moe": ["vllm::moe_forward", "aiter::biased_grouped_topk", "_moe_C::topk_softmax"],
    "copy": [
        "aten::copy_", "aten::cat", "aten::select_backward", "aten::_foreach_copy_", "fsdp::all_gather_copy_in",
        "aten::tril",
    ],
    "fill": ["aten::fill_", "aten::arange", "aten::new_zeros"],
    "index": [
        "aten::index_select", "aten::scatter_add_", "aten::_index_put_impl_", "aten::nonzero",
        "fbgemm::permute_2D_sparse_data",
    ],
    "sort": ["aten::sort", "aten::topk", "aten::_unique2", "torchvision::nms", "aten::nanquantile"],
    "scan": ["aten::cumsum", "aten::_cummax_helper", "fbgemm::asynchronous_complete_cumsum"],
    "rng": ["aten::normal_", "aten::randint_like", "aten::multinomial"],
    "loss": ["aten::mse_loss_backward", "aten::nll_loss2d_forward", "aten::binary_cross_entropy_with_logits"],
    "pooling": ["aten::max_pool2d_with_indices_backward", "aten::_adaptive_avg_pool2d", "torchvision::roi_align"],
    "resample": ["aten::upsample_nearest2d", "aten::grid_sampler_2d_backward"],
    "quantise": [
        "aten::dequantize", "fbgemm::FloatToFP8RowwiseQuantized", "aten::fake_quantize_per_tensor_affine_cachemask",
    ],
    "rope": ["sgl_kernel::rotary_embedding", "aiter::rope_fwd_impl"],
    "kv_cache": ["_C_cache_ops::reshape_and_cache_flash", "sglang::store_cache", "vllm::unified_kv_cache_update"],
    "ssm": ["vllm::mamba_mixer2", "vllm::gdn_attention_core"],
    "rnn": ["aten::_thnn_fused_lstm_cell", "aten::miopen_rnn"],
    "fft": ["aten::_fft_r2c"],
    "sparse": ["aten::_sparse_addmm"],
    "linalg": ["aten::linalg_qr", "aten::_linalg_svd", "aten::cholesky_solve"],
    "": [
        "aten::detach", "_c10d_functional::wait_tensor", "MulBackward0", "ProfilerStep#3", "forward",
        "CompiledFxGraph abc",
    ],
}  # fmt: skip


def class_of_each(kernels: list[str], operators: list[str]) -> dict[str, str]:
    """Return the class of each of the names, given as kernels or as operators of a kernel whose name says nothing."""
    names = kernels or operators
    table = dispatch_table(
        {
            "kind": "kernel",
            "name": kernels or "k",
            "op_name": operators or "",
            "op_stack": operators or "",
            "start_ns": range(len(names)),
            "duration_ns": [1] * len(names),
        }
    )
    return dict(zip(names, classify(table)["op_class"], strict=True))


@pytest.mark.parametrize(("op_class", "names"), KERNELS.items())
def test_kernel_names(op_class: str, names: list[str]):
    assert class_of_each(names, []) == dict.fromkeys(names, op_class)


@pytest.mark.parametrize(("op_class", "names"), OPERATORS.items())
def test_operators(op_class: str, names: list[str]):
    assert class_of_each([], names) == dict.fromkeys(names, op_class)


def test_every_rule_decides_something():
    deciding = {id(decides(name, kernel=True)) for names in KERNELS.values() for name in names}
    deciding |= {id(decides(name, kernel=False)) for names in OPERATORS.values() for name in names}
    idle = [rule for rule in rules() if id(rule) not in deciding and not rule.within]
    assert not idle, idle[0]


def decides(name: str, *, kernel: bool) -> classes.Rule | None:
    bare = name.removeprefix("void ")
    for rule in sorted(rules(), key=lambda rule: not (kernel and rule.first)):
        pattern = rule.kernel if kernel else rule.operator
        if pattern and not rule.within and pattern.search(bare):
            return rule
    return None


def test_every_class_is_used_and_described():
    assert {rule.op_class for rule in rules()} == set(op_classes())


def test_every_rule_states_where_its_names_are_from():
    for entry in classes._data()["rule"]:
        assert ("seen" in entry) != ("source" in entry), entry


def test_classes_of_the_other_tables_exist():
    data = classes._data()
    listed = {op for ops in data["kernel_classes"].values() for op in ops} | set(
        data["keeps_helpers"]
    )
    assert listed - {""} <= set(op_classes())


def test_rule_of_no_class_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        classes, "_data", lambda: {"classes": {"gemm": ""}, "rule": [{"class": "gem"}]}
    )
    classes.op_classes.cache_clear()
    try:
        with pytest.raises(ValueError, match="no class 'gem'"):
            classes.rules.__wrapped__()
    finally:
        classes.op_classes.cache_clear()


def test_insensitive_pattern_leaves_its_neighbours_alone():
    pattern = classes._either(["(?i)abc", "def"])
    assert pattern is not None
    assert [bool(pattern.search(name)) for name in ("ABC", "def", "DEF")] == [True, True, False]
