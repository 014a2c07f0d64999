#pragma once

#include <algorithm>
#include <vector>

namespace nibble::jinja {

/// Stable sort. Unlike std::stable_sort it stays within its bounds when `is_less` is no order at
/// all, which a template can bring about with NaN.
template <typename T, typename Less>
void merge_sort(std::vector<T>& items, const Less& is_less) {
  std::vector<T> merged(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t start = 0; start < items.size(); start += 2 * width) {
      const std::size_t middle = std::min(start + width, items.size());
      const std::size_t end = std::min(start + 2 * width, items.size());
      std::size_t left = start;
      std::size_t right = middle;
      for (std::size_t out = start; out < end; ++out) {
        const bool take_right =
            left == middle || (right < end && is_less(items[right], items[left]));
        merged[out] = std::move(items[take_right ? right++ : left++]);
      }
    }
    items.swap(merged);
  }
}

}  // namespace nibble::jinja
