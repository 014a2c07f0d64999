#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/body_source.h"
#include "serve/failure.h"
#include "serve/health_answers.h"
#include "serve/json_request.h"
#include "serve/log_probabilities.h"
#include "serve/page.h"
#include "serve/service.h"
#include "text/stream_decoder.h"

namespace nibble::serve {
const std::vector<Service::Route>& Service::routes() {
  static const std::vector<Route> all = {
      {{"/v1/completions", "POST", false}, &Service::completions},
      {{"/v1/chat/completions", "POST", false}, &Service::chat},
      {{"/v1/embeddings", "POST", false}, &Service::embeddings},
      {{"/v1/models", "GET", false}, &Service::models},
      {{"/v1/models/", "GET", false}, &Service::models},
      {{"/tokenize", "POST", false}, &Service::tokenize},
      {{"/detokenize", "POST", false}, &Service::detokenize},
      {{"/props", "GET", false}, &Service::properties},
      {{"/metrics", "GET", false}, &Service::metrics},
      {{"/health", "GET", true}, &Service::health},
      {{"/readyz", "GET", true}, &Service::health},
      {{"/livez", "GET", true}, &Service::live},
      {{"/", "GET", true}, &Service::page},
      {{"/page.css", "GET", true}, &Service::page},
      {{"/page.js", "GET", true}, &Service::page},
      {{"/markdown.js", "GET", true}, &Service::page},
      {{"/markdown-inline.js", "GET", true}, &Service::page},
      {{"/panel.js", "GET", true}, &Service::page},
  };
  return all;
}

namespace {

// `tokens` as a JSON array, with the text of each where `tokenizer` is given.
void add_tokens(BodySections& body, std::vector<std::int32_t> tokens,
                const text::Tokenizer* tokenizer) {
  const auto kept = std::make_shared<const std::vector<std::int32_t>>(std::move(tokens));
  body.keep(kept, kept->capacity() * sizeof(std::int32_t));
  body.text("[");
  body.each(kept->size(), [tokens = kept.get(), tokenizer](std::size_t i, std::string& part) {
    const std::int32_t token = (*tokens)[i];
    part += i == 0 ? "" : ",";
    if (tokenizer == nullptr) {
      part += std::to_string(token);
    } else {
      part += fmt::format(R"({{"id":{},"piece":{}}})", token,
                          to_text(token_name(tokenizer->piece(token))));
    }
  });
  body.text("]");
}

// The text of `tokens` as a JSON string.
void add_text(BodySections& body, const std::shared_ptr<const std::vector<std::int32_t>>& tokens,
              const std::shared_ptr<const text::Tokenizer>& tokenizer, bool skip_special) {
  const auto decoder = std::make_shared<text::StreamDecoder>(tokenizer, skip_special);
  body.text("\"");
  body.each(tokens->size() + 1, [tokens, decoder](std::size_t i, std::string& part) {
    append_escaped(part, i < tokens->size() ? decoder->push((*tokens)[i]) : decoder->flush());
  });
  body.text("\"");
}

}  // namespace

void Service::tokenize(HttpRequest& request, const Responder& responder) {
  const Caller caller = caller_of(request, responder);
  work(caller, [this, responder, request = std::move(request)]() -> Then {
    const TokenizeRequest asked = read_tokenize(parse_request(request.body), limits_);
    auto tokens = asked.chat ? prompts_.tokens_of(*asked.chat) : prompts_.tokens_of(asked);
    const std::size_t count = tokens.size();
    const auto body = std::make_shared<BodySections>();
    body->text(R"({"tokens":)");
    add_tokens(*body, std::move(tokens), asked.with_pieces ? &prompts_.tokenizer() : nullptr);
    body->text(fmt::format(R"(,"count":{},"max_model_len":{}}})", count, limits_.context));
    return [body, responder] { responder->respond(json_response(body)); };
  });
}

void Service::detokenize(HttpRequest& request, const Responder& responder) {
  const Caller caller = caller_of(request, responder);
  work(caller, [this, responder, request = std::move(request)]() -> Then {
    const DetokenizeRequest asked = read_detokenize(parse_request(request.body), limits_);
    const auto tokens = std::make_shared<const std::vector<std::int32_t>>(asked.tokens);
    const auto body = std::make_shared<BodySections>();
    body->keep(tokens, tokens->size() * sizeof(std::int32_t));
    body->text(R"({"prompt":)");
    add_text(*body, tokens, model_->tokenizer, asked.skip_special);
    body->text(R"(,"content":)");
    add_text(*body, tokens, model_->tokenizer, asked.skip_special);
    body->text("}");
    return [body, responder] { responder->respond(json_response(body)); };
  });
}

void Service::models(HttpRequest& request, const Responder& responder) {
  responder->respond(models_answer(served_, request.path));
}

void Service::health(HttpRequest&, const Responder& responder) {
  const std::exception_ptr fault = engine_.fault();
  responder->respond(health_answer(working_state(), fault ? reason_of(fault) : ""));
}

void Service::live(HttpRequest&, const Responder& responder) {
  responder->respond(live_answer(working_state() != "failed"));
}

void Service::metrics(HttpRequest&, const Responder& responder) {
  const engine::EngineState state = engine_.state();
  Gauges gauges;
  gauges.running = std::min<std::int64_t>(state.running, static_cast<std::int64_t>(engine_.jobs()));
  gauges.waiting = static_cast<std::int64_t>(engine_.jobs()) - gauges.running;
  for (const auto& [key, answer] : answers_) {
    gauges.waiting += static_cast<std::int64_t>(answer->waiting());
  }
  gauges.kv_usage =
      state.pages == 0 ? 0.0
                       : static_cast<double>(state.pages_in_use) / static_cast<double>(state.pages);
  gauges.generated_tokens = state.generated_tokens;
  gauges.preemptions = state.preemptions;
  gauges.prefix_queries = state.prefix_queries;
  gauges.prefix_hits = state.prefix_hits;
  gauges.drafted_tokens = state.drafted_tokens;
  gauges.accepted_drafts = state.accepted_drafts;
  responder->respond({200,
                      {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                      metrics_.text(gauges),
                      nullptr});
}

void Service::properties(HttpRequest&, const Responder& responder) {
  const text::Tokenizer& tokenizer = prompts_.tokenizer();
  const auto piece = [&](const std::optional<std::int32_t>& token) {
    return token ? tokenizer.piece(*token) : std::string();
  };
  OrderedJson json;
  json["model_alias"] = options_.names.front();
  json["default_generation_settings"] = {{"n_ctx", limits_.context}};
  json["chat_template"] = options_.chat_template;
  json["bos_token"] = piece(tokenizer.bos());
  json["eos_token"] = piece(tokenizer.eos());
  json["model"] = to_json(options_.facts, limits_.context);
  responder->respond(json_response(200, to_text(json)));
}

void Service::page(HttpRequest& request, const Responder& responder) {
  responder->respond(*page_of(request.path));
}

}  // namespace nibble::serve
