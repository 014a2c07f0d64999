#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/kv_pages.h"

namespace nibble::engine {

using ops::kPageTokens;
using ops::PageId;

/// Names a sequence of whole pages of tokens, from its start on. Never used twice.
using PrefixId = std::uint64_t;

/// Who uses which pages of a KV cache, and which of them hold beginnings that other sequences may
/// share (paged attention, arXiv 2309.06180; prefixes by whole pages as in vLLM's block cache).
///
/// A page has as many users as sequences that read it. Without users it is free; if it holds a
/// prefix, that stays until the page is needed, those unused for longest going first. Prefixes are
/// compared by their tokens, not by a hash of them. The pages' contents lie elsewhere (Runner).
class PagePool {
 public:
  explicit PagePool(std::int64_t pages);

  std::int64_t size() const { return static_cast<std::int64_t>(states_.size()); }
  /// Pages without users.
  std::int64_t free() const { return std::ssize(empty_) + unused_; }
  /// Pages without users that hold prefixes.
  std::int64_t cached() const { return unused_; }

  /// A page of undefined content, with one user; nullopt when all have users.
  std::optional<PageId> take() noexcept;
  void release(PageId page);  // throws kFailed for a page without users, nothing else

  /// The empty prefix. Those of different salts have nothing in common.
  PrefixId root(const std::string& salt);

  struct Found {
    PageId page;
    PrefixId prefix;
  };
  using PageTokens = std::span<const std::int32_t, static_cast<std::size_t>(kPageTokens)>;

  /// The page that holds these tokens behind `before`, with one more user.
  std::optional<Found> find(PrefixId before, PageTokens tokens);

  /// Says that `page`, which is in use, holds these tokens behind `before`. Returns the prefix with
  /// them; where another page holds the same, that one stays the one that is found.
  PrefixId publish(PrefixId before, PageTokens tokens, PageId page);

 private:
  struct Key {
    PrefixId before = 0;
    std::array<std::int32_t, static_cast<std::size_t>(kPageTokens)> tokens{};
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct State {
    std::int64_t users = 0;
    std::optional<Key> key;  // of the prefix that it holds
    PageId before = kNone;   // neighbours among the unused, for pages without users that have a key
    PageId behind = kNone;
  };
  static constexpr PageId kNone = -1;
  static constexpr std::size_t kMaxRoots = 4096;  // salts that are known at a time

  static Key key_of(PrefixId before, PageTokens tokens);
  void append_unused(PageId page);
  void remove_unused(PageId page);
  State& state(PageId page) { return states_[static_cast<std::size_t>(page)]; }

  std::vector<State> states_;
  std::vector<PageId> empty_;  // the last is taken next
  // Pages that hold prefixes and have no user; the first was used longest ago.
  PageId first_unused_ = kNone;
  PageId last_unused_ = kNone;
  std::int64_t unused_ = 0;
  std::unordered_map<Key, Found, KeyHash> prefixes_;
  std::unordered_map<std::string, PrefixId> roots_;
  PrefixId last_prefix_ = 0;
};

}  // namespace nibble::engine
