#include "serve/encoder_requests.h"

#include <algorithm>

#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/api_error.h"
#include "serve/json_request.h"

namespace nibble::serve {
namespace {

Truncation read_truncation(const Fields& fields) {
  Truncation truncation;
  truncation.cut = fields.boolean("truncate").value_or(false);
  if (const auto most = fields.integer("truncate_prompt_tokens", -1, INT32_MAX)) {
    if (*most == 0) {
      refuse("truncate_prompt_tokens", "'truncate_prompt_tokens' is 0, must be at least 1, or -1");
    }
    truncation.cut = true;
    truncation.most_tokens = *most > 0 ? most : std::nullopt;
  }
  return truncation;
}

std::string need_string(const Fields& fields, const char* name) {
  auto text = fields.string(name);
  if (!text) {
    refuse(name, "'{}' is missing", name);
  }
  return *std::move(text);
}

// "a text" or {"text": "a text"}.
std::string read_document(const OrderedJson& json, const std::string& param) {
  if (json.is_string()) {
    return json.get<std::string>();
  }
  if (json.is_object()) {
    if (auto text = Fields(json, param + ".").string("text")) {
      return *std::move(text);
    }
  }
  refuse(param, "'{}' is {}, must be a string, or an object with 'text'", param, type_name(json));
}

std::vector<std::string> read_texts(const Fields& fields, const char* name, bool one_alone) {
  const OrderedJson* json = fields.find(name);
  if (json == nullptr) {
    refuse(name, "'{}' is missing", name);
  }
  if (one_alone && json->is_string()) {
    return {json->get<std::string>()};
  }
  if (!json->is_array() || json->empty() || json->size() > kMaxInputs) {
    refuse(name, "'{}' must be an array of 1 to {} texts", name, kMaxInputs);
  }
  std::vector<std::string> texts;
  for (const OrderedJson& text : *json) {
    texts.push_back(read_document(text, fmt::format("{}[{}]", name, texts.size())));
  }
  return texts;
}

}  // namespace

EncoderEmbeddingsRequest read_encoder_embeddings(const OrderedJson& json,
                                                 const RequestLimits& limits) {
  EncoderEmbeddingsRequest request;
  request.truncation = read_truncation(Fields(json));
  request.fields = read_embedding_fields(json, limits);
  return request;
}

RerankRequest read_rerank(const OrderedJson& json) {
  const Fields fields(json);
  RerankRequest request;
  request.model = fields.string("model").value_or("");
  request.query = need_string(fields, "query");
  const bool tei = fields.find("texts") != nullptr && fields.find("documents") == nullptr;
  request.form = tei ? RerankRequest::Form::kTei : RerankRequest::Form::kVllm;
  request.documents = read_texts(fields, tei ? "texts" : "documents", false);
  request.with_texts = fields.boolean(tei ? "return_text" : "return_documents").value_or(!tei);
  request.raw_scores = fields.boolean("raw_scores").value_or(false);
  // 0 means all, as in vLLM.
  const auto top = static_cast<std::size_t>(fields.integer("top_n", 0, INT32_MAX).value_or(0));
  request.top = top == 0 ? request.documents.size() : std::min(top, request.documents.size());
  request.truncation = read_truncation(fields);
  return request;
}

ScoreRequest read_score(const OrderedJson& json) {
  const Fields fields(json);
  ScoreRequest request;
  request.model = fields.string("model").value_or("");
  request.firsts = read_texts(fields, "text_1", true);
  request.seconds = read_texts(fields, "text_2", true);
  if (request.firsts.size() != 1 && request.firsts.size() != request.seconds.size()) {
    refuse("text_2", "'text_1' has {} texts and 'text_2' {}; give one, or as many",
           request.firsts.size(), request.seconds.size());
  }
  request.truncation = read_truncation(fields);
  return request;
}

}  // namespace nibble::serve
