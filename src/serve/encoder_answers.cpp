#include "serve/encoder_answers.h"

#include <algorithm>
#include <numeric>

#include "core/ordered_json.h"

namespace nibble::serve {
namespace {

OrderedJson usage_of(const ScoringHead& head) {
  OrderedJson json;
  json["prompt_tokens"] = head.tokens;
  json["total_tokens"] = head.tokens;
  return json;
}

// Numbers of the documents, the most relevant first.
std::vector<std::size_t> ranked(const std::vector<double>& scores, std::size_t top) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  order.resize(top);
  return order;
}

HttpResponse tei_answer(const RerankRequest& request, const std::vector<double>& scores) {
  OrderedJson list = OrderedJson::array();
  for (const std::size_t i : ranked(scores, request.top)) {
    OrderedJson json;
    json["index"] = i;
    if (request.with_texts) {
      json["text"] = request.documents[i];
    }
    json["score"] = scores[i];
    list.push_back(std::move(json));
  }
  return json_response(200, to_text(list));
}

}  // namespace

HttpResponse rerank_answer(const ScoringHead& head, const RerankRequest& request,
                           const std::vector<double>& scores) {
  if (request.form == RerankRequest::Form::kTei) {
    return tei_answer(request, scores);
  }
  OrderedJson results = OrderedJson::array();
  for (const std::size_t i : ranked(scores, request.top)) {
    OrderedJson json;
    json["index"] = i;
    if (request.with_texts) {
      json["document"]["text"] = request.documents[i];
    }
    json["relevance_score"] = scores[i];
    results.push_back(std::move(json));
  }
  OrderedJson json;
  json["id"] = "rerank-" + head.id;
  json["model"] = head.model;
  json["usage"] = usage_of(head);
  json["results"] = std::move(results);
  return json_response(200, to_text(json));
}

HttpResponse score_answer(const ScoringHead& head, const std::vector<double>& scores) {
  OrderedJson data = OrderedJson::array();
  for (const double score : scores) {
    OrderedJson json;
    json["index"] = data.size();
    json["object"] = "score";
    json["score"] = score;
    data.push_back(std::move(json));
  }
  OrderedJson json;
  json["id"] = "score-" + head.id;
  json["object"] = "list";
  json["created"] = head.created;
  json["model"] = head.model;
  json["data"] = std::move(data);
  json["usage"] = usage_of(head);
  return json_response(200, to_text(json));
}

}  // namespace nibble::serve
