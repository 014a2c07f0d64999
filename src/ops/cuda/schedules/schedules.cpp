#include "ops/cuda/schedules/schedules.h"

#include <algorithm>

#include "core/error.h"
#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::ops::cuda {
namespace {

std::int64_t pieces(std::int64_t m, std::int64_t each) {
  return (m + each - 1) / each;
}

// Takes over an item in the place of the one that has the same `key`.
template <typename Item>
void replace(std::vector<Item>& items, const Item& item, std::int64_t Item::*key) {
  std::erase_if(items, [&](const Item& old) { return old.*key == item.*key; });
  items.push_back(item);
}

template <typename Schedule>
void require_listed(const Schedule& schedule, const std::vector<Schedule>& listed,
                    std::string_view what, const LinearShape& shape, std::int64_t tokens) {
  core::require(std::any_of(listed.begin(), listed.end(),
                            [&](const Schedule& each) { return same_fields(each, schedule); }),
                core::ErrorKind::kInvalidModel, "{}: {}, {} tokens: there is no kernel for '{}'",
                what, core::lazily([&] { return to_string(shape); }), tokens,
                core::lazily([&] { return to_string(schedule); }));
}

}  // namespace

std::size_t bucket_of(std::int64_t m) {
  const auto* at = std::lower_bound(kTokenBuckets.begin(), kTokenBuckets.end() - 1, m);
  return static_cast<std::size_t>(at - kTokenBuckets.begin());
}

std::size_t medium_index(std::int64_t columns) {
  return columns <= kMediumColumns[0] ? 0 : columns <= kMediumColumns[1] ? 1 : 2;
}

ScheduleOrigin origin_of(const device::CudaDevice& device) {
  return {device.name, device.multiprocessors, device.driver};
}

bool ManyTokens::serves(std::int64_t m, std::int64_t few) const {
  const std::int64_t each = plan ? plan->token_tile : few;
  return m > tokens || pieces(m, each) == pieces(tokens, each);
}

std::optional<double> LinearSchedules::microseconds(std::int64_t tokens) const {
  for (const auto& [measured, time] : few_microseconds) {
    if (measured == tokens) {
      return time;
    }
  }
  for (const MediumTokens& each : medium) {
    if (each.columns == tokens * shape.digits()) {
      return each.microseconds;
    }
  }
  for (const ManyTokens& each : many) {
    if (each.tokens == tokens) {
      return each.microseconds;
    }
  }
  return std::nullopt;
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
  for (const MediumTokens& each : measured.medium) {
    replace(at->medium, each, &MediumTokens::columns);
  }
  for (const ManyTokens& each : measured.many) {
    replace(at->many, each, &ManyTokens::tokens);
  }
  at->date = measured.date;
}

void require_origin(const Schedules& schedules, const ScheduleOrigin& here, std::string_view what) {
  const ScheduleOrigin& there = schedules.origin();
  const auto words = [](const ScheduleOrigin& origin) {
    return fmt::format("{} with {} multiprocessors, driver {}, kernels {}",
                       core::printable(origin.gpu), origin.multiprocessors, origin.driver,
                       origin.kernels);
  };
  core::require(there == here, core::ErrorKind::kUsage,
                "{}: measured on {}; this is {}; run nibble tune-kernels here", what,
                core::lazily([&] { return words(there); }),
                core::lazily([&] { return words(here); }));
}

GemmWeights weights_of(const LinearShape& shape) {
  GemmWeights weights;
  weights.units.format = shape.format;
  weights.units.n = shape.n;
  weights.units.k = shape.k;
  weights.row_scale = shape.row_scale;
  return weights;
}

void require_kernels(const Schedules& schedules, const KernelLists& lists, std::string_view what) {
  for (const LinearSchedules& layer : schedules.layers()) {
    const LinearShape& shape = layer.shape;
    if (!layer.medium.empty()) {
      const auto listed = lists.medium(shape);
      for (const MediumTokens& each : layer.medium) {
        require_listed(each.schedule, listed, what, shape, each.columns / shape.digits());
      }
    }
    const auto listed = lists.plans(shape);
    for (const ManyTokens& each : layer.many) {
      if (each.plan) {
        require_listed(*each.plan, listed, what, shape, each.tokens);
      }
    }
  }
}

}  // namespace nibble::ops::cuda
