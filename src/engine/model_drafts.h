#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engine/drafts.h"
#include "engine/page_pool.h"
#include "engine/runner.h"

namespace nibble::engine {

/// Guesses with a smaller model of the same vocabulary, which always takes its most probable token.
class ModelDrafts final : public DraftSource {
 public:
  /// `sequences` of `context` tokens have room in the KV cache of `runner`, which is made here.
  /// Throws kOutOfMemory.
  ModelDrafts(std::unique_ptr<Runner> runner, std::int64_t most, std::int64_t sequences,
              std::int64_t context);

  std::int64_t most() const override { return most_; }
  void draft(std::span<const DraftRequest> requests,
             std::vector<std::vector<std::int32_t>>& drafts) override;
  void forget(std::uint64_t id) override;

 private:
  // What the small model has computed of a sequence.
  struct Seen {
    std::vector<PageId> pages;
    std::vector<std::int32_t> tokens;
  };

  Seen& catch_up(const DraftRequest& request);

  std::unique_ptr<Runner> runner_;
  std::int64_t most_;
  std::int64_t context_;
  PagePool pages_;
  std::map<std::uint64_t, Seen> seen_;
};

/// Throws kUsage unless drafts of one model can be checked by the other: the same vocabulary, token
/// by token.
void require_same_vocabulary(const models::Model& model, const models::Model& drafts);

}  // namespace nibble::engine
