#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/text_batches.h"
#include "serve/encoder_job.h"
#include "serve/encoder_loop.h"
#include "serve/encoder_requests.h"
#include "serve/metrics.h"
#include "serve/model_list.h"
#include "serve/request_gate.h"
#include "serve/service.h"
#include "serve/workers.h"

namespace nibble::serve {

/// An encoder behind HTTP: embeddings as OpenAI's API has them, reranking and scores as vLLM and
/// text-embeddings-inference have them. Requests are computed in turns among clients: those that
/// come while a step runs together in the next one (encoder_loop.h).
class EncoderService final : public HttpHandler {
 public:
  /// Of `options` those that concern an engine's texts mean nothing.
  EncoderService(std::shared_ptr<const models::Model> model,
                 std::unique_ptr<engine::Encoder> encoder, Listener listener,
                 ServiceOptions options, LogSink log);
  ~EncoderService() override;

  std::uint16_t port() const { return server_.port(); }
  /// As those of Service.
  Outcome run();
  void stop_on_signals(const std::vector<int>& signals);
  void drain();

  std::optional<HttpResponse> refuse(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpResponder> responder) override;
  HttpResponse error(int status, const std::string& message) override;
  void finished(const HttpRecord& record) override;
  void tick() override;

 private:
  using Responder = std::shared_ptr<HttpResponder>;
  using JobPointer = std::shared_ptr<EncoderJob>;
  struct Route : RouteHead {
    void (EncoderService::*serve)(HttpRequest& request, const Responder& responder);
  };
  static const std::vector<Route>& routes();
  static const Route* find_route(const std::string& path);

  // Routes.
  void embeddings(HttpRequest& request, const Responder& responder);
  void rerank(HttpRequest& request, const Responder& responder);
  void score(HttpRequest& request, const Responder& responder);
  void no_text(HttpRequest& request, const Responder& responder);
  void models(HttpRequest& request, const Responder& responder);
  void health(HttpRequest& request, const Responder& responder);
  void live(HttpRequest& request, const Responder& responder);
  void metrics(HttpRequest& request, const Responder& responder);

  // Of requests that the encoder works for; `fill` runs on a worker, and says what to compute.
  void prepare(HttpRequest& request, const Responder& responder,
               const std::function<void(const OrderedJson& json, EncoderJob& job)>& fill);
  void fill_embeddings(const OrderedJson& json, EncoderJob& job) const;
  void fill_rerank(const OrderedJson& json, EncoderJob& job) const;
  void fill_score(const OrderedJson& json, EncoderJob& job) const;
  void add_text(EncoderJob& job, const engine::InputText& text, const Truncation& truncation,
                const std::string& param) const;
  void add_pairs(EncoderJob& job, const std::vector<std::string>& firsts,
                 const std::vector<std::string>& seconds, const Truncation& truncation,
                 const char* first_param, const char* second_param) const;
  std::vector<double> scores_of(const EncoderJob::Rows& rows, std::size_t pairs, bool raw) const;

  void start(const JobPointer& job);
  void computed(const JobPointer& job, const std::exception_ptr& error);
  void answer(const JobPointer& job);
  void end(const JobPointer& job, HttpResponse response);
  HttpResponse explain(const std::exception_ptr& error, const std::string& request) const;
  void begin_drain(const std::string& why);
  void fail_all(const ApiError& error);

  std::shared_ptr<const models::Model> model_;
  std::unique_ptr<engine::Encoder> encoder_;
  ServiceOptions options_;
  LogSink log_;
  ApiKeys keys_;
  engine::InputOptions inputs_;
  RequestLimits limits_;
  bool scores_pairs_ = false;  // the model has one label, for the relevance of a pair
  bool raw_scores_ = false;    // which is said as it is
  Metrics metrics_;
  ServedModel served_;
  Admission admission_;
  HttpServer server_;
  std::unordered_set<JobPointer> jobs_;
  std::atomic<bool> failing_{false};  // what was computed last
  Outcome outcome_ = Outcome::kStopped;
  bool draining_ = false;
  bool given_up_ = false;
  std::chrono::steady_clock::time_point drain_until_{};
  Workers workers_;
  EncoderLoop loop_;
};

}  // namespace nibble::serve
