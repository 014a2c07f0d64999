#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/json_text.h"
#include "serve/openai_requests.h"

/// The requests that an encoder answers, checked as those of openai_requests.h.
namespace nibble::serve {

/// What happens to inputs that are too long: "truncate" of text-embeddings-inference, and
/// "truncate_prompt_tokens" of vLLM, whose -1 means what the model takes.
struct Truncation {
  bool cut = false;                         // else they are refused
  std::optional<std::int64_t> most_tokens;  // that remain
};

/// /v1/embeddings.
struct EncoderEmbeddingsRequest {
  EmbeddingsRequest fields;
  Truncation truncation;
};

/// /v1/rerank: documents in the order of their relevance to a query.
struct RerankRequest {
  /// vLLM's form (that of Jina and Cohere), of which "documents" tells, and that of
  /// text-embeddings-inference, of which "texts" does.
  enum class Form { kVllm, kTei };
  Form form = Form::kVllm;
  std::string model;
  std::string query;
  std::vector<std::string> documents;
  std::size_t top = 0;      // documents that are wanted: 1 to all
  bool with_texts = true;   // in the answer
  bool raw_scores = false;  // logits, not their logistic function
  Truncation truncation;
};

/// /v1/score: one text beside many, or texts beside as many.
struct ScoreRequest {
  std::string model;
  std::vector<std::string> firsts;  // one, or as many as `seconds`
  std::vector<std::string> seconds;
  Truncation truncation;
};

EncoderEmbeddingsRequest read_encoder_embeddings(const OrderedJson& json,
                                                 const RequestLimits& limits);
RerankRequest read_rerank(const OrderedJson& json);
ScoreRequest read_score(const OrderedJson& json);

}  // namespace nibble::serve
