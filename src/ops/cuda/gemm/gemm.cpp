#include "ops/cuda/gemm/gemm.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "device/cuda_devices.h"
#include "ops/cuda/gemm/gemm_launchers.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kMostUnitsOfIntegers = 131072 / kGemmUnitColumns - 1;

int shift_of(int groups_in_unit) {
  return groups_in_unit == 4 ? 0 : groups_in_unit == 2 ? 1 : 2;
}

void require_weights(const GemmWeights& weights) {
  using core::ErrorKind;
  core::require(weights.bits == 4 || weights.bits == 8, ErrorKind::kFailed,
                "gemm: weights of {} bits; 4 and 8 are built", weights.bits);
  core::require(weights.rows > 0 && weights.unit_count > 0, ErrorKind::kFailed,
                "gemm: weights of {} rows and {} units along k", weights.rows,
                weights.unit_count);
  core::require(weights.groups_in_unit == 1 || weights.groups_in_unit == 2 ||
                    weights.groups_in_unit == 4,
                ErrorKind::kFailed, "gemm: {} groups in a unit; 1, 2 and 4 are built",
                weights.groups_in_unit);
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
  arguments.units = weights.units;
  arguments.tile_bytes = tile_bytes(weights);
  arguments.slot_bytes = 4 * arguments.tile_bytes;
  arguments.body_units = weights.unit_count;
  arguments.units_along_k = weights.unit_count;
  arguments.group_shift = shift_of(weights.groups_in_unit);
  arguments.asymmetric = weights.asymmetric;
  arguments.rows = weights.rows;
  arguments.row_groups = (weights.rows + kGemmUnitRows - 1) / kGemmUnitRows;
  arguments.tokens = tokens;
  arguments.output = output;
  return arguments;
}

void add_tail(GemmArguments& arguments, const GemmWeights& weights, const GemmWeights& tail) {
  require_weights(tail);
  core::require(tail.bits == 8 && tail.unit_count == 1 && tail.rows == weights.rows &&
                    tail.groups_in_unit == 1,
                core::ErrorKind::kFailed,
                "gemm: a tail of {} bits, {} units and {} rows; it must have 8 bits, 1 unit and "
                "the {} rows of the weights",
                tail.bits, tail.unit_count, tail.rows, weights.rows);
  arguments.tail_units = tail.units;
  arguments.tail_tile_bytes = tile_bytes(tail);
  arguments.slot_bytes = std::max(arguments.slot_bytes, 4 * arguments.tail_tile_bytes);
  ++arguments.units_along_k;
}

GemmLauncher int8_launcher(bool wgmma, const GemmWeights& weights, bool scales_by_group) {
  if (scales_by_group) {
    core::require(weights.bits == 4, core::ErrorKind::kFailed,
                  "gemm: inputs scaled by group need weights of 4 bits");
    return wgmma ? wgmma_int4_by_group_of_both : mma_int4_by_group_of_both;
  }
  if (weights.bits == 4) {
    return weights.row_scale ? (wgmma ? wgmma_int4_by_row : mma_int4_by_row)
                             : (wgmma ? wgmma_int4_by_group : mma_int4_by_group);
  }
  return weights.row_scale ? (wgmma ? wgmma_int8_by_row : mma_int8_by_row)
                           : (wgmma ? wgmma_int8_by_group : mma_int8_by_group);
}

GemmLauncher half_launcher(bool wgmma, const GemmWeights& weights) {
  return weights.bits == 4 ? (wgmma ? wgmma_half_from_int4 : mma_half_from_int4)
                           : (wgmma ? wgmma_half_from_int8 : mma_half_from_int8);
}

}  // namespace

void gemm_int8(const GemmPlan& plan, const GemmWeights& weights, const GemmWeights* tail,
               const Int8Inputs& inputs, const GemmOutput& output, cudaStream_t stream) {
  GemmArguments arguments = arguments_of(weights, output, inputs.tokens);
  const bool scales_by_group = inputs.group_stride != 0;
  core::require(weights.groups_in_unit == 1, core::ErrorKind::kFailed,
                "gemm: groups smaller than 128 need float16 inputs");
  core::require(weights.unit_count < kMostUnitsOfIntegers, core::ErrorKind::kFailed,
                "gemm: {} inputs; sums of INT8 products are exact up to {}",
                static_cast<std::int64_t>(weights.unit_count) * kGemmUnitColumns,
                kMostUnitsOfIntegers * kGemmUnitColumns);
  if (tail != nullptr) {
    core::require(scales_by_group, core::ErrorKind::kFailed,
                  "gemm: a tail needs inputs scaled by group");
    add_tail(arguments, weights, *tail);
  }
  if (inputs.tokens == 0) {
    return;
  }
  core::require(static_cast<std::int64_t>(inputs.tokens) * inputs.token_stride +
                        static_cast<std::int64_t>(weights.unit_count) * inputs.group_stride <=
                    std::numeric_limits<int>::max(),
                core::ErrorKind::kFailed, "gemm: scales of {} tokens, {} apart, are too many",
                inputs.tokens, inputs.token_stride);
  require_rows(inputs.codes, inputs.row_bytes,
               static_cast<std::int64_t>(arguments.units_along_k) * kGemmUnitColumns);
  arguments.inputs = inputs.codes;
  arguments.input_row_bytes = inputs.row_bytes;
  arguments.input_scales = inputs.scales;
  arguments.token_stride = inputs.token_stride;
  arguments.group_stride = inputs.group_stride;
  int8_launcher(plan.wgmma, weights, scales_by_group)(plan, arguments, stream);
}

void gemm_half(const GemmPlan& plan, const GemmWeights& weights, const HalfInputs& inputs,
               const GemmOutput& output, cudaStream_t stream) {
  GemmArguments arguments = arguments_of(weights, output, inputs.tokens);
  if (inputs.tokens == 0) {
    return;
  }
  require_rows(inputs.values, inputs.row_bytes,
               static_cast<std::int64_t>(arguments.units_along_k) * kGemmUnitColumns * 2);
  arguments.inputs = inputs.values;
  arguments.input_row_bytes = inputs.row_bytes;
  half_launcher(plan.wgmma, weights)(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
