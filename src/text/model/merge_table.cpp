#include "text/model/merge_table.h"

#include <bit>
#include <random>

namespace nibble::text {

MergeTable::MergeTable(std::size_t count)
    : slots_(std::bit_ceil(count * 2 + 2)),
      mask_(slots_.size() - 1),
      shift_(64 - std::countr_zero(slots_.size())) {
  std::random_device random;
  multiplier_ = (std::uint64_t{random()} << 32 | random()) | 1;
}

bool MergeTable::insert(std::int32_t left, std::int32_t right, Merged merged) {
  const std::uint64_t key = key_of(left, right);
  std::size_t at = start_of(key);
  while (slots_[at].key != kFree) {
    if (slots_[at].key == key) {
      return false;
    }
    at = (at + 1) & mask_;
  }
  slots_[at] = {key, merged};
  return true;
}

}  // namespace nibble::text
