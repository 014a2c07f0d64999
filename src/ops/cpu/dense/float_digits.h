#pragma once

#include <cstdint>

#include "core/threads.h"
#include "ops/cpu/dense/float_tiles.h"
#include "ops/cpu/vector/scratch.h"

namespace nibble::ops::cpu {

/// Rows of an activation as digits (float_tiles.h), for layers whose weights have one type. A
/// buffer to be reused: it grows and never shrinks.
class FloatDigits {
 public:
  static constexpr std::int64_t kBlockTokens = 256;  // whose panel fills 3/4 MiB of the L2 cache
  static constexpr std::int64_t kMostTokens = 2 * kBlockTokens;  // that exist as digits at a time

  /// Splits x [m, k], rows ldx apart, 1 <= m <= kMostTokens, which must live as long as the digits
  /// are used.
  void split(const FloatTiles& tiles, const float* x, std::int64_t m, std::int64_t ldx,
             std::int64_t k, bool is_f16, core::ThreadPool& pool);

  const float* x() const { return x_; }
  std::int64_t m() const { return m_; }
  std::int64_t ldx() const { return ldx_; }
  std::int64_t k() const { return k_; }
  bool is_f16() const { return is_f16_; }

  /// Steps that hold k inputs.
  std::int64_t steps() const;
  bool in_panels() const { return in_panels_; }  // the weights
  std::int64_t columns() const { return columns_; }
  std::int64_t groups_of(std::int64_t block) const;
  std::int64_t blocks() const { return blocks_; }
  std::int64_t first_token(std::int64_t block) const { return block * block_groups_ * columns_; }
  std::int64_t tokens_of(std::int64_t block) const;
  /// As FloatTileTask::digits.
  const std::uint32_t* block(std::int64_t block) const {
    return words_ + block * block_groups_ * group_words();
  }

 private:
  void divide(const FloatTiles& tiles);
  std::int64_t step_words() const;
  std::int64_t group_words() const { return steps() * step_words(); }
  TokensToSplit panel(std::int64_t group, std::int64_t panel) const;

  const float* x_ = nullptr;
  std::int64_t m_ = 0;
  std::int64_t ldx_ = 0;
  std::int64_t k_ = 0;
  bool is_f16_ = false;

  bool in_panels_ = true;
  std::int64_t columns_ = 0;  // of a group
  std::int64_t blocks_ = 0;
  std::int64_t block_groups_ = 0;  // of every block but the last
  Scratch scratch_;
  std::uint32_t* words_ = nullptr;
};

}  // namespace nibble::ops::cpu
