#include "serve/service.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/freed_memory.h"
#include "core/memory_reserve.h"
#include "serve/failure.h"

namespace nibble::serve {
namespace {

constexpr auto kTidyTime = std::chrono::seconds(1);
constexpr auto kLastWords = std::chrono::milliseconds(500);  // for answers, before all ends

}  // namespace

Service::Service(std::shared_ptr<const models::Model> model, std::unique_ptr<engine::Engine> engine,
                 Listener listener, ServiceOptions options, LogSink log)
    : model_(std::move(model)),
      options_(std::move(options)),
      log_(std::move(log)),
      keys_(options_.keys),
      limits_{static_cast<std::int32_t>(model_->network.config.vocabulary), engine->context()},
      prompts_(model_->tokenizer, options_.chat_template, engine->context()),
      metrics_(options_.names.front(), engine->context()),
      served_{options_.names,
              std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count(),
              engine->context()},
      // One place of the batch is left to others.
      texts_at_a_time_(
          static_cast<std::size_t>(std::max<std::int64_t>(1, engine->max_batch() - 1))),
      admission_(options_.max_jobs, options_.max_tokens),
      server_(std::move(listener), options_.http, *this, log_),
      engine_(std::move(engine),
              [this](std::function<void()> call) { server_.post(std::move(call)); }),
      workers_(options_.workers) {
  if (!options_.chat_template.empty() && !prompts_.template_error().empty()) {
    log_({LogLevel::kWarning, prompts_.template_error(), {}});
  }
}

Service::~Service() = default;

Outcome Service::run() {
  server_.run();
  return outcome_;
}

void Service::stop_on_signals(const std::vector<int>& signals) {
  server_.on_signal(signals, [this](int) {
    if (draining_) {
      outcome_ = outcome_ == Outcome::kStopped ? Outcome::kHurried : outcome_;
      server_.stop(std::chrono::milliseconds(0));
      return;
    }
    begin_drain("a signal");
  });
}

void Service::drain() {
  server_.post([this] { begin_drain("a call"); });
}

void Service::begin_drain(const std::string& why) {
  if (draining_) {
    return;
  }
  draining_ = true;
  drain_until_ = std::chrono::steady_clock::now() + options_.shutdown_time;
  log_({LogLevel::kInfo,
        "shutting down; a second signal does not wait",
        {{"because_of", why}, {"unanswered", std::to_string(server_.unanswered())}}});
}

// ---- what comes in

const Service::Route* Service::find_route(const std::string& path) {
  for (const Route& route : routes()) {
    if (is_path_of(route, path)) {
      return &route;
    }
  }
  return nullptr;
}

std::optional<HttpResponse> Service::refuse(const HttpRequest& head) {
  return refuse_head(head, find_route(head.path), keys_, draining_ || given_up_);
}

void Service::handle(HttpRequest request, std::shared_ptr<HttpResponder> responder) {
  const Route* route = find_route(request.path);  // refuse() has seen to it that there is one
  try {
    (this->*route->serve)(request, responder);
  } catch (const ApiError& error) {
    responder->respond(error.response());
  }
}

HttpResponse Service::error(int status, const std::string& message) {
  return plain_error(status, message).response();
}

void Service::finished(const HttpRecord& record) {
  const Route* route = find_route(record.path);
  untidy_ = untidy_ || record.large;
  metrics_.http_request(route == nullptr ? "other" : route->path, known_method(record),
                        record.status);
  const bool quiet =
      record.status < 400 && route != nullptr && std::string_view(route->method) == "GET";
  if (quiet) {
    return;
  }
  log_(log_record(record));
}

// ---- about ten times a second

void Service::tick() {
  if (given_up_) {
    return;
  }
  core::keep_memory_reserve();  // a request may have used it up
  if (engine_.failure()) {
    explain_failure(engine_.failure(), "", log_);
    give_up(Outcome::kFailed, plain_error(503, "the engine failed; the server ends"));
    return;
  }
  if (engine_.step_time() > options_.step_time) {
    log_({LogLevel::kError,
          "a step of the engine does not end; the server does",
          {{"seconds", fmt::format("{:.1f}", engine_.step_time().count())}}});
    give_up(Outcome::kHung, plain_error(503, "the engine does not answer; the server ends"));
    return;
  }
  tick_answers();
  tidy_memory();
  if (!draining_) {
    return;
  }
  const bool late = std::chrono::steady_clock::now() > drain_until_;
  if (late) {
    for (const auto& answer : pending()) {
      answer->fail(draining_error());
    }
  }
  if (late || server_.unanswered() == 0) {
    server_.stop(kLastWords);
  }
}

std::vector<std::shared_ptr<PendingAnswer>> Service::pending() const {
  std::vector<std::shared_ptr<PendingAnswer>> all;
  for (const auto& [key, answer] : answers_) {
    all.push_back(answer);
  }
  return all;
}

void Service::tick_answers() {
  const auto latest = std::chrono::steady_clock::now() - options_.request_time;
  for (const auto& answer : pending()) {
    if (answer->began() < latest) {
      answer->fail(plain_error(504, fmt::format("the request took more than {} seconds",
                                                options_.request_time.count())));
    }
  }
}

// What large requests leave free in the allocator's hands goes back to the system.
void Service::tidy_memory() {
  const auto now = std::chrono::steady_clock::now();
  if (now - tidied_ < kTidyTime || !untidy_.exchange(false)) {
    return;
  }
  tidied_ = now;
  workers_.post({"", Work::Kind::kLong, nullptr, &core::release_freed_memory});
}

void Service::give_up(Outcome outcome, const ApiError& error) {
  given_up_ = true;
  outcome_ = outcome;
  for (const auto& answer : pending()) {
    answer->fail(error);
  }
  server_.stop(kLastWords);
}

std::string Service::working_state() const {
  return given_up_ || engine_.failure() ? "failed"
         : draining_                    ? "draining"
         : engine_.fault()              ? "failing"
                                        : "ok";
}

}  // namespace nibble::serve
