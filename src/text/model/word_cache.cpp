#include "text/model/word_cache.h"

#include <cstring>

#include "core/text_hash.h"

namespace nibble::text {
namespace {

constexpr std::size_t kFirstSlots = 1024;
constexpr std::size_t kMaxWords = std::size_t{1} << 17;

}  // namespace

std::size_t WordCache::slot_of(std::string_view word, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    const bool same = slot.hash == hash && slot.word_bytes == word.size() &&
                      std::memcmp(words_.data() + slot.word, word.data(), word.size()) == 0;
    if (slot.word_bytes == 0 || same) {
      return at;
    }
  }
}

std::optional<std::span<const std::int32_t>> WordCache::find(std::string_view word) const {
  if (slots_.empty() || word.empty() || word.size() > kMaxWordBytes) {
    return std::nullopt;
  }
  const Slot& slot = slots_[slot_of(word, core::TextHash{}(word))];
  if (slot.word_bytes == 0) {
    return std::nullopt;
  }
  return std::span(ids_).subspan(slot.ids, slot.id_count);
}

void WordCache::insert(std::string_view word, std::span<const std::int32_t> ids) {
  if (word.empty() || word.size() > kMaxWordBytes || used_ == kMaxWords) {
    return;
  }
  if (used_ * 2 >= slots_.size()) {
    grow();
  }
  const std::uint64_t hash = core::TextHash{}(word);
  Slot& slot = slots_[slot_of(word, hash)];
  if (slot.word_bytes != 0) {
    return;
  }
  slot = {hash, static_cast<std::uint32_t>(words_.size()), static_cast<std::uint32_t>(ids_.size()),
          static_cast<std::uint32_t>(ids.size()), static_cast<std::uint8_t>(word.size())};
  words_.insert(words_.end(), word.begin(), word.end());
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++used_;
}

void WordCache::grow() {
  std::vector<Slot> old(slots_.empty() ? kFirstSlots : slots_.size() * 2);
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.word_bytes != 0) {
      std::size_t at = slot.hash & mask;
      while (slots_[at].word_bytes != 0) {
        at = (at + 1) & mask;
      }
      slots_[at] = slot;
    }
  }
}

}  // namespace nibble::text
