#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// How trellis codes (formats/trellis/trellis_code.h) lie in the memory of a GPU, and how a lane
/// reads them. Functions here run on the host too, where tests follow them lane by lane.
///
/// A run is the left operand of one product of tensor cores (m16n8k16): 16 rows and 16 inputs.
/// Which row and which input stands at which place is free as long as all agree. Lane 4 g + t has
/// rows 2 g and 2 g + 1 as rows g and g + 8 of the product, and inputs 4 t .. 4 t + 3: eight
/// weights that follow one another in the run's circle, number 8 (8 t + g) and on. Their states
/// are the 8 * bits bits that are the lane's *own*, and the first bits of the next lane's along the
/// circle, at most 14.
///
/// Four runs along the inputs of a tile of 16 rows are a *unit*. A lane has `bits` words of it:
///
///   4 bits   word r: the own bits of run r
///   3 bits   word r < 3: those of run r in the lower 24 bits, and a byte of run 3's above them
///   2 bits   word r / 2: those of run r in its lower (r even) or upper half
///
/// Units of a tile lie one after another. The last one's missing runs are zeros.
namespace nibble::ops::cuda {

inline constexpr int kTrellisRows = 16;    // of a run, and of a tile
inline constexpr int kTrellisInputs = 16;  // of a run
inline constexpr int kUnitRuns = 4;
inline constexpr int kTrellisUnitInputs = kUnitRuns * kTrellisInputs;
inline constexpr int kTrellisLanes = 32;
inline constexpr int kLaneWeights = 8;  // of a run

/// On the host. Tiles stand in the order of their first rows; with rows in pairs a tile's rows are
/// two times eight, 16 apart (tile_rows()).
struct PackedTrellis {
  int bits = 4;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool pairs = false;
  std::vector<std::uint32_t> words;
  std::vector<float> scales;  // [n]
};

constexpr int trellis_units(std::int64_t k) {
  return static_cast<int>((k + kTrellisUnitInputs - 1) / kTrellisUnitInputs);
}
constexpr int trellis_unit_words(int bits) {
  return kTrellisLanes * bits;
}
/// Where word i of a lane stands in its unit.
constexpr int trellis_word_at(int bits, int lane, int i) {
  return bits == 3 ? i * kTrellisLanes + lane : lane * bits + i;
}

/// Where a lane stands along a circle: it has eight weights from 8 times that on.
constexpr int circle_place(int lane) {
  return lane % 4 * 8 + lane / 4;
}
/// The lane that stands behind it.
constexpr int next_along_circle(int lane) {
  const int place = (circle_place(lane) + 1) % kTrellisLanes;
  return place % 8 * 4 + place / 8;
}
/// Which of a tile's rows is row `at` of the product.
constexpr int trellis_row(int at) {
  return at % (kTrellisRows / 2) * 2 + at / (kTrellisRows / 2);
}

/// A lane's own bits of a run, and others above them.
template <int kBits>
constexpr std::uint32_t own_bits(const std::uint32_t* words, int run) {
  if constexpr (kBits == 4) {
    return words[run];
  } else if constexpr (kBits == 3) {
    return run < 3 ? words[run] : (words[0] >> 24) | (words[1] >> 24) << 8 | (words[2] >> 24) << 16;
  } else {
    return words[run / 2] >> run % 2 * 16;
  }
}

/// What the lane before it wants to know: the first 16 own bits of runs 2 i and 2 i + 1.
template <int kBits>
constexpr std::uint32_t head_bits(const std::uint32_t* words, int i) {
  if constexpr (kBits == 2) {
    return words[i];
  } else {
    return (own_bits<kBits>(words, 2 * i) & 0xffffu) | own_bits<kBits>(words, 2 * i + 1) << 16;
  }
}

/// The bits of eight weights of a run.
template <int kBits>
struct LaneWindow {
  std::uint32_t low;   // from the first one's on
  std::uint32_t high;  // from 16 bits later on

  /// `heads`: the next lane's, of this run and the other.
  static constexpr LaneWindow of(const std::uint32_t* words, int run, std::uint32_t heads) {
    const std::uint32_t own = own_bits<kBits>(words, run);
    const std::uint32_t next = heads >> run % 2 * 16 & 0xffffu;
    if constexpr (kBits == 4) {
      return {own, own >> 16 | next << 16};
    } else if constexpr (kBits == 3) {
      return {(own & 0xffffffu) | next << 24, (own >> 16 & 0xffu) | next << 8};
    } else {
      return {(own & 0xffffu) | next << 16, next};
    }
  }
  /// The state of weight i, and other bits above its 16.
  constexpr std::uint32_t state(int i) const {
    const int bit = i * kBits;
    return bit <= 16 ? low >> bit : high >> (bit - 16);
  }
};

}  // namespace nibble::ops::cuda
