#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nibble::compress {

/// How many values have which magnitude. Values are counted by the first 16 bits of their
/// magnitude as a float: buckets are 2^-8 of it wide.
class Magnitudes {
 public:
  Magnitudes();

  /// Finite values.
  void add(std::span<const float> values);

  /// The magnitude that `percent` of the values, in (0, 100], do not exceed: the upper end of its
  /// bucket, at most the largest of all. 0 where there are no values, or none that is not 0 (or
  /// less than any normal float).
  float percentile(double percent) const;

 private:
  std::vector<std::int64_t> counts_;
  std::int64_t total_ = 0;
  float largest_ = 0.0f;
};

}  // namespace nibble::compress
