#pragma once

#include <cstdint>

#include "ops/cpu/packed/amx_tiles.h"
#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// What becomes of the sums that C tiles leave in memory (amx_kernel.h). The sums of one group wait
/// there until the next group is multiplied; meanwhile they are scaled and added to totals. Those
/// of a whole row stay in memory between the panels, and wait when they are complete.
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kAmxStepTokens = 2 * kAmxTokens;
constexpr std::int64_t kAmxBlockTokens = 512;  // tokens of a block, at most
// Outputs of so many bytes are written past all caches, which spares reading their lines first.
constexpr std::int64_t kPastCachesBytes = 1 << 20;

/// Where results go: y [tokens][n], rows ldy apart.
template <class Isa, int V>
class AmxOutput {
 public:
  AmxOutput(const TiledWeight& w, const TiledInput& x, float* y, std::int64_t ldy)
      : w_(w), y_(y), ldy_(ldy) {
    constexpr std::uintptr_t kRowBytes = kLineBytes;
    const auto aligned = reinterpret_cast<std::uintptr_t>(y) | static_cast<std::uintptr_t>(ldy) * 4;
    past_caches_ = x.m * ldy * 4 >= kPastCachesBytes && aligned % kRowBytes == 0;
  }

  bool past_caches() const { return past_caches_; }

  /// y[token, rows of the tile] = total * unit, and their bias.
  NIBBLE_INLINE void write(const Block<Isa, V>& block, std::int64_t tile, std::int64_t token, int v,
                           typename Isa::Float total) const {
    const std::int64_t row = (tile + v) * kTileRows;
    float* to = y_ + token * ldy_ + row;
    if (past_caches_ && w_.n - row >= kTileRows) {
      const typename Isa::Float result = Isa::mul(total, Isa::load_floats(block.at[v].units));
      Isa::store_past_caches(to,
                             w_.bias == nullptr ? result : Isa::add_floats(result, w_.bias + row));
    } else {
      store<Isa>(w_, row, total, block.at[v].units, to);
    }
  }

 private:
  const TiledWeight& w_;
  float* y_;
  std::int64_t ldy_;
  bool past_caches_ = false;
};

/// Some tokens of V tiles whose sums wait.
template <class Isa, int V>
struct AmxWaiting {
  const Block<Isa, V>* block = nullptr;
  std::int64_t tile = 0;
  std::int64_t token = 0;
  std::int64_t tokens = 0;  // 0: nothing waits
  std::int64_t group = 0;
};

/// What both kinds of sums know of the work: tokens from `first` on, V tiles at a time.
template <class Isa, int V>
class AmxSums {
 public:
  /// What comes next belongs to these tiles.
  void begin(std::int64_t tile) {
    turn_ ^= 1;
    tile_ = tile;
    blocks_[turn_] = Block<Isa, V>(w_, tile);
  }

 protected:
  AmxSums(const TiledWeight& w, const TiledInput& x, const AmxOutput<Isa, V>& output,
          std::int64_t first, std::int64_t tile)
      : w_(w), x_(x), output_(output), first_(first), blocks_{{w, tile}, {w, tile}} {}

  void wait_for(std::int64_t token, std::int64_t tokens, std::int64_t group) {
    waiting_ = {&blocks_[turn_], tile_, token, tokens, group};
  }

  const TiledWeight& w_;
  const TiledInput& x_;
  AmxOutput<Isa, V> output_;
  std::int64_t first_;
  AmxWaiting<Isa, V> waiting_;

 private:
  Block<Isa, V> blocks_[2];  // of the tiles at work, and of those that may wait
  int turn_ = 0;
  std::int64_t tile_ = 0;
};

/// Sums that are scaled group by group. `InBlocks`: as TiledWeight::in_blocks().
template <class Isa, int V, bool Signed, bool InBlocks>
class GroupSums : public AmxSums<Isa, V> {
  using Base = AmxSums<Isa, V>;
  static constexpr std::int64_t kRow = V * kTileRows;
  using Float = typename Isa::Float;
  using Int = typename Isa::Int;

