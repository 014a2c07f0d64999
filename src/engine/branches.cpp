#include "engine/branches.h"

#include "core/error.h"

namespace nibble::engine {

using core::ErrorKind;
using ops::kPageTokens;
using ops::PageId;

Branches::Branches(std::int64_t pages) : users_(static_cast<std::size_t>(pages)) {
  for (std::int64_t page = pages; page > 0; --page) {
    free_.push_back(static_cast<PageId>(page - 1));
  }
}

std::vector<Branches::Copy> Branches::advance(std::span<const std::int64_t> parents) {
  std::vector<Branch> next;
  for (const std::int64_t parent : parents) {
    next.push_back(continued(parent));
  }
  for (const Branch& branch : branches_) {
    for (const PageId page : branch.pages) {
      release(page);
    }
  }
  branches_ = std::move(next);
  std::vector<Copy> copies;
  for (Branch& branch : branches_) {
    if (branch.position % kPageTokens == 0) {
      branch.pages.push_back(take());
    } else if (users(branch.pages.back()) > 1) {
      const PageId shared = branch.pages.back();
      branch.pages.back() = take();
      release(shared);
      copies.push_back({shared, branch.pages.back()});
    }
  }
  return copies;
}

Branches::Branch Branches::continued(std::int64_t parent) {
  if (parent == -1) {
    return {};
  }
  core::require(parent >= 0 && parent < std::ssize(branches_), ErrorKind::kFailed,
                "row {} is none of the {} of the step before", parent, branches_.size());
  Branch branch = at(parent);
  ++branch.position;
  for (const PageId page : branch.pages) {
    ++users(page);
  }
  return branch;
}

PageId Branches::take() {
  core::require(!free_.empty(), ErrorKind::kFailed, "all {} pages of the KV cache are in use",
                users_.size());
  const PageId page = free_.back();
  free_.pop_back();
  users(page) = 1;
  return page;
}

void Branches::release(PageId page) {
  if (--users(page) == 0) {
    free_.push_back(page);
  }
}

}  // namespace nibble::engine
