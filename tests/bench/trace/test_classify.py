"""Kernel names of vLLM 0.16, SGLang 0.5.x, FlashInfer, PyTorch and NCCL, as they stand in their traces."""

import re
from importlib.resources import files

import pytest
import yaml

from k25serve.bench.trace.classify import CLASSES, UNCLASSIFIED, Classifier
from k25serve.bench.trace.events import KernelName

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
)
COPY = "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const"
CAST = (
    f"void at::native::unrolled_elementwise_kernel<{COPY}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, "
    "unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, "
    "at::native::memory::StoreWithCast<1> >(int, ...)"
)

KNOWN = {
    "all_reduce": [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllReduce_Sum_f32_TREE_LL128(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "nccldevkernel_allreduce_x",
        "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymkDevWorkArgs4K)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)",
        "void sglang::cross_device_reduce_2stage<__nv_bfloat16, 2>(sglang::RankData*, sglang::RankSignals)",
        "void (anonymous namespace)::all_reduce_1shot_push_kernel<__nv_bfloat16, 8u, true>(Params)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::x)1, 8>",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<(flashinfer::x)1, 8>",
        "void flashinfer::pcie_ipc::one_shot_kernel<__nv_bfloat16, 8>(Params)",
        "two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 8>",
        "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half, 8>>",
        "vllm::all_reduce",
        "some_vendors_AllReduce_v7",
    ],
    "collective": [
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
        "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, void*)",
    ],
    "attention": [
        "_fwd_grouped_kernel_stage1",
        "_fwd_kernel_stage2",
        "_fwd_kernel",
        "_verify_mla_prefix_stage1",
        "kernel_unified_attention_2d",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, cutlass::bfloat16_t>>",
        "void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8, cutlass::bfloat16_t, 512>>",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloop>>>",
        "fmhaSm100fKernel_QkvBfloat16OBfloat16HQk192HV128SeparateQkvCausalVarSeqQ128Kv128PersistentContext",
        "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>",
        "set_mla_kv_buffer_kernel",
        "concat_and_cast_mha_k_kernel",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, false>(long const*, c10::BFloat16*)",
        "create_flashinfer_kv_indices_triton",
    ],
    "moe_gemm": [
        "void marlin_moe_wna16::Marlin<1125899906909960l, 562949953487106l, 128, 1, 8, 8, false, 4, 2, false>(int4*)",
        "fused_moe_kernel",
        "fused_moe_kernel_gptq_awq",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x256x128x1_swiglu",
        "bmm_E4m3_E4m3E4m3_Fp32_t128x32x128u2_s6_et64x32_m64x32x32_c1x1x1_rM_TN_transOut_noShfl_dsFp8",
    ],
    "gemm": [
        "nvjet_tst_128x24_64x11_2x1_v_bz_TNT",
        "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_NNT",
        "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_64x64_64x6_tn_align8>(T1::Params)",
        "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, false, __nv_bfloat16>",
        "void marlin::Marlin<1125899906909960l, 128, 1, 8, 4, 4, false, 8, false>(int4 const*, int4 const*)",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 2048u, 1u, 64u, 128u>(float*, int*)",
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128>",
        "aten::mm",
    ],
    "norm": [
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*)",
        "std::enable_if<(8>(0)), void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
        "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*, long)",
        "aten::native_layer_norm",
    ],
    "sampling": [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, uint, long>>",
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, BlockScanAlgorithm(1), float>",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>",
        "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, exponential>",
        "apply_token_bitmask_inplace_kernel",
    ],
    "copy": [
        "Memcpy DtoD (Device -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memset (Device)",
        f"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<{COPY}>>",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2u>, uint, 2, 64, 64>",
        "memcpy_triton_kernel",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel>>",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >",
    ],
    "cast": [
        CAST,
        "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::Iter&)>",
        "per_token_group_quant_8bit_kernel",
        "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>",
        "void vllm::cvt_fp16_to_fp4<__nv_bfloat16, false>(int, int, __nv_bfloat16 const*, float const*, unsigned int*)",
        "_act_quant_kernel",
        "triton_poi_fused__to_copy_0",
    ],
    "draft": [
        "void build_tree_efficient(long*, int*, long*, bool*, long*, long*, long*, long*, int, int, int, int)",
        "verify_tree_greedy_kernel_triton",
        "void TreeSpeculativeSamplingTargetOnly<1024u, (cub::BlockScanAlgorithm)1, float, long>",
        "assign_draft_cache_locs_contiguous",
        "rejection_greedy_sample_kernel",
        "fill_bonus_tokens",
    ],
    "other": [
        "void moe_align_block_size_kernel<int>(int const*, int*, int*, int*, int, int, int, unsigned long, int*, bool)",
        "void kimi_k2_moe_fused_gate_kernel_small_token<float>(float*, float*, float*, int*, int, int, bool)",
        "void vllm::moe::topkGatingSoftmax<8, 256, 4, 16, 32, int, float>",
        "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu<float> >",
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>",
        "void count_and_sort_expert_tokens_kernel<int>(int const*, int*, int*, unsigned long)",
        "write_req_to_token_pool_triton",
        ELEMENTWISE,
        "triton_poi_fused_add_mul_3",
    ],
}


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier.load()


@pytest.mark.parametrize(("wanted", "name"), [(c, n) for c, names in KNOWN.items() for n in names])
def test_names_of_real_traces(classifier: Classifier, wanted: str, name: str) -> None:
    found = classifier.classify(KernelName(name))
    assert found.name == wanted
    assert found.family != UNCLASSIFIED


def test_a_kernel_that_nobody_knows_is_unclassified(classifier: Classifier) -> None:
    assert classifier.classify(KernelName("frobnicate_v2")) == ("other", UNCLASSIFIED, True)


@pytest.mark.parametrize(
    ("word", "wanted", "family"),
    [
        ("allreduce", "all_reduce", "nccl"),
        ("_allgather_base", "collective", "all-gather"),
        ("reduce_scatter", "collective", "reduce-scatter"),
        ("all_to_allv", "collective", "all-to-all"),
        ("", "collective", "unknown collective"),
    ],
)
def test_generic_nccl_kernels_by_torchs_word(classifier: Classifier, word: str, wanted: str, family: str) -> None:
    found = classifier.classify(KernelName("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", word))
    assert (found.name, found.family) == (wanted, family)


@pytest.mark.parametrize("name", ["vllm::all_reduce", "some_vendors_AllReduce_v7"])
def test_a_part_of_a_call_is_not_a_call(classifier: Classifier, name: str) -> None:
    assert classifier.classify(KernelName(name)).is_call is False


def test_rules_are_well_formed() -> None:
    rows = yaml.safe_load(files("k25serve.bench.trace").joinpath("kernels.yaml").read_text())
    assert {row["class"] for row in rows} == set(CLASSES)
    for row in rows:
        assert set(row) <= {"class", "family", "match", "collective", "calls"}
        re.compile(row["match"])