 public:
  /// Of tokens [first, first + count).
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): some totals are never read
  GroupSums(const TiledWeight& w, const TiledInput& x, const AmxOutput<Isa, V>& output,
            std::int64_t first, std::int64_t count, std::int64_t tile)
      : Base(w, x, output, first, tile) {
    for (std::int64_t i = 0; i < count * kRow; ++i) {
      totals_[i] = 0.0f;
    }
  }

  /// Where the tiles store the sums of T x 16 tokens, once all before them have been worked off.
  std::int32_t* sums() { return sums_; }
  void wait(std::int64_t token, std::int64_t tokens, std::int64_t group) {
    this->wait_for(token, tokens, group);
  }

  /// The work on what waits, in parts. What it needs for each token stays in registers: no store of
  /// a tile can change it.
  class Work {
   public:
    explicit Work(GroupSums& all)
        : all_(all),
          left_(all.waiting_.tokens),
          groups_(all.x_.groups),
          sums_(all.sums_),
          totals_(all.totals_ + (all.waiting_.token - all.first_) * kRow) {
      const AmxWaiting<Isa, V>& waiting = all.waiting_;
      if (left_ == 0) {
        return;
      }
      a_scales_ = all.x_.scales + waiting.token * groups_ + waiting.group;
      a_sums_ = all.x_.sums + waiting.token * groups_ + waiting.group;
      for (int v = 0; v < V && !InBlocks; ++v) {
        const VectorPlace& at = waiting.block->at[v];
        const std::int64_t group = waiting.group * kTileRows;
        scale_[v] = Isa::load_scales(at.scales + group);
        if constexpr (!Signed) {
          zero_[v] = at.zeros == nullptr ? Isa::negative_zero(all.w_.zero)
                                         : Isa::negative_zeros(at.zeros + group);
        }
      }
    }

    /// The next Count tokens, as far as they exist.
    template <std::int64_t Count>
    NIBBLE_INLINE void add() {
      if constexpr (InBlocks) {
        left_ -= all_.add_block_tokens(left_, Count);
      } else if (left_ >= Count) {
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < Count; ++i) {
          add_token();
        }
        left_ -= Count;
      } else {
        add_all();
      }
    }

    /// All others; and rows are written whose last group this was.
    NIBBLE_INLINE void finish() {
      add_all();
      if (all_.waiting_.tokens != 0 && all_.waiting_.group == all_.w_.groups - 1) {
        all_.write();
      }
    }

   private:
    NIBBLE_INLINE void add_all() {
      if constexpr (InBlocks) {
        left_ -= all_.add_block_tokens(left_, left_);
      } else {
        for (; left_ > 0; --left_) {
          add_token();
        }
      }
    }

    NIBBLE_INLINE void add_token() {
      const Float a_scale = Isa::broadcast(*a_scales_);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        Int sum = Isa::load(sums_ + v * kTileRows);
        if constexpr (!Signed) {
          sum = Isa::add(sum, Isa::multiply_zero(zero_[v], Isa::broadcast(*a_sums_)));
        }
        float* total = totals_ + v * kTileRows;
        Isa::store(total, Isa::fma(Isa::to_float(sum), Isa::mul(scale_[v], a_scale),
                                   Isa::load_floats(total)));
      }
      a_scales_ += groups_;
      a_sums_ += groups_;
      sums_ += kRow;
      totals_ += kRow;
    }

    GroupSums& all_;
    std::int64_t left_;  // tokens
    std::int64_t groups_;
    const float* a_scales_ = nullptr;
    const std::int32_t* a_sums_ = nullptr;
    const std::int32_t* sums_;
    float* totals_;
    Float scale_[V] = {};
    Int zero_[V] = {};
  };

  Work work() {
    return Work(*this);
  }
  void finish() {
    work().finish();
  }

 private:
  /// The next of the `left` last tokens that wait, at most `most`; returns how many they were.
  NIBBLE_NOINLINE std::int64_t add_block_tokens(std::int64_t left, std::int64_t most) {
    const std::int64_t from = waiting_.tokens - left;
    const std::int64_t count = left < most ? left : most;
    for (std::int64_t i = from; i < from + count; ++i) {
      const Tokens at = tokens_at(x_, waiting_.token + i, 0, w_.group_inputs);
      float* totals = totals_ + (waiting_.token - first_ + i) * kRow;
      Int sums[V][1];
      Float total[V][1];
      for (int v = 0; v < V; ++v) {
        sums[v][0] = Isa::load(sums_ + i * kRow + v * kTileRows);
        total[v][0] = Isa::load_floats(totals + v * kTileRows);
      }
      if constexpr (!Signed) {
        add_block_zeros<Isa, V, 1>(w_, *waiting_.block, at, waiting_.group, sums);
      }
      add_block_scaled<Isa, V, 1>(w_, *waiting_.block, at, waiting_.group, sums, total);
      for (int v = 0; v < V; ++v) {
        Isa::store(totals + v * kTileRows, total[v][0]);
      }
    }
    return count;
  }

  /// The tokens that wait are complete; their totals begin anew.
  NIBBLE_NOINLINE void write() {
    for (std::int64_t i = 0; i < waiting_.tokens; ++i) {
      const std::int64_t token = waiting_.token + i;
      for (int v = 0; v < V; ++v) {
        float* total = totals_ + (token - first_) * kRow + v * kTileRows;
        output_.write(*waiting_.block, waiting_.tile, token, v, Isa::load_floats(total));
        Isa::store(total, Isa::zero());
      }
    }
  }

  using Base::first_;
  using Base::output_;
  using Base::w_;
  using Base::waiting_;
  using Base::x_;

  alignas(64) std::int32_t sums_[kAmxStepTokens * kRow];  // [tokens][V * 16 rows]
  alignas(64) float totals_[kAmxBlockTokens * kRow];      // the same of all tokens of the block
};

