#include "ops/cuda/schedules/choose_schedules.h"

#include <algorithm>
#include <limits>

#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::ops::cuda {
namespace {

constexpr double kLeastGain = 1.02;  // less is noise
constexpr std::int64_t kMostFewLaunches = 4;

// Seconds of each candidate (first index) with each number of tokens.
using Times = std::vector<std::vector<double>>;

// The sums of a candidate's times, each relative to the fastest of all with as many tokens.
std::vector<double> relative_sums(const Times& times) {
  std::vector<double> sums(times.size(), 0.0);
  for (std::size_t m = 0; m < times.front().size(); ++m) {
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& of_candidate : times) {
      fastest = std::min(fastest, of_candidate[m]);
    }
    for (std::size_t i = 0; i < times.size(); ++i) {
      sums[i] += times[i][m] / fastest;
    }
  }
  return sums;
}

// The index of the smallest, or `built_in` where that is nearly as small.
std::size_t choice_of(const std::vector<double>& costs, std::size_t built_in) {
  const auto best = std::min_element(costs.begin(), costs.end());
  return costs[built_in] < *best * kLeastGain ? built_in
                                              : static_cast<std::size_t>(best - costs.begin());
}

std::vector<GemmPlan> plans_of(const LinearShape& shape) {
  const PlannedProduct* product = planned_product(shape);
  return product != nullptr ? product->plans(shape) : std::vector<GemmPlan>();
}

class Chooser {
 public:
  Chooser(const LinearShape& shape, const LinearCandidates& candidates, const LinearTimer& timer)
      : shape_(shape),
        candidates_(candidates),
        timer_(timer),
        few_(max_small_batch(shape.format, shape.digits())) {
    chosen_.schedules.shape = shape;
  }

  ChosenSchedules choose(std::span<const std::int64_t> tokens) {
    std::vector<std::int64_t> few;
    std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(few),
                 [&](std::int64_t m) { return m <= few_ && !is_medium(m); });
    if (!few.empty()) {
      choose_few(few);
    }
    for (const std::int64_t m : tokens) {
      if (is_medium(m)) {
        choose_medium(m);
      } else if (m > few_ && m >= candidates_.fewest_planned && !candidates_.plans.empty()) {
        choose_many(m);
      }
    }
    return std::move(chosen_);
  }

 private:
  bool is_medium(std::int64_t m) const {
    return !candidates_.medium.empty() && shape_.is_medium(m);
  }

  void choose_few(const std::vector<std::int64_t>& tokens) {
    std::vector<SmallBatchSchedule> schedules = {candidates_.built_in_few};
    std::copy_if(candidates_.few.begin(), candidates_.few.end(), std::back_inserter(schedules),
                 [&](const auto& each) { return !same_fields(each, candidates_.built_in_few); });
    Times times;
    for (const SmallBatchSchedule& schedule : schedules) {
      times.emplace_back();
      for (const std::int64_t m : tokens) {
        times.back().push_back(timer_.few_tokens(m, schedule));
      }
    }
    const std::size_t best = choice_of(relative_sums(times), 0);
    chosen_.schedules.few = schedules[best];
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      chosen_.schedules.few_microseconds.emplace_back(tokens[i], times[best][i] * 1e6);
      chosen_.choices.push_back({tokens[i], to_string(schedules[best]), to_string(schedules[0]),
                                 times[best][i], times[0][i]});
    }
  }

  void choose_medium(std::int64_t m) {
    const std::vector<MediumBatchSchedule>& schedules = candidates_.medium;
    std::vector<double> times;
    for (const MediumBatchSchedule& schedule : schedules) {
      times.push_back(timer_.medium(m, schedule));
    }
    const std::size_t best = choice_of(times, 0);
    chosen_.schedules.medium.push_back({m * shape_.digits(), schedules[best], times[best] * 1e6});
    chosen_.choices.push_back(
        {m, to_string(schedules[best]), to_string(schedules[0]), times[best], times[0]});
  }

  void choose_many(std::int64_t m) {
    const GemmPlan built_in = candidates_.built_in_plan(m);
    std::vector<std::optional<GemmPlan>> plans = {built_in};
    for (const GemmPlan& plan : candidates_.plans) {
      if (plan.wgmma == built_in.wgmma && !same_fields(plan, built_in)) {
        plans.emplace_back(plan);
      }
    }
    if (m <= kMostFewLaunches * few_) {
      plans.emplace_back(std::nullopt);
    }
    const SmallBatchSchedule few = chosen_.schedules.few.value_or(candidates_.built_in_few);
    std::vector<double> times;
    for (const auto& plan : plans) {
      times.push_back(plan ? timer_.gemm(m, *plan) : timer_.few_tokens(m, few));
    }
    const std::size_t best = choice_of(times, 0);
    chosen_.schedules.many.push_back({m, plans[best], times[best] * 1e6});
    chosen_.choices.push_back({m, plans[best] ? to_string(*plans[best]) : to_string(few),
                               to_string(built_in), times[best], times[0]});
  }

  const LinearShape& shape_;
  const LinearCandidates& candidates_;
  const LinearTimer& timer_;
  std::int64_t few_;
  ChosenSchedules chosen_;
};

}  // namespace

