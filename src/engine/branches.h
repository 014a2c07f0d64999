#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/kv_pages.h"

namespace nibble::engine {

/// Which pages of a KV cache hold the sequences that the rows of a step continue, where several
/// rows may go on from the same row of the step before (the beams of a search). They share its full
/// pages; only a page that is written on by more than one of them is copied. The pages' contents
/// lie elsewhere.
class Branches {
 public:
  /// Of a cache of so many pages: enough are ceil(tokens / kPageTokens) for each row of a step.
  explicit Branches(std::int64_t pages);

  /// Page `to` is to get what page `from` holds, before anything is written.
  struct Copy {
    ops::PageId from;
    ops::PageId to;
  };

  /// The next step: row i continues row parents[i] of the step before by a token, or begins a
  /// sequence where that is -1. Returns what must be copied first. Throws kFailed for a parent that
  /// there is not, and where the pages do not suffice.
  std::vector<Copy> advance(std::span<const std::int64_t> parents);

  /// Of a row of the step: the position of its token, and the pages up to that of this token.
  std::int64_t position(std::int64_t row) const { return at(row).position; }
  std::span<const ops::PageId> pages(std::int64_t row) const { return at(row).pages; }

 private:
  struct Branch {
    std::vector<ops::PageId> pages;
    std::int64_t position = 0;
  };
  const Branch& at(std::int64_t row) const { return branches_[static_cast<std::size_t>(row)]; }

  Branch continued(std::int64_t parent);
  ops::PageId take();
  void release(ops::PageId page);
  std::int64_t& users(ops::PageId page) { return users_[static_cast<std::size_t>(page)]; }

  std::vector<std::int64_t> users_;  // rows that read a page, of each
  std::vector<ops::PageId> free_;    // the last is taken next
  std::vector<Branch> branches_;     // of the step
};

}  // namespace nibble::engine
