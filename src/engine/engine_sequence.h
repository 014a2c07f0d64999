#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace nibble::engine {

/// A request with its place in the KV cache.
struct Engine::Sequence {
  Sequence(RequestId number, Request request, std::int64_t limit, const models::Model& model,
           const std::shared_ptr<const text::TokenTree>& tree)
      : id(number), generation(std::move(request), limit, model, tree) {}

  std::int64_t uncomputed() const { return generation.length() - computed; }

  RequestId id;
  Generation generation;
  std::vector<PageId> pages;
  std::int64_t computed = 0;   // tokens whose keys and values lie in the pages
  PrefixId prefix = 0;         // of the pages that were published or found
  std::int64_t published = 0;  // their number

  // Of the step that is being made.
  std::int64_t rows = 0;             // tokens of the sequence that it computes
  std::vector<std::int32_t> drafts;  // and those that it checks
  std::vector<std::int32_t> step;    // both
  std::int64_t logits = 0;           // rows of logits
};

}  // namespace nibble::engine
