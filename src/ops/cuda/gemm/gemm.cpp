#include "ops/cuda/gemm/gemm.h"

#include <algorithm>

#include "core/error.h"
#include "device/cuda_devices.h"
#include "ops/cuda/gemm/gemm_launchers.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kMostBlocksOfIntegers = 131072 / kGemmBlockColumns - 1;

using Launcher = void (*)(const GemmPlan&, const GemmArguments&, cudaStream_t);

int shift_of(int groups_in_block) {
  return groups_in_block == 4 ? 0 : groups_in_block == 2 ? 1 : 2;
}

void require_weights(const GemmWeights& weights) {
  using core::ErrorKind;
  core::require(weights.bits == 4 || weights.bits == 8, ErrorKind::kFailed,
                "gemm: weights of {} bits; 4 and 8 are built", weights.bits);
  core::require(weights.rows > 0 && weights.block_count > 0, ErrorKind::kFailed,
                "gemm: weights of {} rows and {} blocks along k", weights.rows,
                weights.block_count);
  core::require(weights.groups_in_block == 1 || weights.groups_in_block == 2 ||
                    weights.groups_in_block == 4,
                ErrorKind::kFailed, "gemm: {} groups in a block; 1, 2 and 4 are built",
                weights.groups_in_block);
  core::require(weights.bits == 4 || !weights.asymmetric, ErrorKind::kFailed,
                "gemm: asymmetric weights of 8 bits are not built");
}

void require_rows(const void* data, std::int64_t row_bytes, std::int64_t needed) {
  core::require(reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && row_bytes % 16 == 0,
                core::ErrorKind::kFailed,
                "gemm: inputs at {}, {} bytes a row; both must be multiples of 16", data,
                row_bytes);
  core::require(row_bytes >= needed, core::ErrorKind::kFailed,
                "gemm: {} bytes a row of inputs, but weights need {}", row_bytes, needed);
}

GemmArguments arguments_of(const GemmWeights& weights, const GemmOutput& output, int tokens) {
  require_weights(weights);
  core::require(output.y != nullptr || output.y_half != nullptr, core::ErrorKind::kFailed,
                "gemm: there is nowhere to write to");
  GemmArguments arguments;
  arguments.blocks = weights.blocks;
  arguments.block_bytes = block_bytes(weights);
  arguments.slot_bytes = arguments.block_bytes;
  arguments.body_blocks = weights.block_count;
  arguments.blocks_along_k = weights.block_count;
  arguments.group_shift = shift_of(weights.groups_in_block);
  arguments.asymmetric = weights.asymmetric;
  arguments.rows = weights.rows;
  arguments.row_tiles = (weights.rows + kGemmBlockRows - 1) / kGemmBlockRows;
  arguments.tokens = tokens;
  arguments.output = output;
  return arguments;
}

void add_tail(GemmArguments& arguments, const GemmWeights& weights, const GemmWeights& tail) {
  require_weights(tail);
  core::require(tail.bits == 8 && tail.block_count == 1 && tail.rows == weights.rows &&
                    tail.groups_in_block == 1,
                core::ErrorKind::kFailed,
                "gemm: a tail of {} bits, {} blocks and {} rows; it must have 8 bits, 1 block and "
                "the {} rows of the weights",
                tail.bits, tail.block_count, tail.rows, weights.rows);
  arguments.tail_blocks = tail.blocks;
  arguments.tail_block_bytes = block_bytes(tail);
  arguments.slot_bytes = std::max(arguments.slot_bytes, arguments.tail_block_bytes);
  ++arguments.blocks_along_k;
}

Launcher int8_launcher(const GemmWeights& weights, bool scales_by_group) {
  if (scales_by_group) {
    core::require(weights.bits == 4, core::ErrorKind::kFailed,
                  "gemm: inputs scaled by group need weights of 4 bits");
    return wgmma_int4_by_group_of_both;
  }
  if (weights.row_scale) {
    return weights.bits == 4 ? wgmma_int4_by_row : wgmma_int8_by_row;
  }
  return weights.bits == 4 ? wgmma_int4_by_group : wgmma_int8_by_group;
}

}  // namespace

void gemm_int8(const GemmPlan& plan, const GemmWeights& weights, const GemmWeights* tail,
               const Int8Inputs& inputs, const GemmOutput& output, cudaStream_t stream) {
  GemmArguments arguments = arguments_of(weights, output, inputs.tokens);
  const bool scales_by_group = inputs.group_stride != 0;
  core::require(weights.groups_in_block == 1, core::ErrorKind::kFailed,
                "gemm: groups smaller than 128 need float16 inputs");
  core::require(weights.block_count < kMostBlocksOfIntegers, core::ErrorKind::kFailed,
                "gemm: {} inputs; sums of INT8 products are exact up to {}",
                static_cast<std::int64_t>(weights.block_count) * kGemmBlockColumns,
                kMostBlocksOfIntegers * kGemmBlockColumns);
  if (tail != nullptr) {
    core::require(scales_by_group, core::ErrorKind::kFailed,
                  "gemm: a tail needs inputs scaled by group");
    add_tail(arguments, weights, *tail);
  }
  if (inputs.tokens == 0) {
    return;
  }
  require_rows(inputs.codes, inputs.row_bytes,
               static_cast<std::int64_t>(arguments.blocks_along_k) * kGemmBlockColumns);
  arguments.inputs = inputs.codes;
  arguments.input_row_bytes = inputs.row_bytes;
  arguments.input_scales = inputs.scales;
  arguments.token_stride = inputs.token_stride;
  arguments.group_stride = inputs.group_stride;
  int8_launcher(weights, scales_by_group)(plan, arguments, stream);
}

void gemm_half(const GemmPlan& plan, const GemmWeights& weights, const HalfInputs& inputs,
               const GemmOutput& output, cudaStream_t stream) {
  GemmArguments arguments = arguments_of(weights, output, inputs.tokens);
  if (inputs.tokens == 0) {
    return;
  }
  require_rows(inputs.values, inputs.row_bytes,
               static_cast<std::int64_t>(arguments.blocks_along_k) * kGemmBlockColumns * 2);
  arguments.inputs = inputs.values;
  arguments.input_row_bytes = inputs.row_bytes;
  const Launcher launcher = weights.bits == 4 ? wgmma_half_from_int4 : wgmma_half_from_int8;
  launcher(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
