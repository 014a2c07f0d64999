#include <algorithm>

#include "capi/inputs.h"
#include "core/error.h"
#include "eval/tasks/likelihood.h"

namespace nibble::capi {
namespace {

using core::ErrorKind;

constexpr std::size_t kTokensTogether = 4096;  // of inputs that are computed in one step

// The token that stands for an empty context.
std::int32_t first_token(const text::Tokenizer& tokenizer) {
  const auto token = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos();
  core::require(token.has_value(), ErrorKind::kUsage,
                "a context is empty, and the tokenizer has no token that begins a text");
  return *token;
}

eval::EncodedRequest encode(const text::Tokenizer& tokenizer, const nibble_input& context,
                            const nibble_input& continuation) {
  core::require(has_ids(context) == has_ids(continuation), ErrorKind::kUsage,
                "a context and its continuation must both be texts, or both ids");
  if (!has_ids(context)) {
    return eval::encode_request(
        tokenizer, {std::string(text_of(context)), std::string(text_of(continuation))});
  }
  eval::EncodedRequest request{{context.ids, context.ids + context.count},
                               {continuation.ids, continuation.ids + continuation.count}};
  core::require(!request.continuation.empty(), ErrorKind::kUsage, "a continuation has no ids");
  if (request.context.empty()) {
    request.context.push_back(first_token(tokenizer));
  }
  return request;
}

// As many of the requests as are scored together, at least one.
std::size_t batch_size(std::span<const eval::EncodedRequest> requests) {
  std::size_t tokens = 0;
  std::size_t count = 0;
  while (count < requests.size() && (count == 0 || tokens < kTokensTogether)) {
    tokens += requests[count].context.size() + requests[count].continuation.size();
    ++count;
  }
  return count;
}

void score(nibble_model& model, const Call& call, std::span<const nibble_input> contexts,
           std::span<const nibble_input> continuations, nibble_likelihood* results) {
  engine::Runner& runner = model.runner();
  std::vector<eval::EncodedRequest> requests;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    requests.push_back(encode(*model.model().tokenizer, contexts[i], continuations[i]));
  }
  std::span<const eval::EncodedRequest> rest(requests);
  while (!rest.empty()) {
    call.check();
    const auto batch = rest.first(batch_size(rest));
    const auto scores = eval::score_requests(runner, batch, model.context());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      *results++ = {scores[i].log_likelihood, scores[i].greedy ? 1 : 0,
                    static_cast<std::int32_t>(batch[i].continuation.size())};
    }
    rest = rest.subspan(batch.size());
  }
}

}  // namespace
}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" nibble_status nibble_score(nibble_model* model, const nibble_input* contexts,
                                      const nibble_input* continuations, size_t count,
                                      nibble_likelihood* results) {
  return with_model(model, [&](const Call& call) {
    require_given(results, "results");
    score(*model, call, inputs_of(contexts, count, "contexts"),
          inputs_of(continuations, count, "continuations"), results);
  });
}
