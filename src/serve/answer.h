#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/admission.h"
#include "serve/http_server.h"
#include "serve/log_probabilities.h"
#include "serve/metrics.h"
#include "serve/openai_responses.h"
#include "serve/pending_answer.h"
#include "serve/text_jobs.h"
#include "serve/whole_answer.h"

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
class Answer final : public PendingAnswer, public std::enable_shared_from_this<Answer> {
 public:
  /// `engine`, `metrics` and `tokenizer` must outlive it.
  Answer(AnswerPlan plan, std::shared_ptr<HttpResponder> responder,
         const text::Tokenizer& tokenizer, TextJobs& engine, Metrics& metrics, Explain explain,
         Done done);

  /// Gives the engine one request for each text, in the order of prompts: `request` with the prompt
  /// and a seed of its own, counted up from the one that it has. At most `at_a_time` of them are in
  /// the engine, so that others are served between. `place` is held until the end.
  void start(engine::Request request, std::size_t at_a_time, Admission::Place place);

  void fail(const ApiError& error) override;
  void abandon();
  std::size_t waiting() const override { return ended_ ? 0 : parts_.size() - submitted_; }

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
    TextJobs::JobId job = 0;
  };

  void begin_stream();
  void submit_more();
  void submit(std::size_t at);
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
  WholeAnswer whole();
  void end();
  void send(std::size_t at, std::string_view text, std::string_view finish_reason);

  AnswerPlan plan_;
  std::shared_ptr<HttpResponder> responder_;
  TextJobs& engine_;
  Metrics& metrics_;
  Explain explain_;
  Done done_;
  const text::Tokenizer& tokenizer_;
  std::vector<Part> parts_;                                       // by index: prompt * texts + text
  std::vector<std::vector<engine::TokenRecord>> prompt_records_;  // by prompt
  Usage usage_;
  engine::Request request_;
  std::size_t at_a_time_ = 1;
  std::size_t submitted_ = 0;
  std::size_t in_engine_ = 0;
  Admission::Place place_;
  std::size_t unfinished_ = 0;
  bool ended_ = false;
};

}  // namespace nibble::serve
