#include "compress/search/seen_codes.h"

#include <cstring>

namespace nibble::compress {
namespace {

// An earlier descent covers one that comes to its codes now, unless it had fewer rounds left, or
// ended where the other, which lost more so far, might go on.
bool covers(const SeenCodes::Visit& earlier, const SeenCodes::Visit& now) {
  return earlier.round <= now.round && !(earlier.ended && earlier.loss < now.loss);
}

}  // namespace

void SeenCodes::clear() {
  slots_.fill(0);
  hashes_.clear();
  visits_.clear();
  codes_.clear();
  visits_.reserve(kMost);
}

SeenCodes::Visit* SeenCodes::visit(std::span<const std::byte> codes, std::uint64_t hash,
                                   const Visit& now) {
  constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: upper bits are mixed
  hash ^= now.negative ? 1 : 0;
  std::size_t slot = hash * kMix >> (64 - kSlotBits);
  for (; slots_[slot] != 0; slot = (slot + 1) % kSlots) {
    const std::size_t index = slots_[slot] - std::size_t{1};
    Visit& earlier = visits_[index];
    if (hashes_[index] == hash && earlier.negative == now.negative &&
        std::memcmp(codes.data(), codes_.data() + index * codes.size(), codes.size()) == 0) {
      if (covers(earlier, now)) {
        return nullptr;
      }
      earlier = now;
      return &earlier;
    }
  }
  if (visits_.size() == kMost) {
    return &forgotten_;
  }
  slots_[slot] = static_cast<std::uint16_t>(visits_.size() + 1);
  hashes_.push_back(hash);
  codes_.insert(codes_.end(), codes.begin(), codes.end());
  return &visits_.emplace_back(now);
}

}  // namespace nibble::compress
