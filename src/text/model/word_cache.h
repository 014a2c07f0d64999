#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace nibble::text {

/// The ids of words that were encoded before. Bounded: when full it keeps what it has.
class WordCache {
 public:
  /// Longer words are rarely repeated and not kept.
  static constexpr std::size_t kMaxWordBytes = 128;

  std::optional<std::span<const std::int32_t>> find(std::string_view word) const;
  void insert(std::string_view word, std::span<const std::int32_t> ids);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t word = 0;  // offset in words_
    std::uint32_t ids = 0;   // offset in ids_
    std::uint32_t id_count = 0;
    std::uint8_t word_bytes = 0;  // 0: free
  };
  std::size_t slot_of(std::string_view word, std::uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t used_ = 0;
  std::vector<char> words_;
  std::vector<std::int32_t> ids_;
};

}  // namespace nibble::text
