#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "engine/runner.h"
#include "engine/sampler.h"
#include "engine/stop_strings.h"

namespace nibble::engine {

enum class FinishReason { kStop, kLength };
std::string_view to_string(FinishReason reason);  // "stop", "length"

/// What a finished request gave.
struct Completion {
  std::vector<std::int32_t> tokens;  // without the end token
  std::string text;                  // without the stop string
  FinishReason reason = FinishReason::kStop;
};

struct Request {
  std::vector<std::int32_t> prompt;  // at least one token
  std::int64_t max_tokens = 128;     // also bounded by the context
  SamplingOptions sampling;
  std::vector<std::string> stop;                  // generation ends before the first of these
  bool ignore_end_tokens = false;                 // go on past the model's end of text
  std::function<void(std::string_view)> on_text;  // pieces of valid UTF-8 as they become final
  std::function<void(const Completion&)> on_finish;
};

struct EngineOptions {
  std::int64_t context = 0;     // tokens of prompt and completion; 0: what the model was made for
  std::int64_t max_batch = 16;  // sequences that decode together
};

/// Runs many requests together: new prompts are prefilled in chunks, and all running sequences then
/// decode one token in a shared batch. The tokens of a request do not depend on what shares its
/// batch.
class Engine {
 public:
  Engine(std::shared_ptr<const models::Model> model, std::unique_ptr<Runner> runner,
         const EngineOptions& options);
  ~Engine();

  /// Queues a request. Throws kUsage when it can't be served: an empty prompt, or one that fills
  /// the context.
  void submit(Request request);

  /// One prefill or decode step. False when nothing is left to do.
  bool step();
  void run_all() {
    while (step()) {
    }
  }

  Runner& runner() { return *runner_; }

 private:
  struct Active;

  void start(Request request);
  void accept(Active& active, std::span<const float> logits);

  std::shared_ptr<const models::Model> model_;
  std::unique_ptr<Runner> runner_;
  EngineOptions options_;
  std::deque<Request> queue_;
  std::list<Active> active_;
};

}  // namespace nibble::engine