std::vector<SmallBatchSchedule> few_token_candidates(const LinearShape& shape,
                                                     int multiprocessors) {
  const std::int64_t tiles = (shape.n + kTileRows - 1) / kTileRows;
  const std::int64_t most = std::min<std::int64_t>(multiprocessors, tiles);
  const std::int64_t rounds = (tiles + most - 1) / most;
  std::vector<std::int64_t> blocks = {most, (tiles + rounds - 1) / rounds,
                                      std::min<std::int64_t>(2 * most, tiles)};
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  const CodeKind codes = shape.format.codes;
  std::vector<SmallBatchSchedule> schedules;
  for (const std::int64_t count : blocks) {
    for (const int warps : {4, 6, 8, 12, 16}) {
      for (const int stages : {2, 3, 4, 6}) {
        if (warps > small_batch_max_warps(codes) || (stages > 4 && !has_planes(codes))) {
          continue;
        }
        schedules.push_back({warps, stages, static_cast<int>(count)});
      }
    }
  }
  return schedules;
}

std::vector<MediumBatchSchedule> medium_candidates(const LinearShape& shape, int multiprocessors) {
  if (!has_medium_batch(shape.format)) {
    return {};
  }
  const int tiles = static_cast<int>((shape.n + kTileRows - 1) / kTileRows);
  std::vector<MediumBatchSchedule> schedules = {
      medium_batch_schedule(weights_of(shape).units, multiprocessors)};
  for (MediumBatchSchedule each : medium_batch_schedules(multiprocessors)) {
    each.blocks = std::min(each.blocks, tiles * each.cluster);  // a tile for each cluster
    if (!same_fields(each, schedules.front())) {
      schedules.push_back(each);
    }
  }
  return schedules;
}

KernelLists kernel_lists(int multiprocessors) {
  return {plans_of, [multiprocessors](const LinearShape& shape) {
            return medium_candidates(shape, multiprocessors);
          }};
}

LinearCandidates linear_candidates(const LinearShape& shape, int multiprocessors) {
  const GemmWeights weights = weights_of(shape);
  LinearCandidates candidates;
  candidates.built_in_few = small_batch_schedule(weights.units, multiprocessors);
  candidates.few = few_token_candidates(shape, multiprocessors);
  candidates.medium = medium_candidates(shape, multiprocessors);
  candidates.built_in_plan = [weights, inputs = shape.inputs](std::int64_t m) {
    return plan_gemm(weights, inputs, static_cast<int>(m));
  };
  if (const PlannedProduct* product = planned_product(shape)) {
    candidates.plans = product->plans(shape);
    candidates.fewest_planned = product->fewest_tokens(shape);
  }
  return candidates;
}

ChosenSchedules choose_schedules(const LinearShape& shape, std::span<const std::int64_t> tokens,
                                 const LinearCandidates& candidates, const LinearTimer& timer) {
  return Chooser(shape, candidates, timer).choose(tokens);
}

}  // namespace nibble::ops::cuda
