#include "ops/cuda/trellis/trellis_packer.h"

#include "core/error.h"
#include "formats/trellis/trellis_code.h"
#include "ops/cuda/sparse/tile_units.h"

namespace nibble::ops::cuda {
namespace {

static_assert(formats::kRunRows == kTrellisRows && formats::kRunInputs == kTrellisInputs);
static_assert(formats::kRunWeights == std::int64_t{kTrellisLanes} * kLaneWeights);
static_assert(formats::run_place(1, 0) == 4 && formats::run_place(2, 0) == kLaneWeights,
              "two rows of four inputs follow one another");

constexpr int kByteBits = 8;

/// The bits of a lane's eight weights: as many bytes as a weight has bits.
std::uint32_t own_of(const std::uint8_t* run, int bits, int lane) {
  std::uint32_t own = 0;
  for (int byte = 0; byte < bits; ++byte) {
    own |= std::uint32_t{run[circle_place(lane) * bits + byte]} << byte * kByteBits;
  }
  return own;
}

/// Adds a lane's own bits of a run to its words, which stand `step` apart.
void put_own(std::uint32_t own, int bits, int run, std::uint32_t* words, std::int64_t step) {
  if (bits == 4) {
    words[run * step] = own;
  } else if (bits == 2) {
    words[run / 2 * step] |= own << run % 2 * 16;
  } else if (run < 3) {
    words[run * step] |= own;
  } else {
    for (int byte = 0; byte < 3; ++byte) {
      words[byte * step] |= (own >> byte * kByteBits & 0xffu) << 24;
    }
  }
}

/// The runs of a tile, one after another, as units.
void write_tile(const std::uint8_t* runs, int bits, std::int64_t k, std::uint32_t* words) {
  for (std::int64_t run = 0; run < k / kTrellisInputs; ++run) {
    std::uint32_t* const unit = words + run / kUnitRuns * trellis_unit_words(bits);
    for (int lane = 0; lane < kTrellisLanes; ++lane) {
      const int first = trellis_word_at(bits, lane, 0);
      put_own(own_of(runs + run * formats::run_bytes(bits), bits, lane), bits,
              static_cast<int>(run % kUnitRuns), unit + first,
              trellis_word_at(bits, lane, 1) - first);
    }
  }
}

}  // namespace

Refusal trellis_refusal(const formats::Scheme& scheme) {
  if (!formats::has_trellis(scheme)) {
    return Reason("weights are no trellis codes");
  }
  if (!scheme.activation.is_float()) {
    return Reason("trellis codes meet activations that are not rounded");
  }
  return std::nullopt;
}

PackedTrellis pack_trellis(const UnitRows& rows, core::ThreadPool& pool) {
  const formats::PackedWeight& front = *rows.weights.front();
  const int bits = front.scheme.code.bits;
  if (const Refusal refused = trellis_refusal(front.scheme)) {
    core::fail(core::ErrorKind::kUsage, "{} on a GPU: {}; use --device cpu", front.scheme,
               refused->text());
  }
  PackedTrellis packed{bits, rows.count(), front.k, rows.pairs, {}, {}};
  const std::int64_t tile_words = std::int64_t{trellis_units(front.k)} * trellis_unit_words(bits);
  packed.words.resize(static_cast<std::size_t>(packed.n / kTrellisRows * tile_words));
  packed.scales.resize(static_cast<std::size_t>(packed.n));
  pool.parallel_for(packed.n / kTrellisRows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const UnitRows::Place place = rows.place(tile_rows(static_cast<int>(tile), rows.pairs).first);
      const formats::PackedWeight& weight = *rows.weights[place.weight];
      write_tile(weight.codes.data<std::uint8_t>().data() +
                     formats::run_offset(place.row, 0, weight.k, bits),
                 bits, weight.k, packed.words.data() + tile * tile_words);
    }
    for (std::int64_t row = begin * kTrellisRows; row < end * kTrellisRows; ++row) {
      const UnitRows::Place place = rows.place(row);
      formats::unpack_scales(*rows.weights[place.weight], place.row,
                             {&packed.scales[static_cast<std::size_t>(row)], 1});
    }
  });
  return packed;
}

}  // namespace nibble::ops::cuda
