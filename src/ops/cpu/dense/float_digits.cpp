#include "ops/cpu/dense/float_digits.h"

#include <algorithm>

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kSplitNumbers = 8192;  // that one worker splits at a time, at least

std::int64_t divide_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit;
}

}  // namespace

void FloatDigits::split(const FloatTiles& tiles, const float* x, std::int64_t m, std::int64_t ldx,
                        std::int64_t k, bool is_f16, core::ThreadPool& pool) {
  x_ = x;
  m_ = m;
  ldx_ = ldx;
  k_ = k;
  is_f16_ = is_f16;
  divide(tiles);
  words_ = scratch_.values<std::uint32_t>(blocks_ * block_groups_ * group_words());
  // A unit of work is one panel of one group.
  const std::int64_t panels = divide_up(steps(), panel_steps(is_f16_));
  const std::int64_t groups = divide_up(m_, columns_);
  const std::int64_t grain =
      divide_up(kSplitNumbers, columns_ * panel_steps(is_f16_) * kStepInputs);
  pool.parallel_for(groups * panels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      tiles.split(panel(unit / panels, unit % panels));
    }
  });
}

void FloatDigits::divide(const FloatTiles& tiles) {
  in_panels_ = m_ > tiles.unpanelled_tokens;
  columns_ = std::min(m_, kGroupTokens);
  const std::int64_t groups = divide_up(m_, columns_);
  blocks_ = divide_up(m_, kBlockTokens);
  block_groups_ = divide_up(groups, blocks_);
  blocks_ = divide_up(groups, block_groups_);
}

TokensToSplit FloatDigits::panel(std::int64_t group, std::int64_t panel) const {
  const std::int64_t block = group / block_groups_;
  TokensToSplit task;
  task.x = x_ + group * columns_ * ldx_;
  task.ldx = ldx_;
  task.tokens = std::min(columns_, m_ - group * columns_);
  task.columns = columns_;
  task.k = k_;
  task.first_step = panel * panel_steps(is_f16_);
  task.steps = std::min(panel_steps(is_f16_), steps() - task.first_step);
  const std::int64_t before =
      task.first_step * groups_of(block) + group % block_groups_ * task.steps;
  task.digits = words_ + block * block_groups_ * group_words() + before * step_words();
  return task;
}

std::int64_t FloatDigits::steps() const {
  return divide_up(k_, kStepInputs);
}

std::int64_t FloatDigits::step_words() const {
  return kInputDigits * kStepPairs * columns_;
}

std::int64_t FloatDigits::tokens_of(std::int64_t block) const {
  return std::min(block_groups_ * columns_, m_ - first_token(block));
}

std::int64_t FloatDigits::groups_of(std::int64_t block) const {
  return divide_up(tokens_of(block), columns_);
}

}  // namespace nibble::ops::cpu
