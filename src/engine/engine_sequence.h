#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace nibble::engine {

/// A request with its place in the KV cache.
struct Engine::Sequence {
  Sequence(RequestId number, Request request, std::int64_t limit, const models::Model& model,
           const std::shared_ptr<const text::TokenTree>& tree)
      : id(number), generation(std::move(request), limit, model, tree) {}

  /// Tokens that are there when the steps under way have ended.
  std::int64_t length() const { return generation.length() + unseen; }
  std::int64_t uncomputed() const { return length() - computed; }
  /// Whether another token may follow those.
  bool goes_on() const { return !generation.finished() && generation.room() > unseen; }

  RequestId id;
  Generation generation;
  std::vector<PageId> pages;
  std::int64_t computed = 0;   // tokens whose keys and values lie in the pages, or soon will
  PrefixId prefix = 0;         // of the pages that were published or found
  std::int64_t published = 0;  // their number

  std::optional<SwappedPages::Id> swapped;  // while it waits
  std::int64_t swapped_tokens = 0;          // computed ones in there

  // Of steps ahead that were begun and not finished.
  std::int64_t steps = 0;   // that compute it
  std::int64_t unseen = 0;  // tokens behind those of `generation` that they choose
  std::int64_t row = 0;     // of the last of them, which chooses the last such token
};

/// What a step computes of a sequence.
struct Engine::Part {
  Sequence* sequence = nullptr;
  bool decodes = false;              // beside prompts
  std::int64_t rows = 0;             // tokens of the sequence
  std::vector<std::int32_t> drafts;  // and those that it checks

  // Since the step was begun.
  std::vector<std::int32_t> tokens;  // all of them
  std::int64_t position = 0;         // of the first
  bool ends = false;                 // whether the sequence's last token is among them
  std::int64_t logits = 0;           // rows of logits
};

}  // namespace nibble::engine
