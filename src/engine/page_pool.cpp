#include "engine/page_pool.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace nibble::engine {

PagePool::PagePool(std::int64_t pages)
    : states_(static_cast<std::size_t>(pages)), empty_(static_cast<std::size_t>(pages)) {
  std::iota(empty_.rbegin(), empty_.rend(), 0);  // page 0 is taken first
}

std::optional<PageId> PagePool::take() noexcept {
  if (!empty_.empty()) {
    const PageId page = empty_.back();
    empty_.pop_back();
    state(page).users = 1;
    return page;
  }
  if (unused_ == 0) {
    return std::nullopt;
  }
  const PageId page = first_unused_;
  remove_unused(page);
  State& taken = state(page);
  prefixes_.erase(*taken.key);
  taken.key.reset();
  taken.users = 1;
  return page;
}

void PagePool::release(PageId page) {
  State& released = state(page);
  core::require(released.users > 0, core::ErrorKind::kFailed, "KV page {} has no user", page);
  if (--released.users > 0) {
    return;
  }
  if (released.key) {
    append_unused(page);
  } else {
    empty_.push_back(page);  // has had room for all from the start
  }
}

void PagePool::append_unused(PageId page) {
  state(page).before = last_unused_;
  state(page).behind = kNone;
  (last_unused_ == kNone ? first_unused_ : state(last_unused_).behind) = page;
  last_unused_ = page;
  ++unused_;
}

void PagePool::remove_unused(PageId page) {
  const auto [before, behind] = std::pair(state(page).before, state(page).behind);
  (before == kNone ? first_unused_ : state(before).behind) = behind;
  (behind == kNone ? last_unused_ : state(behind).before) = before;
  --unused_;
}

PrefixId PagePool::root(const std::string& salt) {
  const auto known = roots_.find(salt);
  if (known != roots_.end()) {
    return known->second;
  }
  if (roots_.size() >= kMaxRoots) {
    roots_.clear();  // their pages are found no more, and go when pages are needed
  }
  return roots_.emplace(salt, ++last_prefix_).first->second;
}

std::optional<PagePool::Found> PagePool::find(PrefixId before, PageTokens tokens) {
  const auto at = prefixes_.find(key_of(before, tokens));
  if (at == prefixes_.end()) {
    return std::nullopt;
  }
  State& found = state(at->second.page);
  if (found.users++ == 0) {
    remove_unused(at->second.page);
  }
  return at->second;
}

PrefixId PagePool::publish(PrefixId before, PageTokens tokens, PageId page) {
  const Key key = key_of(before, tokens);
  const auto [at, is_new] = prefixes_.try_emplace(key, Found{page, last_prefix_ + 1});
  if (is_new) {
    ++last_prefix_;
    state(page).key = key;
  }
  return at->second.prefix;
}

PagePool::Key PagePool::key_of(PrefixId before, PageTokens tokens) {
  Key key;
  key.before = before;
  std::copy(tokens.begin(), tokens.end(), key.tokens.begin());
  return key;
}

std::size_t PagePool::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = key.before;
  for (const std::int32_t token : key.tokens) {
    hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return static_cast<std::size_t>(hash);
}

}  // namespace nibble::engine
