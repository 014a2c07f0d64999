#include "serve/health_answers.h"

#include "core/ordered_json.h"
#include "serve/json_text.h"

namespace nibble::serve {

HttpResponse health_answer(const std::string& state, const std::string& reason) {
  OrderedJson json;
  json["status"] = state;
  json["live"] = state != "failed";
  json["ready"] = state == "ok";
  if (!reason.empty()) {
    json["reason"] = reason;
  }
  return json_response(state == "ok" ? 200 : 503, to_text(json));
}

HttpResponse live_answer(bool lives) {
  OrderedJson json;
  json["live"] = lives;
  return json_response(lives ? 200 : 503, to_text(json));
}

}  // namespace nibble::serve
