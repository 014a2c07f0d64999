#include "tune/window_batches.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/random.h"

namespace nibble::tune {
namespace {

constexpr std::int64_t kJudgeShare = 16;

}  // namespace

WindowBatches::WindowBatches(const compress::CalibrationWindows& windows, std::int64_t batch)
    : windows_(windows), batch_(batch) {
  const std::int64_t count = std::ssize(windows);
  core::require(count >= 2, core::ErrorKind::kUsage,
                "tuning needs two windows of text, one to learn from and one to judge by; there is "
                "{}: take a longer --calib text or a shorter --seq-len",
                count);
  window_tokens_ = std::ssize(windows.front());
  learned_ = count - std::max<std::int64_t>(1, count / kJudgeShare);
}

std::int64_t WindowBatches::steps() const {
  return (learned_ + batch_ - 1) / batch_;
}

std::vector<std::vector<std::int64_t>> WindowBatches::batches(
    const std::vector<std::int64_t>& windows) const {
  std::vector<std::vector<std::int64_t>> result;
  for (std::size_t begin = 0; begin < windows.size(); begin += static_cast<std::size_t>(batch_)) {
    const std::size_t end = std::min(windows.size(), begin + static_cast<std::size_t>(batch_));
    result.emplace_back(windows.begin() + static_cast<std::ptrdiff_t>(begin),
                        windows.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return result;
}

std::vector<std::vector<std::int64_t>> WindowBatches::epoch(std::int64_t epoch,
                                                            std::uint64_t seed) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(learned_));
  std::iota(order.begin(), order.end(), 0);
  core::Random random(seed * 1000003 + static_cast<std::uint64_t>(epoch));
  for (std::int64_t i = learned_ - 1; i > 0; --i) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(random.below(i + 1))]);
  }
  return batches(order);
}

std::vector<std::vector<std::int64_t>> WindowBatches::judges() const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(std::ssize(windows_) - learned_));
  std::iota(order.begin(), order.end(), learned_);
  return batches(order);
}

compress::CalibrationPack WindowBatches::pack(std::span<const std::int64_t> windows) const {
  compress::CalibrationPack pack;
  for (const std::int64_t window : windows) {
    const auto& tokens = windows_[static_cast<std::size_t>(window)];
    pack.tokens.insert(pack.tokens.end(), tokens.begin(), tokens.end());
    pack.lengths.push_back(std::ssize(tokens));
  }
  return pack;
}

std::vector<std::int32_t> WindowBatches::labels(const compress::CalibrationPack& pack) {
  std::vector<std::int32_t> labels(pack.tokens.begin() + 1, pack.tokens.end());
  labels.push_back(-1);
  std::int64_t end = 0;
  for (const std::int64_t length : pack.lengths) {
    end += length;
    labels[static_cast<std::size_t>(end - 1)] = -1;
  }
  return labels;
}

ops::cpu::Matrix stacked(const compress::WindowStore& store, std::span<const std::int64_t> windows,
                         ops::cpu::CpuOps& ops) {
  ops::cpu::Matrix all;
  std::int64_t row = 0;
  for (const std::int64_t window : windows) {
    const ops::cpu::Matrix one = store.read(static_cast<std::size_t>(window), ops);
    if (all.empty()) {
      all = ops.matrix(one.rows() * std::ssize(windows), one.columns());
    }
    std::copy_n(one.data(), one.rows() * one.columns(), all.row(row));
    row += one.rows();
  }
  return all;
}

}  // namespace nibble::tune
