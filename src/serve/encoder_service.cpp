#include "serve/encoder_service.h"

#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/memory_reserve.h"
#include "core/ordered_json.h"
#include "serve/failure.h"
#include "serve/health_answers.h"
#include "serve/json_request.h"

namespace nibble::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLastWords = std::chrono::milliseconds(500);  // for answers, before all ends

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Whether config.json wants the one output of a cross-encoder as it is, without the logistic
// function (sentence-transformers: activation_fn, in earlier versions
// sbert_ce_default_activation_function).
bool wants_raw_scores(const core::Json& config) {
  const auto settings = config.find("sentence_transformers");
  const bool nested = settings != config.end() && settings->is_object();
  const auto name =
      nested ? core::find_string(*settings, "activation_fn", "config.json")
             : core::find_string(config, "sbert_ce_default_activation_function", "config.json");
  return name && name->ends_with("Identity");
}

}  // namespace

EncoderService::EncoderService(std::shared_ptr<const models::Model> model,
                               std::unique_ptr<engine::Encoder> encoder, Listener listener,
                               ServiceOptions options, LogSink log)
    : model_(std::move(model)),
      encoder_(std::move(encoder)),
      options_(std::move(options)),
      log_(std::move(log)),
      keys_(options_.keys),
      inputs_(engine::input_options(*model_, *encoder_)),
      limits_{static_cast<std::int32_t>(model_->network.config.vocabulary), inputs_.most_tokens},
      raw_scores_(wants_raw_scores(*model_->config_json)),
      metrics_(options_.names.front(), inputs_.most_tokens),
      served_{options_.names, unix_seconds(), inputs_.most_tokens},
      admission_(options_.max_jobs, options_.max_tokens),
      server_(std::move(listener), options_.http, *this, log_),
      workers_(options_.workers),
      loop_(*encoder_, inputs_.batch_tokens,
            [this](const JobPointer& job, const std::exception_ptr& error) {
              computed(job, error);
            }) {
  const auto& head = model_->network.classifier;
  scores_pairs_ =
      head && head->labels.size() == 1 && head->problem != models::Problem::kTokenLabels;
}

EncoderService::~EncoderService() = default;

Outcome EncoderService::run() {
  server_.run();
  return outcome_;
}

void EncoderService::stop_on_signals(const std::vector<int>& signals) {
  server_.on_signal(signals, [this](int) {
    if (draining_) {
      outcome_ = outcome_ == Outcome::kStopped ? Outcome::kHurried : outcome_;
      server_.stop(std::chrono::milliseconds(0));
      return;
    }
    begin_drain("a signal");
  });
}

void EncoderService::drain() {
  server_.post([this] { begin_drain("a call"); });
}

void EncoderService::begin_drain(const std::string& why) {
  if (draining_) {
    return;
  }
  draining_ = true;
  drain_until_ = Clock::now() + options_.shutdown_time;
  log_({LogLevel::kInfo,
        "shutting down; a second signal does not wait",
        {{"because_of", why}, {"unanswered", std::to_string(server_.unanswered())}}});
}

// ---- what comes in

const EncoderService::Route* EncoderService::find_route(const std::string& path) {
  for (const Route& route : routes()) {
    if (is_path_of(route, path)) {
      return &route;
    }
  }
  return nullptr;
}

std::optional<HttpResponse> EncoderService::refuse(const HttpRequest& head) {
  return refuse_head(head, find_route(head.path), keys_, draining_ || given_up_);
}

void EncoderService::handle(HttpRequest request, std::shared_ptr<HttpResponder> responder) {
  const Route* route = find_route(request.path);  // refuse() has seen to it that there is one
  try {
    (this->*route->serve)(request, responder);
  } catch (const ApiError& error) {
    responder->respond(error.response());
  }
}

HttpResponse EncoderService::error(int status, const std::string& message) {
  return plain_error(status, message).response();
}

void EncoderService::finished(const HttpRecord& record) {
  const Route* route = find_route(record.path);
  metrics_.http_request(route == nullptr ? "other" : route->path, known_method(record),
                        record.status);
  const bool quiet =
      record.status < 400 && route != nullptr && std::string_view(route->method) == "GET";
  if (!quiet) {
    log_(log_record(record));
  }
}

// ---- about ten times a second

