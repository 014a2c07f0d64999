#include "ops/cuda/medium_batch/medium_batch.h"

#include <algorithm>

#include "core/error.h"
#include "ops/cuda/device_code/per_device.h"
#include "ops/cuda/medium_batch/launch_batch.h"

namespace nibble::ops::cuda {
namespace {

int tiles_of(const UnitsView& weight) {
  return static_cast<int>((weight.n + kTileRows - 1) / kTileRows);
}

MediumBatchLauncher launcher_of(CodeKind codes) {
  switch (codes) {
    case CodeKind::kInt4:
      return medium_batch_int4;
    case CodeKind::kInt4WithZeros:
      return medium_batch_int4_with_zeros;
    case CodeKind::kInt8:
      return medium_batch_int8;
    case CodeKind::kBook:
      return medium_batch_book;
    case CodeKind::kInt3:
      return medium_batch_int3;
    case CodeKind::kInt3WithZeros:
      return medium_batch_int3_with_zeros;
    case CodeKind::kInt2:
      return medium_batch_int2;
    case CodeKind::kInt2WithZeros:
      return medium_batch_int2_with_zeros;
    case CodeKind::kBook3:
      return medium_batch_book3;
    case CodeKind::kBook2:
      return medium_batch_book2;
    default:
      return nullptr;
  }
}

MediumBatchInputs inputs_of(const TileActivations& x) {
  if (x.values != nullptr) {
    return x.sums != nullptr ? MediumBatchInputs::kHalfWithSums : MediumBatchInputs::kHalf;
  }
  if (x.digits == 2) {
    return MediumBatchInputs::kTwoDigitsByGroup;
  }
  return x.scale_of_token ? MediumBatchInputs::kInt8ByToken : MediumBatchInputs::kInt8ByGroup;
}

bool takes_sums(const UnitFormat& format) {
  return !is_book(format.codes) && !has_byte_codes(format.codes) && !format.has_zeros();
}
bool takes_half(const UnitFormat& format) {
  return !is_book(format.codes) && !has_byte_codes(format.codes);
}

}  // namespace

bool medium_batch_runs() {
  return of_current_device([] { return has_medium_batch_code(); });
}

bool medium_batch_knows(const UnitFormat& format) {
  return format.groups == 1 && format.scales == ScaleKind::kF16 && launcher_of(format.codes);
}

bool has_medium_batch(const UnitFormat& format) {
  return medium_batch_runs() && medium_batch_knows(format);
}

InputForm medium_batch_input(const UnitFormat& format, std::int64_t m) {
  if (m <= kMostTokensOfDigits || !takes_half(format)) {
    return InputForm::kByteTiles;
  }
  return takes_sums(format) ? InputForm::kFloat16Summed : InputForm::kFloat16Tiles;
}

bool medium_batch_gates(const UnitFormat& format, const MediumBatchSchedule& schedule,
                        std::int64_t m) {
  return takes_half(format) && half_batch_gates(schedule, half_columns_of(m));
}

bool half_batch_gates(const MediumBatchSchedule& schedule, int columns) {
  const int warpgroups = warpgroups_of(columns);
  const int partners = warpgroups / std::min(schedule.row_groups, warpgroups) * schedule.cluster;
  return columns / 2 / partners % 4 == 0;
}

std::vector<MediumBatchSchedule> medium_batch_schedules(int multiprocessors) {
  std::vector<MediumBatchSchedule> schedules;
  for (const int row_groups : {1, 2, 4}) {
    for (const int cluster : {1, 2}) {
      schedules.push_back({row_groups, cluster, multiprocessors / cluster * cluster});
    }
  }
  return schedules;
}

MediumBatchSchedule medium_batch_schedule(const UnitsView& weight, int multiprocessors) {
  const int tiles = tiles_of(weight);
  const int each = (tiles + multiprocessors - 1) / multiprocessors;
  // Two blocks that divide k take twice the rows, while these fit; on an H200 that is faster.
  MediumBatchSchedule schedule;
  schedule.cluster = each <= 8 ? 2 : 1;
  schedule.row_groups = each <= 2 ? 1 : each <= 4 ? 2 : 4;
  schedule.blocks = std::min(multiprocessors / schedule.cluster, tiles) * schedule.cluster;
  return schedule;
}

void medium_batch(const MediumBatchProblem& problem, const MediumBatchSchedule& schedule,
                  cudaStream_t stream) {
  const UnitsView& weight = problem.weight;
  core::require(medium_batch_knows(weight.format), core::ErrorKind::kFailed,
                "medium_batch: no kernel for weights of this format");
  const bool half = problem.x.values != nullptr;
  const int digits = half ? 2 : problem.x.digits;
  core::require(!half || takes_half(weight.format), core::ErrorKind::kFailed,
                "medium_batch: no kernel takes float16 for such weights");
  core::require(problem.x.sums == nullptr || (half && takes_sums(weight.format)),
                core::ErrorKind::kFailed, "medium_batch: no kernel takes such sums");
  core::require(digits == 2 || !has_planes(weight.format.codes), core::ErrorKind::kFailed,
                "medium_batch: no kernel takes one digit for codes in planes");
  core::require(
      half || digits == 1 || problem.m <= kMostTokensOfDigits || !takes_half(weight.format),
      core::ErrorKind::kFailed, "medium_batch: {} tokens of two digits; such weights take up to {}",
      problem.m, kMostTokensOfDigits);
  core::require(problem.output.y != nullptr || !problem.output.half.pairs ||
                    (half && medium_batch_gates(weight.format, schedule, problem.m)),
                core::ErrorKind::kFailed, "medium_batch: no kernel joins pairs here");
  launch_medium_batch(launcher_of(weight.format.codes), problem, schedule, stream);
}

void launch_medium_batch(MediumBatchLauncher launcher, const MediumBatchProblem& problem,
                         const MediumBatchSchedule& schedule, cudaStream_t stream) {
  const UnitsView& weight = problem.weight;
  const bool half = problem.x.values != nullptr;
  const int digits = half ? 2 : problem.x.digits;
  const int most = max_medium_batch_columns(digits);
  require_output(problem.output, weight.n);
  core::require(problem.m >= 1 && problem.m * digits <= most, core::ErrorKind::kFailed,
                "medium_batch: {} tokens of {} digits; {} columns fit", problem.m, digits, most);
  core::require(
      (schedule.row_groups == 1 || schedule.row_groups == 2 || schedule.row_groups == 4) &&
          (schedule.cluster == 1 || schedule.cluster == 2) && schedule.blocks >= 1 &&
          schedule.blocks % schedule.cluster == 0,
      core::ErrorKind::kFailed,
      "medium_batch: no kernel has {} blocks in clusters of {} for {} row groups", schedule.blocks,
      schedule.cluster, schedule.row_groups);
  const int clusters = schedule.blocks / schedule.cluster;
  const int tiles = tiles_of(weight);
  MediumBatchArguments a;
  a.units = weight.units;
  a.tables = weight.tables;
  a.factors = weight.factors;
  a.rows = static_cast<int>(weight.n);
  a.blocks = static_cast<int>(unit_grid(weight.n, weight.k).blocks);
  a.tiles_each = tiles / clusters;
  a.tiles_more = tiles % clusters;
  if (half) {
    a.inputs = problem.x.values;
    a.sums = problem.x.sums;
    a.sum_stride = static_cast<int>(sum_stride_of(problem.m));
  } else {
    a.inputs = problem.x.codes;
  }
  a.scales = problem.x.scales;
  a.scale_stride = problem.x.scale_of_token ? 1 : a.blocks;
  a.tokens = static_cast<int>(problem.m);
  a.output = problem.output;
  launcher(a, schedule, inputs_of(problem.x), stream);
}

}  // namespace nibble::ops::cuda
