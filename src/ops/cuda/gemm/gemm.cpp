#include "ops/cuda/gemm/gemm.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "device/cuda_devices.h"
#include "ops/cuda/elementwise/int4_tiles.h"
#include "ops/cuda/gemm/gemm_launchers.h"

namespace nibble::ops::cuda {
namespace {

// Sums of as many products of INT8 numbers stay below 2^31.
constexpr std::int64_t kMostIntegerInputs = 131072 - kUnitInputs;

int units_along_k(const GemmWeights& weights) {
  return static_cast<int>(unit_grid(weights.units.n, weights.units.k).blocks);
}

void require_rows(const void* data, std::int64_t row_bytes, std::int64_t needed) {
  core::require(reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && row_bytes % 16 == 0,
                core::ErrorKind::kFailed,
                "gemm: inputs at {}, {} bytes a row; both must be multiples of 16", data,
                row_bytes);
  core::require(row_bytes >= needed, core::ErrorKind::kFailed,
                "gemm: {} bytes a row of inputs, but weights need {}", row_bytes, needed);
}

void set_output(GemmArguments& arguments, const GemmOutput& output, int tokens) {
  require_any_output(output, arguments.rows);
  arguments.tokens = tokens;
  arguments.output = output;
}

// Without inputs and outputs.
GemmArguments arguments_of(const GemmWeights& weights) {
  const UnitsView& units = weights.units;
  core::require(units.n > 0 && units.k > 0, core::ErrorKind::kFailed,
                "gemm: weights of {} rows and {} columns", units.n, units.k);
  core::require(units.format.scales == ScaleKind::kF16, core::ErrorKind::kFailed,
                "gemm: scales must be float16");
  GemmArguments arguments;
  arguments.units = reinterpret_cast<const std::uint8_t*>(units.units);
  arguments.tile_bytes = static_cast<int>(units.format.tile_bytes());
  arguments.slot_bytes = static_cast<int>(units.format.bytes());
  arguments.code_bytes = static_cast<int>(units.format.code_bytes());
  arguments.body_units = units_along_k(weights);
  arguments.units_along_k = arguments.body_units;
  arguments.group_shift = units.format.groups == 8 ? 0 : units.format.groups == 4 ? 1 : 3;
  arguments.offset = offset_of(units.format.codes);
  arguments.tables = units.tables;
  arguments.factors = units.factors;
  arguments.rows = static_cast<int>(units.n);
  arguments.row_groups = static_cast<int>(unit_grid(units.n, units.k).row_groups);
  return arguments;
}

void add_tail(GemmArguments& arguments, const UnitsView& units, const UnitsView& tail) {
  core::require(
      tail.format.codes == CodeKind::kInt8 && tail.format.groups == 1 && tail.k <= kUnitInputs &&
          tail.n == units.n,
      core::ErrorKind::kFailed,
      "gemm: a tail of {} rows and {} columns; it must have 8 bits, at most {} columns and "
      "the {} rows of the weights",
      tail.n, tail.k, kUnitInputs, units.n);
  arguments.tail_units = reinterpret_cast<const std::uint8_t*>(tail.units);
  arguments.tail_tile_bytes = static_cast<int>(tail.format.tile_bytes());
  arguments.slot_bytes = std::max(arguments.slot_bytes, static_cast<int>(tail.format.bytes()));
  ++arguments.units_along_k;
}

// Only tiles that gemm_plans() names have kernels.
void require_plan(const GemmPlan& plan, const GemmWeights& weights, GemmInputs inputs) {
  const bool tiles = gemm_has_tile(weights, inputs, plan.row_tile, plan.token_tile);
  const int most = gemm_most_in_cluster(weights, inputs, plan.row_tile, plan.token_tile);
  const bool cluster =
      plan.divides_k
          ? plan.cluster == 2 && gemm_divides_k(weights, inputs, plan.row_tile, plan.token_tile)
          : plan.cluster >= 1 && plan.cluster <= most;
  core::require(!plan.wgmma || (tiles && cluster), core::ErrorKind::kFailed,
                "gemm: there is no kernel for tiles of {} x {} in {}{}", plan.row_tile,
                plan.token_tile, plan.cluster, plan.divides_k ? " that divide k" : "");
}

GemmLauncher int8_launcher(const GemmPlan& plan, const GemmWeights& weights, GemmInputs inputs) {
  const bool wgmma = plan.wgmma;
  const UnitFormat& format = weights.units.format;
  const bool four_bits =
      format.codes == CodeKind::kInt4 || format.codes == CodeKind::kInt4WithZeros;
  const bool by_group = inputs == GemmInputs::kInt8ScaledByGroup;
  const bool book = by_group && format.codes == CodeKind::kBook;
  core::require(
      (four_bits || book || format.codes == CodeKind::kInt8) && format.groups == 1,
      core::ErrorKind::kFailed,
      "gemm: INT8 inputs meet integers, and books where inputs are scaled by group; other books, "
      "8-bit codes with zeros and groups smaller than 128 need float16 inputs");
  if (book) {
    return wgmma ? wgmma_book_by_group_of_both : mma_book_by_group_of_both;
  }
  if (by_group) {
    core::require(four_bits, core::ErrorKind::kFailed,
                  "gemm: inputs scaled by group need weights of 4 bits");
    return wgmma ? wgmma_int4_by_group_of_both : mma_int4_by_group_of_both;
  }
  if (plan.keeps_inputs()) {
    return four_bits ? resident_int4_by_row : resident_int8_by_row;
  }
  if (four_bits) {
    return weights.row_scale ? (wgmma ? wgmma_int4_by_row : mma_int4_by_row)
                             : (wgmma ? wgmma_int4_by_group : mma_int4_by_group);
  }
  return weights.row_scale ? (wgmma ? wgmma_int8_by_row : mma_int8_by_row)
                           : (wgmma ? wgmma_int8_by_group : mma_int8_by_group);
}

// null: there is none for such codes.
GemmLauncher half_launcher(bool wgmma, CodeKind codes) {
  if (has_planes(codes)) {
    return is_book(codes) ? (wgmma ? wgmma_half_from_plane_book : mma_half_from_plane_book)
                          : (wgmma ? wgmma_half_from_planes : mma_half_from_planes);
  }
  switch (codes) {
    case CodeKind::kBook:
      return wgmma ? wgmma_half_from_book : mma_half_from_book;
    case CodeKind::kInt8:
    case CodeKind::kInt8WithZeros:
    case CodeKind::kInt8WithShifts:
      return wgmma ? wgmma_half_from_int8 : mma_half_from_int8;
    case CodeKind::kInt4:
    case CodeKind::kInt4WithZeros:
    case CodeKind::kInt4WithShifts:
      return wgmma ? wgmma_half_from_int4 : mma_half_from_int4;
    default:
      return nullptr;
  }
}

void set_inputs(GemmArguments& arguments, const void* inputs, std::int64_t row_bytes,
                std::int64_t value_bytes) {
  require_rows(inputs, row_bytes, arguments.units_along_k * kUnitInputs * value_bytes);
  arguments.inputs = inputs;
  arguments.input_row_bytes = row_bytes;
}

// Integers sum up exactly.
void require_exact(const GemmWeights& weights) {
  core::require(weights.units.k <= kMostIntegerInputs, core::ErrorKind::kFailed,
                "gemm: {} inputs; sums of INT8 products are exact up to {}", weights.units.k,
                kMostIntegerInputs);
}

template <class Inputs>
void set_scales(GemmArguments& arguments, const Inputs& inputs) {
  core::require(static_cast<std::int64_t>(inputs.tokens) * inputs.token_stride +
                        static_cast<std::int64_t>(arguments.units_along_k) * inputs.group_stride <=
                    std::numeric_limits<int>::max(),
                core::ErrorKind::kFailed, "gemm: scales of {} tokens, {} apart, are too many",
                inputs.tokens, inputs.token_stride);
  arguments.input_scales = inputs.scales;
  arguments.token_stride = inputs.token_stride;
  arguments.group_stride = inputs.group_stride;
}

}  // namespace

void require_output(const GemmOutput& output, std::int64_t rows) {
  const HalfOutput& half = output.half;
  core::require((output.y != nullptr) != (half.values != nullptr) &&
                    output.codes.codes == nullptr && !output.in_blocks() &&
                    !(output.adds && output.y == nullptr),
                core::ErrorKind::kFailed, "there must be one place to write to");
  core::require(output.y != nullptr || (rows % half.row_step() == 0 && half.stride % 2 == 0),
                core::ErrorKind::kFailed,
                "{} rows{}, {} values from token to token; multiples of {} and of 2 can be float16",
                rows, half.pairs ? " in pairs" : "", half.stride, half.row_step());
}

void require_any_output(const GemmOutput& output, std::int64_t rows) {
  const CodeOutput& codes = output.codes;
  const BlockOutput& blocks = output.blocks;
  if (codes.codes == nullptr && !output.in_blocks()) {
    return require_output(output, rows);
  }
  core::require(output.y == nullptr && output.half.values == nullptr &&
                    (codes.codes == nullptr) == output.in_blocks() && !output.adds,
                core::ErrorKind::kFailed, "there must be one place to write to");
  if (output.in_blocks()) {
    return core::require(
        rows % BlockOutput::kRowStep == 0 && blocks.there != nullptr && blocks.sum != nullptr,
        core::ErrorKind::kFailed, "{} rows can't go into a sum of two GPUs; multiples of {} can",
        rows, BlockOutput::kRowStep);
  }
  core::require(rows % CodeOutput::kRowStep == 0 && codes.stride % 16 == 0 && codes.scale > 0.0f &&
                    (codes.bits == 8 || codes.bits == 4),
                core::ErrorKind::kFailed,
                "{} rows, {} codes of {} bits from token to token, scale {}; multiples of {} and "
                "of 16 can be codes of 8 or 4 bits, with a scale above 0",
                rows, codes.stride, codes.bits, codes.scale, CodeOutput::kRowStep);
}

void require_unpaired(const GemmOutput& output, std::int64_t rows) {
  require_output(output, rows);
  core::require(!output.half.pairs, core::ErrorKind::kFailed, "no kernel joins pairs here");
}

bool gemm_knows(CodeKind codes) {
  return half_launcher(false, codes) != nullptr;
}

void launch_gemm(GemmLauncher launcher, const GemmPlan& plan, const GemmWeights& weights,
                 const GemmWeights* tail, GemmInputs kind, const Int8Inputs& inputs,
                 const GemmOutput& output, cudaStream_t stream) {
  GemmArguments arguments = arguments_of(weights);
  arguments.scale_factors = std::exchange(arguments.factors, nullptr);
  require_plan(plan, weights, kind);
  if (tail != nullptr) {
    add_tail(arguments, weights.units, tail->units);
  }
  launch_gemm(launcher, plan, arguments, inputs, output, stream);
}

void launch_gemm(GemmLauncher launcher, const GemmPlan& plan, GemmArguments weights,
                 const HalfInputs& inputs, const GemmOutput& output, cudaStream_t stream) {
  set_output(weights, output, inputs.tokens);
  if (inputs.tokens > 0) {
    set_inputs(weights, inputs.values, inputs.row_bytes, 2);
    launcher(plan, weights, stream);
  }
}

void launch_gemm(GemmLauncher launcher, const GemmPlan& plan, GemmArguments weights,
                 const Int8Inputs& inputs, const GemmOutput& output, cudaStream_t stream) {
  set_output(weights, output, inputs.tokens);
  if (inputs.tokens > 0) {
    set_scales(weights, inputs);
    set_inputs(weights, inputs.codes, inputs.row_bytes, 1);
    launcher(plan, weights, stream);
  }
}

void launch_gemm(GemmLauncher launcher, const GemmPlan& plan, const GemmWeights& weights,
                 const HalfInputs& inputs, const GemmOutput& output, cudaStream_t stream) {
  require_plan(plan, weights, GemmInputs::kHalf);
  launch_gemm(launcher, plan, arguments_of(weights), inputs, output, stream);
}

void launch_gemm(GemmLauncher launcher, const GemmWeights& weights, const Int4Inputs& inputs,
                 const GemmOutput& output, cudaStream_t stream) {
  GemmArguments arguments = arguments_of(weights);
  set_output(arguments, output, inputs.tokens);
  require_exact(weights);
  if (inputs.tokens > 0) {
    set_scales(arguments, inputs);
    arguments.input_zeros = inputs.zeros;
    const std::int64_t needed = arguments.units_along_k * kUnitInputs / kInt4PerByte;
    require_rows(inputs.codes, inputs.row_bytes, needed);
    arguments.inputs = inputs.codes;
    arguments.input_row_bytes = inputs.row_bytes;
    launcher({}, arguments, stream);
  }
}

void gemm_int8(const GemmPlan& plan, const GemmWeights& weights, const GemmWeights* tail,
               const Int8Inputs& inputs, const GemmOutput& output, cudaStream_t stream) {
  const auto kind = inputs.group_stride == 0 ? GemmInputs::kInt8 : GemmInputs::kInt8ScaledByGroup;
  // Products whose inputs stay send no blocks.
  const GemmPlan used =
      plan.keeps_inputs() && output.in_blocks() ? GemmPlan{true, 128, 128, 1, plan.blocks} : plan;
  const GemmLauncher launcher = int8_launcher(used, weights, kind);
  require_exact(weights);
  core::require(tail == nullptr || kind == GemmInputs::kInt8ScaledByGroup, core::ErrorKind::kFailed,
                "gemm: a tail needs inputs scaled by group");
  launch_gemm(launcher, used, weights, tail, kind, inputs, output, stream);
}

void gemm_half(const GemmPlan& plan, const GemmWeights& weights, const HalfInputs& inputs,
               const GemmOutput& output, cudaStream_t stream) {
  const GemmLauncher launcher = half_launcher(plan.wgmma, weights.units.format.codes);
  core::require(launcher != nullptr, core::ErrorKind::kFailed,
                "gemm: it multiplies integers and books");
  launch_gemm(launcher, plan, weights, inputs, output, stream);
}

}  // namespace nibble::ops::cuda
