#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace nibble::compress {

/// Finds the path through a trellis whose values are nearest to some numbers, by dynamic
/// programming over all states (Viterbi). The trellis is that of formats/trellis/trellis_code.h:
/// the state of weight i is 16 bits from bit i * bits on of a circle, so from the last weight to
/// the first a state is s' = (s << bits | new) mod 2^16.
///
/// A Trellis may have fewer bits of state and other values, for tests.
struct Trellis {
  int bits = 0;                     // new ones for each weight
  int state_bits = 16;              // more than `bits`, at most 16
  std::vector<std::int8_t> values;  // [2^state_bits]

  std::uint32_t states() const { return std::uint32_t{1} << state_bits; }
};

/// The trellis of codes of so many bits.
const Trellis& code_trellis(int bits);

/// Steps over all states of one trellis: `costs` are those of the best paths up to some weight, one
/// for each state. Two implementations: floats, and integers of 16 bits with AVX-512. Both take
/// targets far beyond all values, infinite ones too, as nearer ones.
class PathCosts {
 public:
  virtual ~PathCosts() = default;
  /// Costs of paths that begin with a weight that is `target`, in units of the values. `allowed`:
  /// the upper bits of their states, all but `bits` of them; less than 0: any state.
  virtual void begin(float target, std::int64_t allowed) = 0;
  /// One weight more. came_from[s >> bits] are the upper `bits` of the best state before s.
  virtual void step(float target, std::uint8_t* came_from) = 0;
  /// The cheapest state, among those whose lower state_bits - bits are `allowed` where that is not
  /// less than 0.
  virtual std::uint32_t best(std::int64_t allowed) const = 0;
};

std::unique_ptr<PathCosts> float_costs(const Trellis& trellis);
/// Null where the machine lacks AVX-512 BW, or the trellis is a small one.
std::unique_ptr<PathCosts> avx512_costs(const Trellis& trellis);
/// The fastest of these.
std::unique_ptr<PathCosts> fastest_costs(const Trellis& trellis);

/// Codes runs of weights, one after another; each thread has its own.
class Viterbi {
 public:
  Viterbi(const Trellis& trellis, std::int64_t weights, std::unique_ptr<PathCosts> costs);

  /// The states of weights that are nearly `targets`, in units of the values; they close a circle.
  /// Which bits stand where the circle is closed is taken from a path over the weights around that
  /// place alone; with these bits the path is the best (QTIP, arXiv 2406.11235, Algorithm 4).
  void encode(std::span<const float> targets, std::span<std::uint16_t> states);

  /// The best path of those whose circle is closed by `overlap`: the state_bits - bits bits that
  /// the last weight's state shares with the first's. Less than 0: any path, not closed.
  void encode_closed(std::span<const float> targets, std::int64_t overlap,
                     std::span<std::uint16_t> states);

 private:
  const Trellis& trellis_;
  std::unique_ptr<PathCosts> costs_;
  std::vector<std::uint8_t> came_from_;  // [weights, states >> bits]
  std::vector<float> around_;            // targets where the circle is closed
  std::vector<std::uint16_t> around_states_;
};

}  // namespace nibble::compress
