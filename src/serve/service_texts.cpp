#include <algorithm>
#include <utility>

#include "core/error.h"
#include "serve/answer.h"
#include "serve/embeddings_answer.h"
#include "serve/failure.h"
#include "serve/json_request.h"
#include "serve/prepared_text.h"
#include "serve/service.h"

// The routes for which the engine works, and what all routes with a body do first.
namespace nibble::serve {
namespace {

constexpr std::size_t kShortBytes = 16 << 10;  // a few thousand tokens, or texts of an array
constexpr std::size_t kEmbeddingsAtATime = 4;  // they are computed one after the other

}  // namespace

// ---- work on requests

Service::Caller Service::caller_of(const HttpRequest& request, const Responder& responder) const {
  const std::size_t owner = keys_.find(request).value_or(0);
  const bool is_short = request.body.size() <= kShortBytes;
  return {responder, request.id, fmt::format("{} {}", owner, request.client), owner,
          is_short ? Work::Kind::kShort : Work::Kind::kLong};
}

void Service::work(const Caller& caller, std::function<Then()> make) {
  Work work;
  work.client = caller.client;
  work.kind = caller.kind;
  work.in_vain = [responder = caller.responder] { return responder->gone(); };
  work.run = [this, kind = work.kind, responder = caller.responder, id = caller.request,
              make = std::move(make)]() mutable {
    const auto answer_failure = [this, id, responder] {
      responder->respond(explain_failure(std::current_exception(), id, log_).response());
    };
    try {
      server_.post([then = make(), answer_failure] {
        try {
          then();
        } catch (const std::exception&) {
          answer_failure();
        }
      });
    } catch (const std::exception&) {
      answer_failure();
    }
    make = nullptr;
    untidy_ = untidy_ || kind == Work::Kind::kLong;
  };
  if (!workers_.post(std::move(work))) {
    throw queue_full();
  }
}

ApiError Service::queue_full() {
  metrics_.rejected();
  ApiError error(429, "rate_limit_error", "the server's queue is full; try again later", "",
                 "queue_full");
  error.retry_after = 1;
  return error;
}

Admission::Place Service::admit(std::size_t texts, std::size_t tokens) {
  auto place = admission_.take(texts, tokens);
  if (!place) {
    throw queue_full();
  }
  return *std::move(place);
}

Explain Service::explain_to(const Caller& caller) const {
  return [id = caller.request, log = log_](const std::exception_ptr& failure) {
    return explain_failure(failure, id, log);
  };
}

// ---- texts

void Service::completions(HttpRequest& request, const Responder& responder) {
  const Caller caller = caller_of(request, responder);
  work(caller, [this, caller, request = std::move(request)]() -> Then {
    const CompletionRequest asked = read_completion(parse_request(request.body), limits_);
    check_model(asked.model);
    const auto prepared = std::make_shared<PreparedText>(prepare(asked, prompts_, caller.owner));
    return [this, prepared, caller] { prepare_grammar(prepared, caller); };
  });
}

void Service::chat(HttpRequest& request, const Responder& responder) {
  const Caller caller = caller_of(request, responder);
  work(caller, [this, caller, request = std::move(request)]() -> Then {
    const ChatRequest asked = read_chat(parse_request(request.body), limits_);
    check_model(asked.model);
    const auto prepared = std::make_shared<PreparedText>(prepare(
        asked, prompts_, options_.tool_format.value_or(prompts_.tool_format()), caller.owner));
    return [this, prepared, caller] { prepare_grammar(prepared, caller); };
  });
}

void Service::prepare_grammar(const std::shared_ptr<PreparedText>& prepared, const Caller& caller) {
  if (!prepared->make_grammar) {
    start(*prepared, caller);
    return;
  }
  Caller again = caller;
  again.kind = Work::Kind::kGrammar;
  work(again, [this, prepared, caller]() -> Then {
    prepared->request.grammar = prepared->make_grammar();
    return [this, prepared, caller] { start(*prepared, caller); };
  });
}

void Service::start(PreparedText& prepared, const Caller& caller) {
  AnswerPlan& plan = prepared.plan;
  const std::size_t texts = plan.prompts.size() * static_cast<std::size_t>(plan.texts);
  const std::size_t at_a_time = std::min({texts, texts_at_a_time_, options_.max_jobs});
  std::size_t tokens = 0;
  for (const auto& prompt : plan.prompts) {
    tokens += prompt.size() * static_cast<std::size_t>(plan.texts);
  }
  Admission::Place place = admit(at_a_time, tokens);
  begin_answer(plan.head, options_.names.front());
  for (const auto& prompt : plan.prompts) {
    metrics_.accepted(static_cast<std::int64_t>(prompt.size()), plan.choices,
                      std::min(prepared.request.max_tokens, limits_.context));
  }
  const auto answer = std::make_shared<Answer>(
      std::move(plan), caller.responder, prompts_.tokenizer(), engine_, metrics_,
      explain_to(caller), [this](PendingAnswer& done) { forget(done); });
  answers_.emplace(answer.get(), answer);
  answer->start(std::move(prepared.request), at_a_time, std::move(place));
}

void Service::embeddings(HttpRequest& request, const Responder& responder) {
  const Caller caller = caller_of(request, responder);
  work(caller, [this, caller, request = std::move(request)]() -> Then {
    const EmbeddingsRequest asked = read_embeddings(parse_request(request.body), limits_);
    check_model(asked.model);
    const std::int64_t width = model_->network.output.k();
    if (asked.dimensions && *asked.dimensions != width) {
      serve::refuse("dimensions",
                    "this model's embeddings have {} dimensions; others are not supported", width);
    }
    const auto plan = std::make_shared<EmbeddingsPlan>();
    plan->model = options_.names.front();
    plan->base64 = asked.base64;
    for (const Prompt& input : asked.inputs) {
      plan->inputs.push_back(prompts_.encode(input, true, "input"));
      plan->tokens += static_cast<std::int64_t>(plan->inputs.back().size());
    }
    return [this, plan, caller] {
      const std::size_t at_a_time =
          std::min({plan->inputs.size(), kEmbeddingsAtATime, options_.max_jobs});
      Admission::Place place = admit(at_a_time, static_cast<std::size_t>(plan->tokens));
      const auto answer = std::make_shared<EmbeddingsAnswer>(
          std::move(*plan), caller.responder, engine_, explain_to(caller),
          [this](PendingAnswer& done) { forget(done); });
      answers_.emplace(answer.get(), answer);
      answer->start(at_a_time, std::move(place));
    };
  });
}

}  // namespace nibble::serve
