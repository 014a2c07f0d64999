#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "models/model.h"
#include "serve/admission.h"
#include "serve/api_keys.h"
#include "serve/engine_thread.h"
#include "serve/http_server.h"
#include "serve/log.h"
#include "serve/metrics.h"
#include "serve/model_facts.h"
#include "serve/model_list.h"
#include "serve/pending_answer.h"
#include "serve/prepared_text.h"
#include "serve/prompts.h"
#include "serve/request_gate.h"
#include "serve/workers.h"

namespace nibble::serve {

struct ServiceOptions {
  HttpOptions http;
  std::vector<std::string> names;  // of the model; the first is said, all are understood
  std::vector<std::string> keys;   // of the API; empty: everybody may use it
  std::string chat_template;       // empty: there is no chat
  /// How the model writes calls of tools; without it, the chat template tells.
  std::optional<ToolFormat> tool_format;
  ModelFacts facts;
  std::size_t max_jobs = 256;                    // texts that run or wait; more: 429
  std::size_t max_tokens = 1 << 20;              // of their prompts
  std::chrono::seconds request_time{600};        // then a request fails
  std::chrono::milliseconds step_time{300'000};  // of one step of the engine; longer: it hangs
  std::chrono::milliseconds shutdown_time{30'000};
  int workers = 2;  // threads for each kind of work (workers.h)
};

/// How serving ended.
enum class Outcome {
  kStopped,  // everything was answered, or failed when the time was up
  kHurried,  // by a second signal
  kFailed,   // the engine failed for good
  kHung,     // the engine does not come back: its thread cannot be waited for
};

/// A model behind OpenAI's API.
class Service final : public HttpHandler {
 public:
  /// A chat template that cannot be read is said in the log, and by requests
  /// for chats.
  Service(std::shared_ptr<const models::Model> model, std::unique_ptr<engine::Engine> engine,
          Listener listener, ServiceOptions options, LogSink log);
  ~Service() override;

  std::uint16_t port() const { return server_.port(); }
  /// Ends when it is told to: by drain(), or by a signal (the first drains, the second does not
  /// wait).
  Outcome run();
  void stop_on_signals(const std::vector<int>& signals);
  /// Refuses new requests, and stops when those under way are answered, or after shutdown_time. Any
  /// thread.
  void drain();

  std::optional<HttpResponse> refuse(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpResponder> responder) override;
  HttpResponse error(int status, const std::string& message) override;
  void finished(const HttpRecord& record) override;
  void tick() override;

 private:
  using Responder = std::shared_ptr<HttpResponder>;
  struct Route : RouteHead {
    void (Service::*serve)(HttpRequest& request, const Responder& responder);
  };
  /// Who asked, and how to answer.
  struct Caller {
    Responder responder;
    std::string request;    // its id
    std::string client;     // among whom workers are shared: a key at an address
    std::size_t owner = 0;  // the number of the key
    Work::Kind kind = Work::Kind::kShort;
  };

  static const std::vector<Route>& routes();
  static const Route* find_route(const std::string& path);

  // Routes (service_routes.cpp, and service_texts.cpp for those that the engine works for).
  void completions(HttpRequest& request, const Responder& responder);
  void chat(HttpRequest& request, const Responder& responder);
  void embeddings(HttpRequest& request, const Responder& responder);
  void tokenize(HttpRequest& request, const Responder& responder);
  void detokenize(HttpRequest& request, const Responder& responder);
  void models(HttpRequest& request, const Responder& responder);
  void health(HttpRequest& request, const Responder& responder);
  void live(HttpRequest& request, const Responder& responder);
  void metrics(HttpRequest& request, const Responder& responder);
  void properties(HttpRequest& request, const Responder& responder);
  void page(HttpRequest& request, const Responder& responder);

  Caller caller_of(const HttpRequest& request, const Responder& responder) const;
  /// Runs `make` on a worker, unless the client has gone, and what it returns on the I/O thread.
  /// What either throws is answered.
  using Then = std::function<void()>;
  void work(const Caller& caller, std::function<Then()> make);

  void prepare_grammar(const std::shared_ptr<PreparedText>& prepared, const Caller& caller);
  void start(PreparedText& prepared, const Caller& caller);
  void check_model(const std::string& name) const { check_model_name(served_, name); }
  ApiError queue_full();
  Admission::Place admit(std::size_t texts, std::size_t tokens);
  Explain explain_to(const Caller& caller) const;
  void forget(PendingAnswer& answer) { answers_.erase(&answer); }
  std::vector<std::shared_ptr<PendingAnswer>> pending() const;
  std::string working_state() const;  // of health_answer()
  void begin_drain(const std::string& why);
  void give_up(Outcome outcome, const ApiError& error);
  void tick_answers();
  void tidy_memory();

  std::shared_ptr<const models::Model> model_;
  ServiceOptions options_;
  LogSink log_;
  ApiKeys keys_;
  RequestLimits limits_;
  Prompts prompts_;
  Metrics metrics_;
  ServedModel served_;
  std::size_t texts_at_a_time_;  // of one request
  Admission admission_;
  HttpServer server_;
  std::unordered_map<PendingAnswer*, std::shared_ptr<PendingAnswer>> answers_;
  std::atomic<bool> untidy_{false};  // much memory was freed
  EngineThread engine_;
  Workers workers_;
  std::chrono::steady_clock::time_point tidied_{};
  Outcome outcome_ = Outcome::kStopped;
  bool draining_ = false;
  bool given_up_ = false;
  std::chrono::steady_clock::time_point drain_until_{};
};

}  // namespace nibble::serve
