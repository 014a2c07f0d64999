#include "engine/model_drafts.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::engine {
namespace {

constexpr std::size_t kPrefillRows = 512;  // tokens computed in one step to catch up

}  // namespace

ModelDrafts::ModelDrafts(std::unique_ptr<Runner> runner, std::int64_t most, std::int64_t sequences,
                         std::int64_t context)
    : runner_(std::move(runner)),
      most_(most),
      context_(context),
      pages_(sequences * ops::pages_for(context)) {
  runner_->make_pages(pages_.size());
}

// Forgets what was guessed wrong, and computes what is new but for the last token.
ModelDrafts::Seen& ModelDrafts::catch_up(const DraftRequest& request) {
  Seen& seen = seen_[request.id];
  const auto same = std::mismatch(seen.tokens.begin(), seen.tokens.end(), request.tokens.begin(),
                                  request.tokens.end());
  seen.tokens.erase(same.first, seen.tokens.end());
  seen.tokens.resize(std::min(seen.tokens.size(), request.tokens.size() - 1));
  const std::int64_t most = std::ssize(request.tokens) + request.count;
  while (std::ssize(seen.pages) < ops::pages_for(most)) {
    const std::optional<PageId> page = pages_.take();
    core::require(page.has_value(), core::ErrorKind::kFailed,
                  "the KV cache of the draft model is full");
    seen.pages.push_back(*page);
  }
  while (seen.tokens.size() + 1 < request.tokens.size()) {
    const auto rest = request.tokens.subspan(seen.tokens.size());
    const auto part = rest.first(std::min(kPrefillRows, rest.size() - 1));
    const Slice slice{seen.pages, std::ssize(seen.tokens), part, 0};
    runner_->forward({&slice, 1});
    seen.tokens.insert(seen.tokens.end(), part.begin(), part.end());
  }
  return seen;
}

void ModelDrafts::draft(std::span<const DraftRequest> requests,
                        std::vector<std::vector<std::int32_t>>& drafts) {
  drafts.assign(requests.size(), {});
  struct Open {
    const DraftRequest* request;
    Seen* seen;
    std::vector<std::int32_t>* drafts;
    std::int32_t next;  // not computed yet
  };
  std::vector<Open> open;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    if (request.count > 0 && std::ssize(request.tokens) + request.count <= context_) {
      open.push_back({&request, &catch_up(request), &drafts[i], request.tokens.back()});
    }
  }
  std::vector<ops::RankedToken> ranked;
  while (!open.empty()) {
    std::vector<Slice> slices;
    for (const Open& each : open) {
      slices.push_back({each.seen->pages, std::ssize(each.seen->tokens), {&each.next, 1}});
    }
    runner_->forward_ranked(slices, 1, ranked);
    for (std::size_t i = 0; i < open.size(); ++i) {
      open[i].seen->tokens.push_back(open[i].next);
      open[i].next = ranked[i].id;
      if (ranked[i].id >= 0) {  // else it computed NaN
        open[i].drafts->push_back(ranked[i].id);
      }
    }
    std::erase_if(open, [](const Open& each) {
      return each.next < 0 || std::ssize(*each.drafts) >= each.request->count;
    });
  }
}

void ModelDrafts::forget(std::uint64_t id) {
  const auto at = seen_.find(id);
  if (at == seen_.end()) {
    return;
  }
  for (const PageId page : at->second.pages) {
    pages_.release(page);
  }
  seen_.erase(at);
}

void require_same_vocabulary(const models::Model& model, const models::Model& drafts) {
  const std::int64_t vocabulary = model.network.config.vocabulary;
  core::require(drafts.network.config.vocabulary == vocabulary, core::ErrorKind::kUsage,
                "the draft model has a vocabulary of {} tokens, the model one of {}",
                drafts.network.config.vocabulary, vocabulary);
  for (std::int64_t id = 0; id < vocabulary; ++id) {
    const auto token = static_cast<std::int32_t>(id);
    core::require(model.tokenizer->piece(token) == drafts.tokenizer->piece(token),
                  core::ErrorKind::kUsage,
                  "token {} is '{}' in the model and '{}' in the draft model", id,
                  core::printable(model.tokenizer->piece(token)),
                  core::printable(drafts.tokenizer->piece(token)));
  }
}

}  // namespace nibble::engine
