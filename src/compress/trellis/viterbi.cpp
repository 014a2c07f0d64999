#include "compress/trellis/viterbi.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "core/error.h"
#include "formats/trellis/trellis_code.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kAround = 40;  // weights on each side of where a circle is closed
// Targets beyond it are taken as it: the errors of the others would drown in their squares.
constexpr float kFarthestTarget = 1024;

Trellis make_trellis(int bits) {
  Trellis trellis{bits, formats::kTrellisStateBits, {}};
  trellis.values.resize(trellis.states());
  for (std::uint32_t state = 0; state < trellis.states(); ++state) {
    trellis.values[state] = formats::trellis_value(static_cast<std::uint16_t>(state));
  }
  return trellis;
}

/// Plain loops over the states.
class FloatCosts final : public PathCosts {
 public:
  explicit FloatCosts(const Trellis& trellis)
      : trellis_(trellis),
        groups_(trellis.states() >> trellis.bits),
        costs_(trellis.states()),
        best_(groups_) {}

  void begin(float target, std::int64_t allowed) override {
    const float near = std::clamp(target, -kFarthestTarget, kFarthestTarget);
    for (std::uint32_t state = 0; state < trellis_.states(); ++state) {
      const bool open = allowed < 0 || state >> trellis_.bits == allowed;
      costs_[state] = open ? error_of(state, near) : std::numeric_limits<float>::infinity();
    }
  }

  void step(float target, std::uint8_t* came_from) override {
    std::copy_n(costs_.begin(), groups_, best_.begin());
    std::fill_n(came_from, groups_, std::uint8_t{0});
    for (std::uint32_t upper = 1; upper < std::uint32_t{1} << trellis_.bits; ++upper) {
      const float* const costs = costs_.data() + std::size_t{upper} * groups_;
      for (std::uint32_t group = 0; group < groups_; ++group) {
        const bool better = costs[group] < best_[group];
        best_[group] = better ? costs[group] : best_[group];
        came_from[group] = better ? static_cast<std::uint8_t>(upper) : came_from[group];
      }
    }
    const float near = std::clamp(target, -kFarthestTarget, kFarthestTarget);
    for (std::uint32_t state = 0; state < trellis_.states(); ++state) {
      costs_[state] = best_[state >> trellis_.bits] + error_of(state, near);
    }
  }

  std::uint32_t best(std::int64_t allowed) const override {
    const std::uint32_t stride = allowed < 0 ? 1 : groups_;
    std::uint32_t best = allowed < 0 ? 0 : static_cast<std::uint32_t>(allowed);
    for (std::uint32_t state = best; state < trellis_.states(); state += stride) {
      best = costs_[state] < costs_[best] ? state : best;
    }
    return best;
  }

 private:
  float error_of(std::uint32_t state, float target) const {
    const float error = target - static_cast<float>(trellis_.values[state]);
    return error * error;
  }

  const Trellis& trellis_;
  std::uint32_t groups_;  // states that differ in their upper bits alone
  std::vector<float> costs_;
  std::vector<float> best_;
};

}  // namespace

const Trellis& code_trellis(int bits) {
  static const std::array<Trellis, 3> trellises = {make_trellis(2), make_trellis(3),
                                                   make_trellis(4)};
  core::require(bits >= 2 && bits <= 4, core::ErrorKind::kFailed, "trellis codes of {} bits", bits);
  return trellises[static_cast<std::size_t>(bits - 2)];
}

std::unique_ptr<PathCosts> float_costs(const Trellis& trellis) {
  return std::make_unique<FloatCosts>(trellis);
}

std::unique_ptr<PathCosts> fastest_costs(const Trellis& trellis) {
  auto fast = avx512_costs(trellis);
  return fast ? std::move(fast) : float_costs(trellis);
}

Viterbi::Viterbi(const Trellis& trellis, std::int64_t weights, std::unique_ptr<PathCosts> costs)
    : trellis_(trellis),
      costs_(std::move(costs)),
      came_from_(static_cast<std::size_t>(weights) * (trellis.states() >> trellis.bits)) {}

void Viterbi::encode_closed(std::span<const float> targets, std::int64_t overlap,
                            std::span<std::uint16_t> states) {
  const std::size_t groups = trellis_.states() >> trellis_.bits;
  const int kept = trellis_.state_bits - trellis_.bits;
  const std::size_t count = targets.size();
  // From the last weight to the first. Its upper bits are the lower ones of the first weight's.
  costs_->begin(targets[count - 1], overlap);
  for (std::size_t i = count - 1; i-- > 0;) {
    costs_->step(targets[i], came_from_.data() + i * groups);
  }
  std::uint32_t state = costs_->best(overlap);
  states[0] = static_cast<std::uint16_t>(state);
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::uint32_t group = state >> trellis_.bits;
    state = std::uint32_t{came_from_[i * groups + group]} << kept | group;
    states[i + 1] = static_cast<std::uint16_t>(state);
  }
}

void Viterbi::encode(std::span<const float> targets, std::span<std::uint16_t> states) {
  const auto count = static_cast<std::int64_t>(targets.size());
  const std::int64_t around = std::min(kAround, count / 2);
  around_.assign(targets.end() - around, targets.end());
  around_.insert(around_.end(), targets.begin(), targets.begin() + around);
  around_states_.resize(around_.size());
  encode_closed(around_, -1, around_states_);
  // The bits that the last weight shares with the first.
  const std::uint32_t last = around_states_[static_cast<std::size_t>(around - 1)];
  encode_closed(targets, last >> trellis_.bits, states);
}

}  // namespace nibble::compress
