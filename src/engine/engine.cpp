#include "engine/engine.h"

#include <algorithm>

#include "text/stream_decoder.h"

namespace nibble::engine {
namespace {

constexpr std::size_t kPrefillRows = 512;  // prompt tokens computed in one step

}  // namespace

std::string_view to_string(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

// A sequence that is being generated.
struct Engine::Active {
  Active(Request r, std::shared_ptr<const text::Tokenizer> tokenizer,
         std::vector<std::string> stop_texts)
      : request(std::move(r)),
        sampler(request.sampling),
        decoder(std::move(tokenizer)),
        stop(std::move(stop_texts)) {}

  void emit(const std::string& piece) {
    completion.text += piece;
    if (!piece.empty() && request.on_text) {
      request.on_text(piece);
    }
  }

  Request request;
  SequenceId sequence = 0;
  std::int64_t limit = 0;  // tokens to generate at the most
  Sampler sampler;
  text::StreamDecoder decoder;
  StopStrings stop;
  Completion completion;
  bool finished = false;
};

Engine::Engine(std::shared_ptr<const models::Model> model, std::unique_ptr<Runner> runner,
               const EngineOptions& options)
    : model_(std::move(model)), runner_(std::move(runner)), options_(options) {
  const std::int64_t most = model_->decoder.config.max_positions;
  core::require(options_.context >= 0 && options_.context <= most, core::ErrorKind::kUsage,
                "a context of {} tokens was asked for, the model was made for {}", options_.context,
                most);
  if (options_.context == 0) {
    options_.context = most;
  }
}

Engine::~Engine() = default;

void Engine::submit(Request request) {
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  core::require(length > 0, core::ErrorKind::kUsage, "the prompt is empty");
  core::require(length < options_.context, core::ErrorKind::kUsage,
                "the prompt has {} tokens, the context holds {} with room for at least one more",
                length, options_.context);
  core::require(request.max_tokens > 0, core::ErrorKind::kUsage,
                "max tokens is {}, must be at least 1", request.max_tokens);
  validate(request.sampling);
  queue_.push_back(std::move(request));
}

void Engine::start(Request request) {
  std::vector<std::string> stop = request.stop;
  Active& active = active_.emplace_back(std::move(request), model_->tokenizer, std::move(stop));
  const std::vector<std::int32_t>& prompt = active.request.prompt;
  const auto length = static_cast<std::int64_t>(prompt.size());
  active.limit = std::min(active.request.max_tokens, options_.context - length);
  active.sequence = runner_->open_sequence(length + active.limit);
  std::span<const std::int32_t> rest(prompt);
  while (rest.size() > kPrefillRows) {
    const Slice slice{active.sequence, rest.first(kPrefillRows)};
    runner_->forward({&slice, 1});
    rest = rest.subspan(kPrefillRows);
  }
  const Slice slice{active.sequence, rest};
  accept(active, runner_->forward({&slice, 1}).row(0));
}

// Draws the next token from the logits and decides whether the sequence goes on.
void Engine::accept(Active& active, std::span<const float> logits) {
  const std::int32_t token = active.sampler.sample(logits);
  Completion& completion = active.completion;
  const std::vector<std::int32_t>& ends = model_->end_tokens;
  if (!active.request.ignore_end_tokens &&
      std::find(ends.begin(), ends.end(), token) != ends.end()) {
    completion.reason = FinishReason::kStop;
    active.finished = true;
  } else {
    completion.tokens.push_back(token);
    active.emit(active.stop.push(active.decoder.push(token)));
    if (active.stop.found()) {
      completion.reason = FinishReason::kStop;
      active.finished = true;
    } else if (static_cast<std::int64_t>(completion.tokens.size()) >= active.limit) {
      completion.reason = FinishReason::kLength;
      active.finished = true;
    }
  }
  if (!active.finished) {
    return;
  }
  if (!active.stop.found()) {
    active.emit(active.stop.push(active.decoder.flush()));
    active.emit(active.stop.flush());
  }
  runner_->close_sequence(active.sequence);
  if (active.request.on_finish) {
    active.request.on_finish(completion);
  }
}

bool Engine::step() {
  if (!queue_.empty() && static_cast<std::int64_t>(active_.size()) < options_.max_batch) {
    Request request = std::move(queue_.front());
    queue_.pop_front();
    start(std::move(request));
  } else if (!active_.empty()) {
    std::vector<Slice> slices;
    for (const Active& active : active_) {
      slices.push_back({active.sequence, {&active.completion.tokens.back(), 1}});
    }
    const LogitsView logits = runner_->forward(slices);
    std::int64_t row = 0;
    for (Active& active : active_) {
      accept(active, logits.row(row++));
    }
  }
  active_.remove_if([](const Active& active) { return active.finished; });
  return !queue_.empty() || !active_.empty();
}

}  // namespace nibble::engine
