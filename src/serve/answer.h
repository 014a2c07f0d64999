#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/api_error.h"
#include "serve/engine_thread.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/openai_responses.h"

namespace nibble::serve {

/// What the answer to a request for text consists of.
struct AnswerPlan {
  AnswerHead head;
  std::vector<std::vector<std::int32_t>> prompts;  // tokens
  std::vector<std::string> echoes;                 // texts of the prompts, where they are repeated
  int choices = 1;                                 // of each prompt
  int texts = 1;  // of each prompt, of which the most probable ones by token are the choices
  bool only_echo = false;  // what is generated is left out
  std::optional<int> log_probabilities;
  std::optional<int> prompt_log_probabilities;
  bool stream = false;
  bool include_usage = false;
  std::optional<ToolCallOptions> tools;  // of chats: calls are taken out of the text
};

/// An answer that is being written: gathers what the engine gives for its choices, and sends it, as
/// it comes or at the end. On the I/O thread.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  using Clock = std::chrono::steady_clock;

  /// `engine` and `metrics` must outlive it. `done` is called once, when nothing will come any
  /// more.
  Answer(AnswerPlan plan, std::shared_ptr<HttpResponder> responder,
         const text::Tokenizer& tokenizer, EngineThread& engine, Metrics& metrics,
         std::function<void()> done);

  /// Gives the engine one request for each choice, in the order of prompts.
  void start(std::vector<engine::Request> requests);

  /// Gives up: tells the client, unless it has gone, and cancels what runs.
  void fail(const ApiError& error);
  void abandon();

  Clock::time_point began() const { return began_; }

 private:
  struct Part {
    std::string text;
    std::optional<ToolCallReader> tool_reader;
    std::vector<ToolCall> tool_calls;
    std::optional<LogProbabilities> log_probabilities;
    std::vector<engine::TokenRecord> records;  // where nothing is streamed
    std::string finish_reason;
    std::int64_t tokens = 0;
    bool finished = false;
    std::optional<Clock::time_point> first;  // text
    EngineThread::JobId job = 0;
  };

  void begin_stream();
  void add(std::size_t at, const TextPiece& piece);
  void add_calls(std::size_t at, std::vector<ToolCall> calls);
  void finish_calls(std::size_t at);
  void finish(std::size_t at, engine::Completion completion);
  std::size_t prompt_of(std::size_t at) const;
  void count(Part& part, std::string_view reason);
  void count_phases(const engine::Completion& completion);
  void complete();
  std::vector<std::size_t> chosen(std::size_t prompt) const;
  Choice choice_of(std::size_t at);
  void end();
  void send(std::size_t at, std::string_view text, std::string_view finish_reason);
  Usage usage() const { return usage_; }

  AnswerPlan plan_;
  std::shared_ptr<HttpResponder> responder_;
  EngineThread& engine_;
  Metrics& metrics_;
  std::function<void()> done_;
  const text::Tokenizer& tokenizer_;
  std::vector<Part> parts_;                                       // by index: prompt * texts + text
  std::vector<std::vector<engine::TokenRecord>> prompt_records_;  // by prompt
  Usage usage_;
  std::size_t unfinished_ = 0;
  bool ended_ = false;
  Clock::time_point began_ = Clock::now();
};

/// What the client is told of a failure inside the engine.
ApiError error_of(std::exception_ptr failure);

}  // namespace nibble::serve
