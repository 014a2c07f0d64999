#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// Scales of another tool (F16, BF16 or F32) as float16 can hold them, and what that changed.
class StoredScales {
 public:
  explicit StoredScales(std::string_view layer) : layer_(layer) {}

  /// `scale` rounded to float16. Throws kInvalidModel naming the layer when that is not finite.
  float round(float scale);

  /// The largest relative change of all that were rounded.
  double error() const { return error_; }

 private:
  std::string_view layer_;
  double error_ = 0;
};

/// The part's values as float32. Throws kInvalidModel unless it is floating and of `shape`.
std::vector<float> float_part(const StoredLayer& layer, std::string_view part,
                              const core::Shape& shape);

/// The one value of a part. Throws kInvalidModel unless it is one float.
float single_float(const StoredLayer& layer, std::string_view part);

/// values [rows, columns] as [columns, rows].
std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows,
                              std::int64_t columns);

}  // namespace nibble::formats::exchange
