#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "engine/runner.h"

namespace nibble::engine::testing {

/// A runner whose KV cache holds the tokens themselves and whose logits are a function of all
/// tokens of a sequence as they are read back from its pages: a page that is lost, shared wrongly
/// or written by another gives other tokens.
class PageReadingRunner final : public Runner {
 public:
  explicit PageReadingRunner(std::int64_t vocabulary) : vocabulary_(vocabulary) {}

  /// Called before each step with its slices; may throw.
  std::function<void(std::span<const Slice>)> on_step;
  /// Slices of so many tokens give NaN.
  std::size_t nan_after = 0;
  /// Whether it says so; its rows are, in any case.
  bool independent = true;
  /// Whether tokens of prompts leave in their pages what others leave.
  bool alike = true;

  void make_pages(std::int64_t count) override {
    memory_.assign(static_cast<std::size_t>(count * ops::kPageTokens), -1);
  }
  std::int64_t pages() const override { return std::ssize(memory_) / ops::kPageTokens; }
  std::int64_t page_bytes() const override { return 64; }
  std::int64_t room_for_pages() const override { return 1000; }
  bool rows_are_independent() const override { return independent; }
  bool prompts_are_alike() const override { return alike; }

  LogitsView forward(std::span<const Slice> slices) override {
    if (on_step) {
      on_step(slices);
    }
    for (const Slice& slice : slices) {
      for (std::int64_t i = 0; i < std::ssize(slice.tokens); ++i) {
        at(slice, slice.position + i) = slice.tokens[static_cast<std::size_t>(i)] +
                                        (!alike && i < slice.prompt_tokens ? kOfPrompt : 0);
      }
    }
    values_.clear();
    rows_ = 0;
    for (const Slice& slice : slices) {
      for (std::int64_t i = slice.logits; i > 0; --i) {
        append_row(slice, slice.position + std::ssize(slice.tokens) - i);
        if (slice.tokens.size() == nan_after) {
          values_.back() = std::nanf("");
        }
      }
    }
    return {values_, rows_, vocabulary_};
  }

  std::vector<float> hidden_sum(const Slice& slice) override {
    return std::vector<float>(4, static_cast<float>(slice.tokens.size()));
  }
  void score_texts(std::span<const ScoredText>, const ConsumeLogits&) override {
    throw std::logic_error("not for scoring");
  }
  core::ThreadPool& pool() override { return pool_; }
  DeviceLimits measure_limits() override { return {}; }
  std::int64_t bytes_per_token() const override { return 0; }
  std::int64_t peak_bytes() const override { return 0; }

 private:
  static constexpr std::int32_t kOfPrompt = 1 << 20;

  std::int32_t& at(const Slice& slice, std::int64_t position) {
    const ops::PageId page = slice.pages[static_cast<std::size_t>(position / ops::kPageTokens)];
    return memory_.at(
        static_cast<std::size_t>(page * ops::kPageTokens + position % ops::kPageTokens));
  }

  // A few tokens are likely, which ones depends on everything before; small repeated texts come up
  // often enough for drafts to be right now and then.
  void append_row(const Slice& slice, std::int64_t position) {
    std::uint64_t all = 17;
    for (std::int64_t i = 0; i <= position; ++i) {
      all = (all ^ static_cast<std::uint32_t>(at(slice, i))) * 0x9e3779b97f4a7c15ull;
      all ^= all >> 31;
    }
    const std::uint64_t last = static_cast<std::uint32_t>(at(slice, position));
    const std::uint64_t top = all % 8 < 5 ? last * 7 + 3 : all >> 8;
    const std::size_t first = values_.size();
    values_.resize(first + static_cast<std::size_t>(vocabulary_), 0.0f);
    const auto size = static_cast<std::uint64_t>(vocabulary_);
    values_[first + top % size] = 6.0f;
    values_[first + (all >> 16) % size] += 4.0f;
    values_[first + (all >> 32) % size] += 3.5f;
    ++rows_;
  }

  std::int64_t vocabulary_;
  std::vector<std::int32_t> memory_;
  std::vector<float> values_;
  std::int64_t rows_ = 0;
  core::ThreadPool pool_{1};
};

}  // namespace nibble::engine::testing
