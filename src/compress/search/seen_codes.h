#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::compress {

/// The codes of one group that descents of a GroupSearch went through. Parameters that are refitted
/// to the same codes are the same, so a descent that comes to codes once more goes on as the
/// earlier one did, and finds nothing new.
class SeenCodes {
 public:
  struct Visit {
    bool negative = false;  // the scale, whose sign refitting keeps
    int round = 0;          // refits before these codes; a descent has only so many
    double loss = 0;        // with the parameters that led to them
    bool ended = false;     // the refit to these codes lost no less
  };

  /// Forgets all, for another group.
  void clear();

  /// The record of a descent that comes to `codes`, as many bytes each time, and goes on, in which
  /// it is to say when it has ended. Null where it would find nothing new. `hash`: a number that
  /// most other codes don't have. Records stay where they are until clear().
  Visit* visit(std::span<const std::byte> codes, std::uint64_t hash, const Visit& now);

 private:
  static constexpr int kSlotBits = 10;
  static constexpr std::size_t kSlots = 1 << kSlotBits;
  static constexpr std::size_t kMost = kSlots / 2;  // visits that are remembered

  std::array<std::uint16_t, kSlots> slots_{};  // 0: free; else a visit + 1, by hash, then in line
  std::vector<std::uint64_t> hashes_;          // of each visit
  std::vector<Visit> visits_;
  std::vector<std::byte> codes_;  // of each visit, one after another
  Visit forgotten_;
};

}  // namespace nibble::compress
