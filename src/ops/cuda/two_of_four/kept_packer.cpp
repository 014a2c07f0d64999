#include "ops/cuda/two_of_four/kept_packer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "formats/bit_packing.h"
#include "formats/two_of_four.h"

namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

constexpr int kFour = static_cast<int>(formats::kFour);
constexpr int kHalfRows = kKeptRows / 2;
constexpr int kBlockFours = kKeptInputs / kFour;
constexpr std::uint32_t kFirstTwo = 0x4;  // indices 0 and 1
constexpr int kHalfBits = 16;
// Of which half are multiplied: sums of 2^17 products of INT8 numbers stay below 2^31.
constexpr std::int64_t kMostIntegerInputs = std::int64_t{1} << 18;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// What a row stores, wherever it stands; behind its end zeros of the group that ends there.
class StoredRow {
 public:
  StoredRow(const PackedWeight& weight, std::int64_t row)
      : weight_(weight),
        row_(row),
        fours_(weight.k / kFour),
        group_(formats::group_size(weight.scheme, weight.k)),
        scales_(index(formats::groups_per_row(weight.scheme, weight.k))),
        zeros_(scales_.size()) {
    if (formats::has_codes(weight.scheme)) {
      formats::unpack_scales(weight, row, scales_);
      formats::unpack_zeros(weight, row, zeros_);
    }
  }

  /// Code or float16 `which` of the two that are stored of a four.
  std::uint32_t stored(std::int64_t four, int which) const {
    if (!formats::has_codes(weight_.scheme)) {
      return four < fours_
                 ? weight_.values.data<core::Fp16>()[index((row_ * fours_ + four) * 2 + which)].bits
                 : 0;
    }
    const std::int64_t bytes = weight_.codes.dim(1);
    return four < fours_
               ? formats::get_code(weight_.codes.data<std::uint8_t>().data() + row_ * bytes,
                                   weight_.scheme.code.bits, 2 * four + which)
               : zero(weight_.k - 1);
  }
  std::uint32_t indices(std::int64_t four) const {
    if (four >= fours_) {
      return kFirstTwo;
    }
    const formats::KeptPair kept = formats::kept_pair(weight_, row_, four);
    return static_cast<std::uint32_t>(kept.first | kept.second << 2);
  }
  std::uint16_t scale(std::int64_t input) const {
    return input < weight_.k ? core::to_fp16(scales_[index(input / group_)]).bits : 0;
  }
  std::uint8_t zero(std::int64_t input) const {
    return input < weight_.k ? zeros_[index(input / group_)] : std::uint8_t{0};
  }

 private:
  const PackedWeight& weight_;
  std::int64_t row_;
  std::int64_t fours_;
  std::int64_t group_;
  std::vector<float> scales_;
  std::vector<std::uint8_t> zeros_;
};

void or_word(std::byte* at, std::uint32_t bits) {
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  word |= bits;
  std::memcpy(at, &word, sizeof(word));
}

/// The pair of a four as number `pair` of a lane's block.
void put_pair(const StoredRow& row, std::int64_t four, int bits, int pair, int lane, int block,
              std::byte* unit) {
  const int words = KeptForm{bits, 0}.words();
  const int each = kKeptPairs / words;  // pairs of a word
  const int shift = pair % each * bits;
  or_word(unit + kept_word_at(lane, block * words + pair / each),
          row.stored(four, 0) << shift | row.stored(four, 1) << (kHalfBits + shift));
}

/// Word `word` of a lane's indices.
std::byte* index_word(const KeptForm& form, int lane, int word, std::byte* unit) {
  return unit + form.indices() + std::ptrdiff_t{8} * lane + std::ptrdiff_t{4} * word;
}

