#include "eval/weight_profile.h"

#include <algorithm>
#include <cmath>

#include "formats/block_sparse.h"
#include "formats/runs.h"

namespace nibble::eval {
namespace {

using formats::PackedWeight;

double entropy_of(const std::vector<CodeUse>& codes, double total) {
  double entropy = 0;
  for (const CodeUse& use : codes) {
    const double share = static_cast<double>(use.count) / total;
    entropy -= share > 0 ? share * std::log2(share) : 0;
  }
  return entropy;
}

// Which weights of a row have a code.
std::vector<bool> stored_weights(const PackedWeight& weight, std::int64_t row) {
  const auto k = static_cast<std::size_t>(weight.k);
  if (!formats::is_block_sparse(weight.scheme)) {
    return std::vector<bool>(k, true);
  }
  std::vector<bool> stored(k);
  const std::int64_t group = weight.scheme.scale.group;
  formats::for_each_stored_group(weight, row, [&](std::int64_t, std::int64_t place) {
    std::fill_n(stored.begin() + place * group, group, true);
  });
  return stored;
}

// Of the values alone: weights that are coded many together have no codes of their own.
WeightProfile profile_values(const PackedWeight& weight) {
  WeightProfile profile;
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t i = 0; i < weight.n; ++i) {
    formats::decode_row(weight, i, row);
    for (const float value : row) {
      profile.histogram.add(value);
    }
  }
  return profile;
}

}  // namespace

WeightProfile profile_weights(const PackedWeight& whole) {
  const PackedWeight weight = formats::head_of(whole);
  if (!formats::has_codes(weight.scheme) || formats::runs_of(weight.scheme) != nullptr) {
    return profile_values(weight);
  }
  WeightProfile profile;
  profile.codes.resize(std::size_t{1} << weight.scheme.code.bits);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.k));
  std::vector<float> values(codes.size());
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < weight.n; ++i) {
    formats::unpack_codes(weight, i, codes);
    formats::decode_unscaled(weight, i, values);
    const std::vector<bool> stored = stored_weights(weight, i);
    for (std::size_t j = 0; j < codes.size(); ++j) {
      if (!stored[j]) {
        continue;
      }
      ++count;
      profile.histogram.add(values[j]);
      CodeUse& use = profile.codes[codes[j]];
      ++use.count;
      use.value += values[j];
    }
  }
  for (std::size_t code = 0; code < profile.codes.size(); ++code) {
    CodeUse& use = profile.codes[code];
    use.code = static_cast<int>(code);
    use.value /= static_cast<double>(std::max<std::int64_t>(1, use.count));
  }
  profile.code_entropy = entropy_of(profile.codes, static_cast<double>(count));
  return profile;
}

}  // namespace nibble::eval
