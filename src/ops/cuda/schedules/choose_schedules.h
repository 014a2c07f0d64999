#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ops/cuda/schedules/schedules.h"

namespace nibble::ops::cuda {

/// Seconds of a layer with m tokens by a schedule. With more tokens than fit one launch, few_tokens
/// times as many launches as they need.
struct LinearTimer {
  std::function<double(std::int64_t m, const SmallBatchSchedule&)> few_tokens;
  std::function<double(std::int64_t m, const MediumBatchSchedule&)> medium;
  std::function<double(std::int64_t m, const GemmPlan&)> gemm;
};

/// What may be taken, the built-in choice among it.
struct LinearCandidates {
  SmallBatchSchedule built_in_few;
  std::vector<SmallBatchSchedule> few;
  std::vector<MediumBatchSchedule> medium;  // the first is built in; none where it has no kernel
  std::function<GemmPlan(std::int64_t m)> built_in_plan;
  std::vector<GemmPlan> plans;      // none: there is nothing to choose for more tokens
  std::int64_t fewest_planned = 1;  // tokens that have one
};

/// Of a layer on the current device.
LinearCandidates linear_candidates(const LinearShape& shape, int multiprocessors);

/// Ways to divide a layer among thread blocks: all multiprocessors, as few of them as need no more
/// rounds, or twice as many blocks; of several sizes and depths.
std::vector<SmallBatchSchedule> few_token_candidates(const LinearShape& shape, int multiprocessors);

/// Of medium_batch.h, of a layer on the current device; the first is built in. None where it has no
/// kernel.
std::vector<MediumBatchSchedule> medium_candidates(const LinearShape& shape, int multiprocessors);

/// All that the current device has.
KernelLists kernel_lists(int multiprocessors);

/// What was chosen for a number of tokens, beside what is built in.
struct ScheduleChoice {
  std::int64_t tokens = 0;
  std::string chosen;
  std::string built_in;
  double seconds = 0.0;
  double built_in_seconds = 0.0;
};

struct ChosenSchedules {
  LinearSchedules schedules;
  std::vector<ScheduleChoice> choices;
};

/// Times all candidates with numbers of tokens out of kTokenBuckets, and chooses. For few tokens it
/// takes the one schedule whose times relative to the fastest of each number have the smallest sum;
/// for those of medium_batch.h the fastest; for more, the fastest plan that has the instructions of
/// the built-in one (warpgroup products or those of warps), or a few launches of the kernel for few
/// tokens. What gains less than 2 % leaves the built-in choice.
ChosenSchedules choose_schedules(const LinearShape& shape, std::span<const std::int64_t> tokens,
                                 const LinearCandidates& candidates, const LinearTimer& timer);

}  // namespace nibble::ops::cuda