/// A four in tile order: places and codes of what is stored, in the order of their places.
struct PlacedFour {
  std::uint32_t codes[2];
  std::uint32_t indices;
};
PlacedFour placed(const StoredRow& row, std::int64_t four) {
  constexpr std::uint32_t kPlaces[] = {0, 2, 1, 3};
  const std::uint32_t kept = row.indices(four);
  const std::uint32_t first = kPlaces[kept & 3u];
  const std::uint32_t second = kPlaces[kept >> 2];
  const int turned = first < second ? 0 : 1;
  return {{row.stored(four, turned), row.stored(four, 1 - turned)},
          std::min(first, second) | std::max(first, second) << 2};
}

/// A row of a unit for INT8 products.
void put_integers(const StoredRow& row, const KeptForm& form, std::int64_t first_input, int g,
                  bool lower, std::byte* unit) {
  constexpr int kFours = kIntegerInputs / kFour;
  constexpr std::uint32_t kHighest = 0x80;
  for (int block = 0; block < kIntegerBlocks; ++block) {
    for (int place = 0; place < kFours; ++place) {
      // In tile order the even fours of eight come first.
      const int four = place / 8 * 8 + place % 4 * 2 + place % 8 / 4;
      const PlacedFour kept =
          placed(row, (first_input + std::int64_t{block} * kIntegerInputs) / kFour + four);
      const int half = place / 8;
      const int lane = g * 4 + place % 8 / 2;
      for (int which = 0; which < 2; ++which) {
        const int byte = place % 2 * 2 + which;
        const int register_of_lane = 2 * half + (lower ? 1 : 0);
        if (form.bits == 4) {
          or_word(unit + kept_word_at(lane, 2 * block + half),
                  kept.codes[which] << (8 * byte + (lower ? 4 : 0)));
        } else {
          or_word(unit + kept_word_at(lane, 4 * block + register_of_lane),
                  (kept.codes[which] ^ kHighest) << (8 * byte));
        }
      }
      or_word(index_word(form, g * 4 + 2 * half + (lower ? 1 : 0), block, unit),
              kept.indices << (4 * (place % 8)));
    }
  }
}

/// The same for float16 products.
void put_halves(const StoredRow& row, const KeptForm& form, std::int64_t first_input, int g,
                bool lower, std::byte* unit) {
  for (int block = 0; block < kKeptBlocks; ++block) {
    const std::int64_t input = first_input + std::int64_t{block} * kKeptInputs;
    for (int four = 0; four < kBlockFours; ++four) {
      const std::int64_t stored = input / kFour + four;
      put_pair(row, stored, form.bits, four / 4 * 2 + (lower ? 1 : 0), g * 4 + four % 4, block,
               unit);
      const int lane = g * 4 + block % 2 * 2 + four / 4;
      or_word(index_word(form, lane, block / 2, unit),
              row.indices(stored) << (four % 4 * 4 + (lower ? kHalfBits : 0)));
    }
  }
}

/// A row of a unit: row `g` or `g + 8`.
void put_row(const StoredRow& row, const KeptForm& form, std::int64_t first_input, int g,
             bool lower, std::byte* unit) {
  if (form.integers) {
    put_integers(row, form, first_input, g, lower, unit);
  } else {
    put_halves(row, form, first_input, g, lower, unit);
  }
  for (int part = 0; part < form.scales; ++part) {
    const std::int64_t input = first_input + std::int64_t{part} * kKeptInputs;
    const std::ptrdiff_t at = g * form.scales + part;
    const std::uint16_t scale = row.scale(input);
    std::memcpy(unit + form.scales_at() + 4 * at + (lower ? 2 : 0), &scale, sizeof(scale));
    unit[form.zeros_at() + 2 * at + (lower ? 1 : 0)] = static_cast<std::byte>(row.zero(input));
  }
}