/// Sums of whole rows (TiledWeight::sums_whole_rows): nothing is scaled before they are complete.
template <class Isa, int V, bool Signed>
class RowSums : public AmxSums<Isa, V> {
  using Base = AmxSums<Isa, V>;
  static constexpr std::int64_t kRow = V * kTileRows;

 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): tiles store sums before all reads
  RowSums(const TiledWeight& w, const TiledInput& x, const AmxOutput<Isa, V>& output,
          std::int64_t first, std::int64_t, std::int64_t tile)
      : Base(w, x, output, first, tile) {}

  /// Where the sums of T x 16 tokens from `token` on stay between panels.
  std::int32_t* sums(std::int64_t token) { return sums_ + (token - first_) * kRow; }
  /// Those of these tokens are complete.
  void wait(std::int64_t token, std::int64_t tokens) { this->wait_for(token, tokens, 0); }

  struct Work {
    RowSums& all;
    NIBBLE_INLINE void finish() { all.finish(); }
  };
  Work work() { return {*this}; }

  /// Writes what waits.
  NIBBLE_INLINE void finish() {
    if (waiting_.tokens != 0) {
      write();
      waiting_.tokens = 0;
    }
  }

 private:
  NIBBLE_NOINLINE void write() {
    using Int = typename Isa::Int;
    const Block<Isa, V>& block = *waiting_.block;
    for (int v = 0; v < V; ++v) {
      const typename Isa::Float scale = Isa::load_scales(block.at[v].scales);
      const Int zero = block.at[v].zeros == nullptr ? Isa::negative_zero(w_.zero)
                                                    : Isa::negative_zeros(block.at[v].zeros);
      for (std::int64_t i = 0; i < waiting_.tokens; ++i) {
        const std::int64_t token = waiting_.token + i;
        Int sum = Isa::load(sums(token) + v * kTileRows);
        if constexpr (!Signed) {
          sum = Isa::add(sum, multiply_zero_of_row<Isa>(zero, x_.sums[token]));
        }
        const typename Isa::Float a_scale = Isa::broadcast(x_.scales[token]);
        output_.write(block, waiting_.tile, token, v,
                      Isa::mul(Isa::to_float(sum), Isa::mul(scale, a_scale)));
      }
    }
  }

  using Base::first_;
  using Base::output_;
  using Base::w_;
  using Base::waiting_;
  using Base::x_;

  alignas(64) std::int32_t sums_[kAmxBlockTokens * kRow];  // [tokens][V * 16 rows]
};

}  // namespace
}  // namespace nibble::ops::cpu
