#pragma once

#include <cstdint>
#include <vector>

namespace nibble::eval {

/// Counts of values in 128 columns of equal width over [-reach, reach), where reach is a power of
/// two that doubles (columns merge in pairs) whenever a value lies outside. Exact: the counts are
/// those that the final columns would have had from the start. Values that are not finite are
/// counted apart.
class GrowingHistogram {
 public:
  static constexpr std::int64_t kColumns = 128;

  void add(float value);

  double reach() const { return reach_; }  // 0 as long as there is no finite value but 0
  const std::vector<std::int64_t>& counts() const { return counts_; }
  std::int64_t not_finite() const { return not_finite_; }

 private:
  void grow();

  double reach_ = 0;
  std::vector<std::int64_t> counts_ = std::vector<std::int64_t>(kColumns);
  std::int64_t not_finite_ = 0;
};

}  // namespace nibble::eval
