#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/gemm/int4/gemm_int4.h"

/// The kernels, by what they read and how they scale.
namespace nibble::ops::cuda {

/// Calls body<offset>().
template <class Body>
void with_offset(GroupOffset offset, const Body& body) {
  switch (offset) {
    case GroupOffset::kNone:
      return body.template operator()<GroupOffset::kNone>();
    case GroupOffset::kZero:
      return body.template operator()<GroupOffset::kZero>();
    case GroupOffset::kShift:
      return body.template operator()<GroupOffset::kShift>();
  }
}

using GemmLauncher = void (*)(const GemmPlan&, const GemmArguments&, cudaStream_t);

/// y = x W^T by a kernel of this or another folder: checks what all of them need, fills in the
/// arguments, and launches where there are tokens. Throws kFailed.
void launch_gemm(GemmLauncher launcher, const GemmPlan& plan, const GemmWeights& weights,
                 const HalfInputs& inputs, const GemmOutput& output, cudaStream_t stream);
/// The same of weights of another layout, which the caller has described: fills in the rest.
void launch_gemm(GemmLauncher launcher, const GemmPlan& plan, GemmArguments weights,
                 const HalfInputs& inputs, const GemmOutput& output, cudaStream_t stream);
void launch_gemm(GemmLauncher launcher, const GemmPlan& plan, GemmArguments weights,
                 const Int8Inputs& inputs, const GemmOutput& output, cudaStream_t stream);
/// `kind` is kInt8, kInt8ScaledByGroup or kBytes; `tail` null or as gemm_int8() has it.
void launch_gemm(GemmLauncher launcher, const GemmPlan& plan, const GemmWeights& weights,
                 const GemmWeights* tail, GemmInputs kind, const Int8Inputs& inputs,
                 const GemmOutput& output, cudaStream_t stream);
void launch_gemm(GemmLauncher launcher, const GemmWeights& weights, const Int4Inputs& inputs,
                 const GemmOutput& output, cudaStream_t stream);

// Products of warpgroups, for sm_90a. Elsewhere, and in builds without that architecture, these
// kernels are empty.
bool wgmma_runs();
void wgmma_int8_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void wgmma_int8_by_group(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void wgmma_int4_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void wgmma_int4_by_group(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void wgmma_int4_by_group_of_both(const GemmPlan& plan, const GemmArguments& arguments,
                                 cudaStream_t stream);
void wgmma_book_by_group_of_both(const GemmPlan& plan, const GemmArguments& arguments,
                                 cudaStream_t stream);
void wgmma_half_from_int4(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream);
void wgmma_half_from_int8(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream);
void wgmma_half_from_book(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream);
void wgmma_half_from_planes(const GemmPlan& plan, const GemmArguments& arguments,
                            cudaStream_t stream);
void wgmma_half_from_plane_book(const GemmPlan& plan, const GemmArguments& arguments,
                                cudaStream_t stream);

// The same while inputs stay in shared memory (resident/gemm_resident.cuh).
void resident_int8_by_row(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream);
void resident_int4_by_row(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream);

// Products of warps, for every device from sm_80 on. Of the plan they need nothing.
void mma_int8_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void mma_int8_by_group(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void mma_int4_by_row(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void mma_int4_by_group(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void mma_int4_by_group_of_both(const GemmPlan& plan, const GemmArguments& arguments,
                               cudaStream_t stream);
void mma_book_by_group_of_both(const GemmPlan& plan, const GemmArguments& arguments,
                               cudaStream_t stream);
void mma_half_from_int4(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void mma_half_from_int8(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void mma_half_from_book(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream);
void mma_half_from_planes(const GemmPlan& plan, const GemmArguments& arguments,
                          cudaStream_t stream);
void mma_half_from_plane_book(const GemmPlan& plan, const GemmArguments& arguments,
                              cudaStream_t stream);

}  // namespace nibble::ops::cuda
