#include <exception>
#include <string_view>
#include <utility>

#include "capi/generate.h"
#include "capi/inputs.h"
#include "capi/returned.h"
#include "core/error.h"
#include "core/ordered_json.h"
#include "serve/answer.h"
#include "serve/body_source.h"
#include "serve/json_request.h"
#include "serve/metrics.h"
#include "serve/model_list.h"
#include "serve/prepared_text.h"

namespace nibble::capi {
namespace {

constexpr int kServerError = 500;

// The JSON of the events in a part of a stream, but for the mark of its end.
template <typename Take>
void for_each_event(std::string_view part, Take take) {
  constexpr std::string_view kData = "data: ";
  constexpr std::string_view kEnd = "\n\n";
  while (part.starts_with(kData)) {
    const std::size_t end = part.find(kEnd);
    const std::string_view json = part.substr(kData.size(), end - kData.size());
    if (json != "[DONE]") {
      take(std::string(json));
    }
    part.remove_prefix(end == std::string_view::npos ? part.size() : end + kEnd.size());
  }
}

// Takes what a server would send to its client.
class AnswerTaker final : public serve::HttpResponder {
 public:
  AnswerTaker(nibble_event_callback on_event, void* user) : on_event_(on_event), user_(user) {}

  void respond(serve::HttpResponse response) override {
    body_ = std::move(response.body);
    while (response.source && response.source->append(body_)) {
    }
  }
  void begin_stream(serve::HttpHeaders, std::string) override { streams_ = true; }
  void send(std::string part) override {
    for_each_event(part, [this](const std::string& json) {
      if (!failure_ && on_event_(user_, json.c_str()) != 0) {
        throw Cancelled();
      }
    });
  }
  void end() override {}
  void on_disconnect(std::function<void()>) override {}
  bool gone() const override { return false; }

  /// What is said to clients of a failure does not say why.
  serve::ApiError keep(const std::exception_ptr& failure) {
    failure_ = failure;
    return serve::plain_error(kServerError, "the request failed");
  }
  void rethrow() const {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

  bool streams() const { return streams_; }
  const std::string& body() const { return body_; }

 private:
  nibble_event_callback on_event_;
  void* user_;
  bool streams_ = false;
  std::string body_;
  std::exception_ptr failure_;
};

// A request and the model's name in its answer.
std::pair<serve::PreparedText, std::string> prepare(nibble_model& model, std::string_view route,
                                                    const serve::OrderedJson& json) {
  const serve::Prompts& prompts = model.prompts();
  const serve::RequestLimits limits{
      static_cast<std::int32_t>(model.model().network.config.vocabulary), prompts.context()};
  if (route == "completions") {
    const serve::CompletionRequest asked = serve::read_completion(json, limits);
    return {serve::prepare(asked, prompts, 0), asked.model};
  }
  core::require(route == "chat/completions", core::ErrorKind::kUsage,
                "there is no route '{}'; use completions or chat/completions",
                core::printable(route));
  const serve::ChatRequest asked = serve::read_chat(json, limits);
  return {serve::prepare(asked, prompts, prompts.tool_format(), 0), asked.model};
}

void answer(nibble_model& model, const Call& call, serve::PreparedText prepared,
            const std::shared_ptr<AnswerTaker>& taker) {
  serve::Metrics metrics("", model.context());
  if (prepared.make_grammar) {
    prepared.request.grammar = prepared.make_grammar();
  }
  run_jobs(model, call, [&](CalledEngine& engine) {
    const auto all = std::make_shared<serve::Answer>(
        std::move(prepared.plan), taker, *model.model().tokenizer, engine, metrics,
        [taker](const std::exception_ptr& failure) { return taker->keep(failure); }, nullptr);
    all->start(std::move(prepared.request), static_cast<std::size_t>(engine.engine().max_batch()),
               {});
  });
}

}  // namespace
}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" {

nibble_status nibble_openai(nibble_model* model, const char* route, const char* request,
                            nibble_event_callback on_event, void* user, char** answer_text) {
  return with_model(model, [&](const Call& call) {
    require_given(answer_text, "answer");
    const auto json = nibble::serve::parse_request(required_text(request, "request"));
    auto [prepared, name] = prepare(*model, required_text(route, "route"), json);
    nibble::core::require(!prepared.plan.stream || on_event != nullptr,
                          nibble::core::ErrorKind::kUsage,
                          "a request with \"stream\": true needs an event callback");
    nibble::serve::begin_answer(
        prepared.plan.head,
        name.empty() ? nibble::serve::name_of_model(model->settings().path) : name);
    const auto taker = std::make_shared<AnswerTaker>(on_event, user);
    answer(*model, call, std::move(prepared), taker);
    taker->rethrow();
    *answer_text = taker->streams() ? nullptr : returned(std::string_view(taker->body())).release();
  });
}
}
