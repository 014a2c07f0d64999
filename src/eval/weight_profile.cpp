#include "eval/weight_profile.h"

#include <algorithm>
#include <cmath>

#include "core/float8.h"

namespace nibble::eval {
namespace {

using formats::PackedWeight;

// The values of a row's codes in units of their group's scale.
class RowValues {
 public:
  RowValues(const PackedWeight& weight, std::int64_t row)
      : group_(formats::group_size(weight.scheme, weight.k)) {
    if (formats::is_integer(weight.scheme)) {
      zeros_.resize(static_cast<std::size_t>(formats::groups_per_row(weight.scheme, weight.k)));
      formats::unpack_zeros(weight, row, zeros_);
    } else if (formats::has_book(weight.scheme)) {
      book_ = formats::book_of(weight, row);
    }
  }

  float at(std::int64_t input, std::uint8_t code) const {
    if (book_.size() > 0) {
      return book_[code];
    }
    return zeros_.empty() ? core::to_float(core::E4m3{code})
                          : static_cast<float>(
                                static_cast<int>(code) -
                                static_cast<int>(zeros_[static_cast<std::size_t>(input / group_)]));
  }

 private:
  std::int64_t group_;
  std::vector<std::uint8_t> zeros_;
  formats::BookValues book_;
};

double entropy_of(const std::vector<CodeUse>& codes, double total) {
  double entropy = 0;
  for (const CodeUse& use : codes) {
    const double share = static_cast<double>(use.count) / total;
    entropy -= share > 0 ? share * std::log2(share) : 0;
  }
  return entropy;
}

WeightProfile profile_dense(const PackedWeight& weight) {
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
  if (formats::is_dense(weight.scheme)) {
    return profile_dense(weight);
  }
  WeightProfile profile;
  profile.codes.resize(std::size_t{1} << weight.scheme.code.bits);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(weight.k));
  for (std::int64_t i = 0; i < weight.n; ++i) {
    formats::unpack_codes(weight, i, row);
    const RowValues values(weight, i);
    for (std::int64_t j = 0; j < weight.k; ++j) {
      const std::uint8_t code = row[static_cast<std::size_t>(j)];
      const float value = values.at(j, code);
      profile.histogram.add(value);
      ++profile.codes[code].count;
      profile.codes[code].value += value;
    }
  }
  for (std::size_t code = 0; code < profile.codes.size(); ++code) {
    CodeUse& use = profile.codes[code];
    use.code = static_cast<int>(code);
    use.value /= static_cast<double>(std::max<std::int64_t>(1, use.count));
  }
  profile.code_entropy =
      entropy_of(profile.codes, static_cast<double>(weight.n) * static_cast<double>(weight.k));
  return profile;
}

}  // namespace nibble::eval
