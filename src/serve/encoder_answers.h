#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/encoder_requests.h"
#include "serve/http_message.h"

namespace nibble::serve {

/// What every answer of a request says.
struct ScoringHead {
  std::string id;
  std::string model;
  std::int64_t created = 0;  // Unix seconds
  std::int64_t tokens = 0;   // of all inputs
};

/// Of /v1/rerank: the most relevant documents first, of equal ones the earlier. `scores` has one
/// for each document.
HttpResponse rerank_answer(const ScoringHead& head, const RerankRequest& request,
                           const std::vector<double>& scores);

/// Of /v1/score: one score for each pair, in their order.
HttpResponse score_answer(const ScoringHead& head, const std::vector<double>& scores);

}  // namespace nibble::serve
