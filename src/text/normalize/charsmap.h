#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::text {

/// The replacement table of a SentencePiece normalizer ("precompiled_charsmap"):
///
///   uint32   bytes of the trie, little endian
///   uint32[] a Darts-clone double array that maps a key to an offset in ...
///   char[]   ... the replacements, each ended by a NUL
///
/// A unit of the array holds, from bit 0: label (8), has_leaf (1), extended offset (1), offset
/// (22); in a leaf, bits 0..30 are the value.
class Charsmap {
 public:
  /// No key longer than this is found; it also bounds walks through a damaged array.
  static constexpr std::size_t kMaxKeyBytes = 256;

  /// Throws kInvalidModel when the bytes do not have that shape. Nothing inside is trusted later:
  /// each step of a search is checked.
  Charsmap(std::string_view bytes, std::string_view what);

  struct Match {
    std::size_t bytes = 0;         // of the key in the text
    std::string_view replacement;  // may be empty; not necessarily valid UTF-8 if the file is bad
  };

  /// The longest key that `text` starts with.
  std::optional<Match> longest(std::string_view text) const;
  /// The shortest one.
  std::optional<Match> shortest(std::string_view text) const;

 private:
  template <typename Visit>
  void walk(std::string_view text, Visit visit) const;
  Match match(std::size_t bytes, std::uint32_t value) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace nibble::text