/// Indices of rows behind the last.
void put_no_row(const KeptForm& form, int g, bool lower, std::byte* unit) {
  constexpr std::uint32_t kFirstTwoOfFour = 0x4444;
  for (int t = 0; t < 4; ++t) {
    for (int word = 0; word < 2; ++word) {
      if (!form.integers) {
        or_word(index_word(form, g * 4 + t, word, unit),
                kFirstTwoOfFour << (lower ? kHalfBits : 0));
      } else if ((t % 2 == 1) == lower) {
        or_word(index_word(form, g * 4 + t, word, unit),
                kFirstTwoOfFour << kHalfBits | kFirstTwoOfFour);
      }
    }
  }
}

/// Of weights that meet INT8 activations.
Refusal integer_units_refusal(const formats::Scheme& scheme) {
  if (scheme.activation.group != 0) {
    return Reason("{} activations share a scale; it takes one for each token",
                  scheme.activation.group);
  }
  if (scheme.scale.group % kKeptUnitInputs != 0) {
    return Reason("{} inputs share a scale; with rounded activations it takes multiples of {}",
                  scheme.scale.group, kKeptUnitInputs);
  }
  if (scheme.code.bits == 8 && formats::has_zeros(scheme)) {
    return Reason("8-bit codes with zeros meet no rounded activations");
  }
  return std::nullopt;
}

}  // namespace

Refusal kept_units_refusal(const formats::Scheme& scheme) {
  if (!formats::keeps_two_of_four(scheme)) {
    return Reason("all weights are stored, not two of four");
  }
  if (!scheme.activation.is_float()) {
    return integer_units_refusal(scheme);
  }
  if (!formats::has_codes(scheme) && scheme.code.dense != core::DType::kF16) {
    return Reason("weights are {}; it takes float16", core::name_of(scheme.code.dense));
  }
  return std::nullopt;
}

KeptForm kept_form(const formats::Scheme& scheme) {
  if (!formats::has_codes(scheme)) {
    return {kHalfBits, 0};
  }
  return {scheme.code.bits, scheme.scale.group % kKeptUnitInputs == 0 ? 1 : kKeptBlocks,
          !scheme.activation.is_float(), scheme.scale.group == 0};
}

PackedKept pack_kept(const UnitRows& rows, core::ThreadPool& pool) {
  const PackedWeight& front = *rows.weights.front();
  if (const Refusal refused = kept_units_refusal(front.scheme)) {
    core::fail(core::ErrorKind::kUsage, "{} on a GPU: {}; use --device cpu", front.scheme,
               refused->text());
  }
  PackedKept packed{kept_form(front.scheme), rows.count(), front.k, {}};
  const bool long_sums = packed.form.integers && packed.form.by_row;
  core::require(
      !long_sums || front.k <= kMostIntegerInputs, core::ErrorKind::kUsage,
      "{} on a GPU: {} inputs; sums of INT8 products are exact up to {}; use --device cpu",
      front.scheme, front.k, kMostIntegerInputs);
  const std::int64_t groups = (packed.n + kKeptGroupRows - 1) / kKeptGroupRows;
  const std::int64_t units = packed.units_along_k();
  packed.units.resize(index(groups * kKeptTiles * units * packed.form.bytes()));
  pool.parallel_for(groups * kKeptTiles, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * kKeptRows; at < end * kKeptRows; ++at) {
      const int g = static_cast<int>(at % kHalfRows);
      const bool lower = at % kKeptRows >= kHalfRows;
      const auto unit = [&](std::int64_t u) {
        return packed.units.data() + kept_unit(at / kKeptRows, u, units) * packed.form.bytes();
      };
      if (at >= packed.n) {
        for (std::int64_t u = 0; u < units; ++u) {
          put_no_row(packed.form, g, lower, unit(u));
        }
        continue;
      }
      const UnitRows::Place place = rows.place(at);
      const StoredRow row(*rows.weights[place.weight], place.row);
      for (std::int64_t u = 0; u < units; ++u) {
        put_row(row, packed.form, u * kKeptUnitInputs, g, lower, unit(u));
      }
    }
  });
  return packed;
}

}  // namespace nibble::ops::cuda
