#include "core/hash.h"

#include <array>
#include <bit>
#include <cstring>

namespace nibble::core {
namespace {

static_assert(std::endian::native == std::endian::little, "XXH64 reads little-endian words");

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87;
constexpr std::uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
constexpr std::uint64_t kPrime3 = 0x165667b19e3779f9;
constexpr std::uint64_t kPrime4 = 0x85ebca77c2b2ae63;
constexpr std::uint64_t kPrime5 = 0x27d4eb2f165667c5;
constexpr std::size_t kStripe = 32;  // bytes: four lanes of a word

template <typename T>
T load(const std::byte* bytes) {
  T value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

// All whole stripes; moves `bytes` behind them.
std::uint64_t hash_stripes(std::span<const std::byte>& bytes) {
  std::array<std::uint64_t, 4> lanes = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      lanes[i] = round(lanes[i], load<std::uint64_t>(bytes.data() + i * sizeof(std::uint64_t)));
    }
  }
  std::uint64_t hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
                       std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) {
    hash = merge(hash, lane);
  }
  return hash;
}

std::uint64_t hash_rest(std::uint64_t hash, std::span<const std::byte> bytes) {
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    hash = std::rotl(hash ^ round(0, load<std::uint64_t>(bytes.data())), 27) * kPrime1 + kPrime4;
  }
  if (bytes.size() >= 4) {
    hash = std::rotl(hash ^ load<std::uint32_t>(bytes.data()) * kPrime1, 23) * kPrime2 + kPrime3;
    bytes = bytes.subspan(4);
  }
  for (const std::byte byte : bytes) {
    hash = std::rotl(hash ^ std::to_integer<std::uint64_t>(byte) * kPrime5, 11) * kPrime1;
  }
  return hash;
}

}  // namespace

std::uint64_t hash64(std::span<const std::byte> bytes) {
  const std::size_t size = bytes.size();
  std::uint64_t hash = size >= kStripe ? hash_stripes(bytes) : kPrime5;
  hash = hash_rest(hash + size, bytes);
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

}  // namespace nibble::core
