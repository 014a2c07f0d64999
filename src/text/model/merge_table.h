#pragma once

#include <cstdint>
#include <vector>

namespace nibble::text {

/// Maps a pair of token ids to the rank and the id of their merge. Open addressing; at most half
/// full. Hashed with a random multiplier (Dietzfelbinger et al. 1997), so that no file can choose
/// pairs that collide.
class MergeTable {
 public:
  struct Merged {
    std::int32_t rank = 0;
    std::int32_t id = 0;
  };

  explicit MergeTable(std::size_t count);

  /// False when the pair is there already. At most `count` pairs.
  bool insert(std::int32_t left, std::int32_t right, Merged merged);

  const Merged* find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = start_of(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) {
        return &slots_[at].merged;
      }
      if (slots_[at].key == kFree) {
        return nullptr;
      }
    }
  }

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merged merged;
  };
  static constexpr std::uint64_t kFree = UINT64_MAX;  // no pair of non-negative ids

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t start_of(std::uint64_t key) const {
    return static_cast<std::size_t>(key * multiplier_ >> shift_);
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::uint64_t multiplier_ = 1;
  int shift_ = 0;
};

}  // namespace nibble::text
