#include "formats/lut4/book_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace nibble::formats {

BookOrder::BookOrder(std::span<const float, kSize> book) {
  std::iota(codes_.begin(), codes_.end(), std::uint8_t{0});
  std::stable_sort(codes_.begin(), codes_.end(),
                   [&](std::uint8_t a, std::uint8_t b) { return book[a] < book[b]; });
  midpoints_.back() = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i + 1 < kSize; ++i) {
    // The sum of two float32 values of like size is exact in float64.
    midpoints_[i] = (static_cast<double>(book[codes_[i]]) + book[codes_[i + 1]]) / 2;
  }
  for (std::size_t i = 1; i < kSize; ++i) {
    if (book[codes_[i]] == book[codes_[i - 1]]) {
      codes_[i] = codes_[i - 1];
    }
  }
  std::transform(codes_.begin(), codes_.end(), values_.begin(),
                 [&](std::uint8_t code) { return book[code]; });
}

bool rounds_by_book_order(const Scheme& scheme) {
  return has_book(scheme) && scheme.scale.type != ScaleType::kE8m0 &&
         scheme.scale.type != ScaleType::kE4m3;
}

}  // namespace nibble::formats
