#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/json.h"
#include "engine/forwarding_runner.h"
#include "serve/raw_client_for_tests.h"
#include "serve/service.h"

namespace nibble::serve {

/// Tokens that are written in place of the model's: one for each step of a request that runs alone,
/// at temperature 0, without a grammar, penalties and log probabilities.
struct Script {
  std::vector<std::int32_t> tokens;
  std::size_t next = 0;
};

/// A runner that does what a test wants before each step.
class ControlledRunner final : public engine::ForwardingRunner {
 public:
  using Hook = std::function<void(std::span<const engine::Slice>)>;
  ControlledRunner(std::unique_ptr<engine::Runner> runner, std::shared_ptr<Hook> hook,
                   std::shared_ptr<Script> script)
      : ForwardingRunner(std::move(runner)), hook_(std::move(hook)), script_(std::move(script)) {}

  engine::LogitsView forward(std::span<const engine::Slice> slices) override {
    if (*hook_) {
      (*hook_)(slices);
    }
    return ForwardingRunner::forward(slices);
  }
  void forward_ranked(std::span<const engine::Slice> slices, std::int64_t count,
                      std::vector<ops::RankedToken>& ranked) override {
    if (*hook_) {
      (*hook_)(slices);
    }
    ForwardingRunner::forward_ranked(slices, count, ranked);
    if (!ranked.empty() && script_->next < script_->tokens.size()) {
      ranked.front().id = script_->tokens[script_->next++];
    }
  }
  std::vector<float> hidden_sum(const engine::Slice& slice) override {
    if (*hook_) {
      (*hook_)({&slice, 1});
    }
    return ForwardingRunner::hidden_sum(slice);
  }

 private:
  std::shared_ptr<Hook> hook_;
  std::shared_ptr<Script> script_;
};

/// Holds steps of the engine until it is opened.
class Gate {
 public:
  void close() { closed_ = true; }
  void open() {
    closed_ = false;
    closed_.notify_all();
  }
  void wait() {
    waiting_ = true;
    waiting_.notify_all();
    closed_.wait(true);
  }
  void wait_until_reached() { waiting_.wait(false); }

 private:
  std::atomic<bool> closed_{false};
  std::atomic<bool> waiting_{false};
};

/// A service of the demo model on loopback.
class ServiceTest : public ::testing::Test {
 protected:
  /// A template that says role and content between control tokens of the demo model.
  static constexpr const char* kTemplate =
      "{% for m in messages %}<|bos|>{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
      "{% if add_generation_prompt %}<|bos|>assistant:{% endif %}";

  static std::shared_ptr<const models::Model> demo();
  static std::int32_t id_of(const char* token) { return *demo()->tokenizer->id_of(token); }

  ServiceTest();
  void start();
  void TearDown() override;

  RawClient::Answer post(const std::string& path, const std::string& body,
                         const std::string& headers = "") const {
    return ask(port_, "POST", path, body, headers);
  }
  RawClient::Answer get(const std::string& path, const std::string& headers = "") const {
    return ask(port_, "GET", path, "", headers);
  }
  /// A request that is sent, its answer not read.
  RawClient send(const std::string& path, const std::string& body) const;
  /// The object of an answer that must be a success.
  static core::Json json(const RawClient::Answer& answer);
  core::Json complete(const std::string& body) const { return json(post("/v1/completions", body)); }
  /// That an answer is an error about `param` ("" for null).
  static void is_error(const RawClient::Answer& answer, int status, const std::string& param,
                       const std::string& what);
  /// The value of a line of /metrics.
  double metric(const std::string& name) const;
  /// Waits until a metric has a value.
  bool metric_becomes(const std::string& name, double value) const;
  bool becomes_idle() const;
  /// A field of what the log says of a failed request; empty where it says nothing.
  std::string logged(const std::string& field, const std::string& request) const;
  Outcome wait_for_end();

  ServiceOptions options_;
  std::string key_header_;  // for /metrics, which the checks after a test read
  engine::EngineOptions engine_;
  Gate gate_;
  std::shared_ptr<ControlledRunner::Hook> hook_ = std::make_shared<ControlledRunner::Hook>();
  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  std::unique_ptr<Service> service_;
  std::thread thread_;
  Outcome outcome_ = Outcome::kStopped;
  mutable std::mutex log_mutex_;
  std::vector<LogRecord> log_;
  int port_ = 0;
};

/// The data of the events of a stream, without "data: ".
std::vector<std::string> events_of(const std::string& body);

}  // namespace nibble::serve
