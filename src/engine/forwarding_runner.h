#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/runner.h"

namespace nibble::engine {

/// A runner that another one works for: an engine owns it, and the model stays ready when the
/// engine goes.
class ForwardingRunner : public Runner {
 public:
  explicit ForwardingRunner(std::shared_ptr<Runner> runner) : runner_(std::move(runner)) {}

  void make_pages(std::int64_t count) override { runner_->make_pages(count); }
  std::int64_t pages() const override { return runner_->pages(); }
  std::int64_t page_bytes() const override { return runner_->page_bytes(); }
  std::int64_t room_for_pages() const override { return runner_->room_for_pages(); }
  bool rows_are_independent() const override { return runner_->rows_are_independent(); }
  bool prompts_are_alike() const override { return runner_->prompts_are_alike(); }
  std::int64_t prefill_rows() const override { return runner_->prefill_rows(); }
  LogitsView forward(std::span<const Slice> slices) override { return runner_->forward(slices); }
  void forward_ranked(std::span<const Slice> slices, std::int64_t count,
                      std::vector<ops::RankedToken>& ranked) override {
    runner_->forward_ranked(slices, count, ranked);
  }
  SwappedPages* make_swap_space(std::optional<std::int64_t> bytes) override {
    return runner_->make_swap_space(bytes);
  }
  StepsAhead* ahead() override { return runner_->ahead(); }
  std::vector<float> hidden_sum(const Slice& slice) override { return runner_->hidden_sum(slice); }
  void score_texts(std::span<const ScoredText> texts, const ConsumeLogits& consume) override {
    runner_->score_texts(texts, consume);
  }
  core::ThreadPool& pool() override { return runner_->pool(); }
  DeviceLimits measure_limits() override { return runner_->measure_limits(); }
  std::int64_t bytes_per_token() const override { return runner_->bytes_per_token(); }
  std::int64_t peak_bytes() const override { return runner_->peak_bytes(); }

 private:
  std::shared_ptr<Runner> runner_;
};

}  // namespace nibble::engine