void EncoderService::tick() {
  if (given_up_) {
    return;
  }
  core::keep_memory_reserve();  // a request may have used it up
  if (loop_.step_time() > options_.step_time) {
    log_({LogLevel::kError, "a step of the encoder does not end; the server does", {}});
    given_up_ = true;
    outcome_ = Outcome::kHung;
    fail_all(plain_error(503, "the encoder does not answer; the server ends"));
    server_.stop(kLastWords);
    return;
  }
  const auto latest = Clock::now() - options_.request_time;
  for (const JobPointer& job : std::vector<JobPointer>(jobs_.begin(), jobs_.end())) {
    if (job->began < latest) {
      end(job, plain_error(504, fmt::format("the request took more than {} seconds",
                                            options_.request_time.count()))
                   .response());
    }
  }
  const bool late = draining_ && Clock::now() > drain_until_;
  if (late) {
    fail_all(draining_error());
  }
  if (late || (draining_ && server_.unanswered() == 0)) {
    server_.stop(kLastWords);
  }
}

void EncoderService::fail_all(const ApiError& error) {
  for (const JobPointer& job : std::vector<JobPointer>(jobs_.begin(), jobs_.end())) {
    end(job, error.response());
  }
}

// ---- jobs

HttpResponse EncoderService::explain(const std::exception_ptr& error,
                                     const std::string& request) const {
  return explain_failure(error, request, log_).response();
}

void EncoderService::prepare(
    HttpRequest& request, const Responder& responder,
    const std::function<void(const OrderedJson& json, EncoderJob& job)>& fill) {
  const auto job = std::make_shared<EncoderJob>();
  job->responder = responder;
  job->request = request.id;
  job->client = fmt::format("{} {}", keys_.find(request).value_or(0), request.client);
  Work work;
  work.client = job->client;
  work.in_vain = [responder] { return responder->gone(); };
  work.run = [this, job, fill, request = std::move(request)] {
    try {
      fill(parse_request(request.body), *job);
      server_.post([this, job] { start(job); });
    } catch (const std::exception&) {
      job->responder->respond(explain(std::current_exception(), job->request));
    }
  };
  if (!workers_.post(std::move(work))) {
    metrics_.rejected();
    throw ApiError(429, "rate_limit_error", "the server's queue is full; try again later", "",
                   "queue_full");
  }
}

void EncoderService::start(const JobPointer& job) {
  auto place = admission_.take(1, static_cast<std::size_t>(job->tokens()));
  if (!place) {
    metrics_.rejected();
    ApiError error(429, "rate_limit_error", "the server's queue is full; try again later", "",
                   "queue_full");
    error.retry_after = 1;
    job->responder->respond(error.response());
    return;
  }
  job->place = *std::move(place);
  jobs_.insert(job);
  job->responder->on_disconnect([this, weak = std::weak_ptr(job)] {
    if (const auto gone = weak.lock()) {
      gone->ended = true;
      gone->place = {};
      jobs_.erase(gone);
    }
  });
  if (!loop_.post(job)) {
    end(job, ApiError(429, "rate_limit_error", "the server's queue is full; try again later", "",
                      "queue_full")
                 .response());
  }
}

// On the encoder's thread, which has other work than to write answers.
void EncoderService::computed(const JobPointer& job, const std::exception_ptr& error) {
  if (error) {
    const HttpResponse response = explain(error, job->request);
    failing_ = response.status >= 500;
    server_.post([this, job, response] { end(job, response); });
    return;
  }
  failing_ = false;
  Work work;
  work.client = job->client;
  work.in_vain = [job] { return job->ended.load(); };
  work.run = [this, job] { answer(job); };
  if (!workers_.post(std::move(work))) {
    answer(job);
  }
}

void EncoderService::answer(const JobPointer& job) {
  std::shared_ptr<HttpResponse> response;
  try {
    response = std::make_shared<HttpResponse>(job->answer(std::move(job->rows)));
  } catch (const std::exception&) {
    response = std::make_shared<HttpResponse>(explain(std::current_exception(), job->request));
  }
  server_.post([this, job, response] { end(job, std::move(*response)); });
}

void EncoderService::end(const JobPointer& job, HttpResponse response) {
  const JobPointer kept = job;  // `job` may be an element of jobs_
  if (kept->ended.exchange(true)) {
    return;
  }
  kept->responder->respond(std::move(response));
  kept->place = {};
  jobs_.erase(kept);
}

}  // namespace nibble::serve
