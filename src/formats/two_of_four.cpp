#include "formats/two_of_four.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

using core::Tensor;

constexpr int kIndexBits = 2;
constexpr int kPairBits = 2 * kIndexBits;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

template <typename T>
std::span<T> row_of(std::span<T> part, std::int64_t row, std::int64_t bytes) {
  return part.subspan(index(row * bytes), index(bytes));
}

/// The two of four weights to store, of which those that `used` marks are not 0.
KeptPair choose(std::span<const bool> used, std::int64_t row, std::int64_t input) {
  const auto count = std::count(used.begin(), used.end(), true);
  core::require(count <= 2, core::ErrorKind::kInvalidModel,
                "{} of the four weights from input {} of row {} on are not 0, and two can be "
                "stored; prune the weight first (sparsegpt or wanda with the pattern 2:4)",
                count, input, row);
  std::int64_t zeros = 2 - count;
  std::vector<int> kept;
  for (int at = 0; at < kFour; ++at) {
    const bool is_used = used[index(at)];
    if (is_used || zeros > 0) {
      kept.push_back(at);
      zeros -= is_used ? 0 : 1;
    }
  }
  return {kept[0], kept[1]};
}

/// Which weights of a row are not 0.
void mark_used(const PackedWeight& full, std::int64_t row, std::span<bool> used) {
  std::vector<float> values(used.size());
  if (is_dense(full.scheme)) {
    decode_row(full, row, values);
  } else {
    decode_unscaled(full, row, values);
  }
  std::transform(values.begin(), values.end(), used.begin(),
                 [](float value) { return value != 0.0f; });
}

/// Chooses for all fours of a row, and stores the indices.
std::vector<std::int64_t> choose_inputs(const PackedWeight& full, std::int64_t row,
                                        PackedWeight& to) {
  const auto used = std::make_unique<bool[]>(index(full.k));
  mark_used(full, row, {used.get(), index(full.k)});
  const std::int64_t bytes = to.indices.dim(1);
  const auto indices = row_of(to.indices.mutable_data<std::uint8_t>(), row, bytes);
  std::vector<std::int64_t> inputs;
  for (std::int64_t input = 0; input < full.k; input += kFour) {
    const KeptPair kept = choose({used.get() + input, index(kFour)}, row, input);
    set_code(indices, kPairBits, input / kFour,
             static_cast<std::uint8_t>(kept.first | kept.second << kIndexBits));
    inputs.insert(inputs.end(), {input + kept.first, input + kept.second});
  }
  return inputs;
}

void store_codes(const PackedWeight& full, std::int64_t row, std::span<const std::int64_t> inputs,
                 PackedWeight& to) {
  std::vector<std::uint8_t> codes(index(full.k));
  unpack_codes(full, row, codes);
  std::vector<std::uint8_t> kept;
  for (const std::int64_t input : inputs) {
    kept.push_back(codes[index(input)]);
  }
  pack(kept, full.scheme.code.bits,
       row_of(to.codes.mutable_data<std::uint8_t>(), row, to.codes.dim(1)));
}

void store_values(const PackedWeight& full, std::int64_t row, std::span<const std::int64_t> inputs,
                  PackedWeight& to) {
  const std::int64_t size = core::size_of(full.dense.dtype());
  const std::byte* const from = full.dense.raw() + row * full.k * size;
  std::byte* place = to.values.mutable_raw() + row * to.values.dim(1) * size;
  for (const std::int64_t input : inputs) {
    std::memcpy(place, from + input * size, index(size));
    place += size;
  }
}

}  // namespace

KeptPair kept_pair(const PackedWeight& weight, std::int64_t row, std::int64_t four) {
  const std::int64_t bytes = weight.indices.dim(1);
  const int bits =
      get_code(weight.indices.data<std::uint8_t>().data() + row * bytes, kPairBits, four);
  return {bits % static_cast<int>(kFour), bits >> kIndexBits};
}

void put_kept_codes(const PackedWeight& weight, std::int64_t row, std::int64_t begin,
                    std::span<std::uint8_t> codes) {
  const int bits = weight.scheme.code.bits;
  const std::uint8_t* const stored =
      weight.codes.data<std::uint8_t>().data() + row * weight.codes.dim(1);
  for (std::int64_t at = 0; at < std::ssize(codes); at += kFour) {
    const std::int64_t four = (begin + at) / kFour;
    const KeptPair kept = kept_pair(weight, row, four);
    codes[index(at + kept.first)] = get_code(stored, bits, 2 * four);
    codes[index(at + kept.second)] = get_code(stored, bits, 2 * four + 1);
  }
}

void decode_kept_values(const PackedWeight& weight, std::int64_t row, std::span<float> out) {
  const std::int64_t count = weight.values.dim(1);
  std::vector<float> stored(index(count));
  core::convert_to_float32(weight.values.dtype(),
                           weight.values.raw() + row * count * core::size_of(weight.values.dtype()),
                           count, stored.data());
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::int64_t four = 0; four < count / 2; ++four) {
    const KeptPair kept = kept_pair(weight, row, four);
    out[index(four * kFour + kept.first)] = stored[index(2 * four)];
    out[index(four * kFour + kept.second)] = stored[index(2 * four + 1)];
  }
}

PackedWeight to_two_of_four(const PackedWeight& full) {
  PackedWeight weight = full;
  weight.scheme.sparsity = Sparsity::kTwoOfFour;
  validate(weight.scheme);
  require_shape(weight.scheme, full.n, full.k);
  weight.dense = Tensor();
  for (const StoredPart& part : stored_parts(weight.scheme, full.n, full.k)) {
    if (part.tensor == &PackedWeight::codes || part.tensor == &PackedWeight::values ||
        part.tensor == &PackedWeight::indices) {
      weight.*part.tensor = Tensor::zeros(part.dtype, {part.rows, part.columns});
    }
  }
  for (std::int64_t row = 0; row < full.n; ++row) {
    const std::vector<std::int64_t> inputs = choose_inputs(full, row, weight);
    if (is_dense(full.scheme)) {
      store_values(full, row, inputs, weight);
    } else {
      store_codes(full, row, inputs, weight);
    }
  }
  validate(weight, "weight");
  return weight;
}

}  // namespace nibble::formats
