#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_type.h"
#include "device/cuda_devices.h"
#include "ops/cuda/medium_batch/medium_batch.h"
#include "ops/cuda/schedules/linear_shape.h"
#include "ops/cuda/small_batch/small_batch.h"

/// Schedules of linear layers that were measured on one kind of GPU, in place of the built-in
/// choice.
///
/// A layer has one schedule for few tokens, whatever their number, so that a token's result is the
/// same in every batch that small_batch.h serves at once. For those that medium_batch.h serves it
/// has one up to each of kMediumColumns. For more tokens it has a choice for each bucket of them: a
/// plan of gemm.h, or launches of the kernel for few tokens.
namespace nibble::ops::cuda {

/// Raised with every change of the kernels after which their schedules must be measured again.
inline constexpr int kKernelsVersion = 4;

/// Numbers of tokens that are measured. Others belong to the next larger one, and those beyond the
/// last one to that.
inline constexpr std::array<std::int64_t, 12> kTokenBuckets = {1,  2,   4,   8,   16,   32,
                                                               64, 128, 256, 512, 1024, 2048};

/// The index of the bucket that m tokens belong to.
std::size_t bucket_of(std::int64_t m);

/// Columns (tokens times digits) of medium_batch.h that are measured. Others belong to the next
/// larger one.
inline constexpr std::array<std::int64_t, 3> kMediumColumns = {32, 64, 128};

/// The index of what so many columns belong to.
std::size_t medium_index(std::int64_t columns);

/// Where schedules were measured.
struct ScheduleOrigin {
  std::string gpu;
  int multiprocessors = 0;
  int driver = 0;  // CUDA version of the driver, the first number
  int kernels = kKernelsVersion;
  friend bool operator==(const ScheduleOrigin&, const ScheduleOrigin&) = default;
};
ScheduleOrigin origin_of(const device::CudaDevice& device);

/// How medium_batch.h divides a layer.
struct MediumTokens {
  std::int64_t columns = 0;  // out of kMediumColumns
  MediumBatchSchedule schedule;
  double microseconds = 0.0;
};

/// How a bucket beyond those of small_batch.h and medium_batch.h is served.
struct ManyTokens {
  std::int64_t tokens = 0;       // of the bucket
  std::optional<GemmPlan> plan;  // or none: launches of the kernel for few tokens
  double microseconds = 0.0;

  /// Whether it is a choice for m tokens of its bucket, being one that cuts them into as many tiles
  /// (or launches of at most `few` tokens) as the tokens that were measured.
  bool serves(std::int64_t m, std::int64_t few) const;
};

/// What was measured of one layer.
struct LinearSchedules {
  LinearShape shape;
  std::optional<SmallBatchSchedule> few;
  std::vector<std::pair<std::int64_t, double>> few_microseconds;  // by tokens
  std::vector<MediumTokens> medium;
  std::vector<ManyTokens> many;
  std::string date;  // of the last measurement, "2026-01-31"; empty: not told

  /// What this number of tokens took when it was measured.
  std::optional<double> microseconds(std::int64_t tokens) const;
};

class Schedules {
 public:
  /// Nothing measured: all is built in.
  explicit Schedules(ScheduleOrigin origin) : origin_(std::move(origin)) {}

  /// Of a file that `what` names in messages; without layers where they are of other kernels, whose
  /// plans may have other fields. Throws kInvalidModel for what no nibble wrote.
  static Schedules from_json(const core::Json& json, std::string_view what);
  core::Json to_json() const;

  const ScheduleOrigin& origin() const { return origin_; }
  const std::vector<LinearSchedules>& layers() const { return layers_; }
  /// null: nothing is known of such a layer.
  const LinearSchedules* find(const LinearShape& shape) const;
  /// Takes over what was measured of a layer, and keeps what is known of its other numbers of
  /// tokens.
  void add(const LinearSchedules& measured);

 private:
  ScheduleOrigin origin_;
  std::vector<LinearSchedules> layers_;
};

/// Throws kUsage when schedules were measured elsewhere than here, or by other kernels.
void require_origin(const Schedules& schedules, const ScheduleOrigin& here, std::string_view what);

/// What there is on a device.
struct KernelLists {
  /// Plans of the product that takes such layers; none where there is no such product.
  std::function<std::vector<GemmPlan>(const LinearShape&)> plans;
  /// Schedules of medium_batch.h.
  std::function<std::vector<MediumBatchSchedule>(const LinearShape&)> medium;
};
GemmWeights weights_of(const LinearShape& shape);

/// Throws kInvalidModel for a plan or a schedule of medium_batch.h that is none of the listed ones.
void require_kernels(const Schedules& schedules, const KernelLists& lists, std::string_view what);

}  // namespace nibble::ops::cuda
