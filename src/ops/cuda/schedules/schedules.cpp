#include "ops/cuda/schedules/schedules.h"

#include <algorithm>

#include "core/error.h"
#include "ops/cuda/schedules/gemm_plan_fields.h"

namespace nibble::ops::cuda {
namespace {

std::int64_t pieces(std::int64_t m, std::int64_t each) {
  return (m + each - 1) / each;
}

}  // namespace

std::size_t bucket_of(std::int64_t m) {
  const auto* at = std::lower_bound(kTokenBuckets.begin(), kTokenBuckets.end() - 1, m);
  return static_cast<std::size_t>(at - kTokenBuckets.begin());
}

ScheduleOrigin origin_of(const device::CudaDevice& device) {
  return {device.name, device.multiprocessors, device.driver};
}

bool ManyTokens::serves(std::int64_t m, std::int64_t few) const {
  const std::int64_t each = plan ? plan->token_tile : few;
  return m > tokens || pieces(m, each) == pieces(tokens, each);
}

const LinearSchedules* Schedules::find(const LinearShape& shape) const {
  const auto at = std::find_if(layers_.begin(), layers_.end(),
                               [&](const LinearSchedules& each) { return each.shape == shape; });
  return at == layers_.end() ? nullptr : &*at;
}

void Schedules::add(const LinearSchedules& measured) {
  const auto at = std::find_if(layers_.begin(), layers_.end(), [&](const LinearSchedules& each) {
    return each.shape == measured.shape;
  });
  if (at == layers_.end()) {
    layers_.push_back(measured);
    return;
  }
  if (measured.few) {
    at->few = measured.few;
    at->few_microseconds = measured.few_microseconds;
  }
  for (const ManyTokens& each : measured.many) {
    std::erase_if(at->many, [&](const ManyTokens& old) { return old.tokens == each.tokens; });
    at->many.push_back(each);
  }
}

void require_origin(const Schedules& schedules, const ScheduleOrigin& here, std::string_view what) {
  const ScheduleOrigin& there = schedules.origin();
  const auto words = [](const ScheduleOrigin& origin) {
    return fmt::format("{} with {} multiprocessors, driver {}, kernels {}",
                       core::printable(origin.gpu), origin.multiprocessors, origin.driver,
                       origin.kernels);
  };
  core::require(there == here, core::ErrorKind::kUsage,
                "{}: measured on {}; this is {}; run nibble tune-kernels here", what, words(there),
                words(here));
}

GemmWeights weights_of(const LinearShape& shape) {
  GemmWeights weights;
  weights.units.format = shape.format;
  weights.units.n = shape.n;
  weights.units.k = shape.k;
  weights.row_scale = shape.row_scale;
  return weights;
}

void require_plans(const Schedules& schedules, const ListPlans& plans, std::string_view what) {
  for (const LinearSchedules& layer : schedules.layers()) {
    const auto known = plans(weights_of(layer.shape), layer.shape.inputs);
    for (const ManyTokens& each : layer.many) {
      core::require(
          !each.plan || std::any_of(known.begin(), known.end(),
                                    [&](const auto& plan) { return same_plan(plan, *each.plan); }),
          core::ErrorKind::kInvalidModel, "{}: {}, {} tokens: there is no kernel for '{}'", what,
          to_string(layer.shape), each.tokens, each.plan ? to_string(*each.plan) : "");
    }
  }
}

}  // namespace nibble::ops::cuda
