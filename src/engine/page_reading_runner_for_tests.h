#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>
#include <vector>

#include "engine/runner.h"
#include "engine/sampler.h"

namespace nibble::engine::testing {

/// A runner whose KV cache holds the tokens themselves and whose logits are a function of all
/// tokens of a sequence as they are read back from its pages: a page that is lost, shared wrongly
/// or written by another gives other tokens.
class PageReadingRunner final : public Runner, private StepsAhead, private SwappedPages {
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
  /// Whether steps can be begun ahead; their results are those of the moment when they are begun.
  bool steps_ahead = false;
  /// Steps that were begun and not finished, and the most that there were at a time.
  std::size_t under_way() const { return results_.size(); }
  std::size_t most_under_way = 0;
  /// Called before a step is finished; may throw.
  std::function<void()> on_finish;

  void make_pages(std::int64_t count) override {
    memory_.assign(static_cast<std::size_t>(count * ops::kPageTokens), -1);
  }
  std::int64_t pages() const override { return std::ssize(memory_) / ops::kPageTokens; }
  std::int64_t page_bytes() const override { return 64; }
  std::int64_t room_for_pages() const override { return 1000; }
  bool rows_are_independent() const override { return independent; }
  bool prompts_are_alike() const override { return alike; }
  SwappedPages* make_swap_space(std::optional<std::int64_t> bytes) override {
    swap_room_ = bytes.value_or(0) / page_bytes();
    return bytes ? this : nullptr;
  }
  std::int64_t swap_room() const { return swap_room_; }  // in pages
  StepsAhead* ahead() override { return steps_ahead ? this : nullptr; }

  LogitsView forward(std::span<const Slice> slices) override {
    if (!results_.empty()) {
      throw std::logic_error("a step before those under way were finished");
    }
    return compute(slices);
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

  LogitsView compute(std::span<const Slice> slices) {
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

  void begin(std::span<const Slice> slices, std::span<const ops::TokenDraw> draws) override {
    if (std::ssize(results_) >= StepsAhead::kMost) {
      throw std::logic_error("too many steps under way");
    }
    std::vector<std::vector<std::int32_t>> tokens;
    std::vector<Slice> known(slices.begin(), slices.end());
    for (Slice& slice : known) {
      tokens.emplace_back(slice.tokens.begin(), slice.tokens.end());
      for (std::int32_t& token : tokens.back()) {
        if (token < 0) {
          token = std::max(0, results_.back().at(static_cast<std::size_t>(-1 - token)).id);
        }
      }
      slice.tokens = tokens.back();
    }
    const LogitsView logits = compute(known);
    if (!draws.empty() && std::ssize(draws) != logits.rows) {
      throw std::logic_error("not a draw for each row");
    }
    std::vector<ops::RankedToken> chosen;
    std::vector<ops::RankedToken> row;
    for (std::int64_t i = 0; i < logits.rows; ++i) {
      if (!rank_numbers(logits.row(i), draws.empty() ? 1 : ops::kMostDrawn, row)) {
        row = {{-1, 0.0f}};
      }
      chosen.push_back(draws.empty()
                           ? row.front()
                           : drawn(logits.row(i), row, draws[static_cast<std::size_t>(i)]));
    }
    results_.push_back(std::move(chosen));
    most_under_way = std::max(most_under_way, results_.size());
  }

  static ops::RankedToken drawn(std::span<const float> row, RankedTokens tokens,
                                const ops::TokenDraw& draw) {
    ops::RowWeights weights;
    if (draw.temperature > 0.0f && draw.top_k == 0 && tokens.front().id >= 0) {
      return {ops::draw_from_row(row, draw, weights), 0.0f};
    }
    return ops::draw_from_ranked(tokens, draw, weights);
  }

  std::optional<Id> swap_out(std::span<const ops::PageId> pages) override {
    if (std::ssize(pages) > swap_room_) {
      return std::nullopt;
    }
    std::vector<std::int32_t> kept;
    for (const ops::PageId page : pages) {
      kept.insert(kept.end(), memory_.begin() + page * ops::kPageTokens,
                  memory_.begin() + (page + 1) * ops::kPageTokens);
    }
    swapped_.emplace(++last_swapped_, std::move(kept));
    swap_room_ -= std::ssize(pages);
    return last_swapped_;
  }

  void swap_in(Id id, std::int64_t first, std::span<const ops::PageId> pages) override {
    auto from = swapped_.at(id).begin() + first * ops::kPageTokens;
    for (const ops::PageId page : pages) {
      std::copy_n(from, ops::kPageTokens, memory_.begin() + page * ops::kPageTokens);
      from += ops::kPageTokens;
    }
  }

  void drop(Id id) override {
    swap_room_ += std::ssize(swapped_.at(id)) / ops::kPageTokens;
    swapped_.erase(id);
  }

  void finish(std::vector<ops::RankedToken>& ranked) override {
    ranked = std::move(results_.front());
    results_.pop_front();
    if (on_finish) {
      on_finish();
    }
  }

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
  std::deque<std::vector<ops::RankedToken>> results_;  // of steps that were not finished
  std::map<Id, std::vector<std::int32_t>> swapped_;
  Id last_swapped_ = 0;
  std::int64_t swap_room_ = 0;
  core::ThreadPool pool_{1};
};

}  // namespace nibble::engine::testing
