#include "serve/answer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "core/error.h"

namespace nibble::serve {
namespace {

double seconds_between(Answer::Clock::time_point from, Answer::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// By token; a text without tokens comes last.
double mean_log_probability(std::span<const engine::TokenRecord> records) {
  double sum = 0;
  for (const engine::TokenRecord& record : records) {
    sum += record.chosen.log_probability;
  }
  return records.empty() ? -std::numeric_limits<double>::infinity()
                         : sum / static_cast<double>(records.size());
}

}  // namespace

ApiError error_of(std::exception_ptr failure) {
  try {
    std::rethrow_exception(std::move(failure));
  } catch (const core::Error& error) {
    const std::string message = core::printable(error.what(), 1000);
    switch (error.kind()) {
      case core::ErrorKind::kUsage:
        return plain_error(400, message);
      case core::ErrorKind::kOutOfMemory:
        return plain_error(503, message);
      default:
        return plain_error(500, message);
    }
  } catch (const std::bad_alloc&) {
    return plain_error(503, "the server is out of memory; try again later");
  } catch (const std::exception& error) {
    return plain_error(500, core::printable(error.what(), 1000));
  }
}

Answer::Answer(AnswerPlan plan, std::shared_ptr<HttpResponder> responder,
               const text::Tokenizer& tokenizer, EngineThread& engine, Metrics& metrics,
               std::function<void()> done)
    : plan_(std::move(plan)),
      responder_(std::move(responder)),
      engine_(engine),
      metrics_(metrics),
      done_(std::move(done)),
      tokenizer_(tokenizer),
      parts_(plan_.prompts.size() * static_cast<std::size_t>(plan_.texts)),
      prompt_records_(plan_.prompts.size()),
      unfinished_(parts_.size()) {
  for (Part& part : parts_) {
    if (plan_.log_probabilities) {
      part.log_probabilities.emplace(tokenizer, plan_.head.chat, *plan_.log_probabilities);
    }
    if (plan_.tools) {
      const std::string_view id = plan_.head.id;  // of its own for each answer
      part.tool_reader.emplace(*plan_.tools, fmt::format("call_{}_{}_", id.substr(id.find('-') + 1),
                                                         &part - parts_.data()));
    }
  }
}

void Answer::start(std::vector<engine::Request> requests) {
  responder_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->abandon();
    }
  });
  if (plan_.stream) {
    begin_stream();
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Job job;
    job.request = std::move(requests[i]);
    job.on_piece = [self = shared_from_this(), i](const TextPiece& piece) { self->add(i, piece); };
    job.on_finish = [self = shared_from_this(), i](engine::Completion completion) {
      self->finish(i, std::move(completion));
    };
    parts_[i].job = engine_.submit(std::move(job));
  }
}

void Answer::begin_stream() {
  responder_->begin_stream({{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}},
                           std::string(kHeartbeat));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (plan_.head.chat) {
      responder_->send(first_event(plan_.head, static_cast<int>(i), plan_.include_usage));
    } else if (!plan_.echoes.empty()) {
      send(i, plan_.echoes[prompt_of(i)], "");
    }
  }
}

void Answer::send(std::size_t at, std::string_view text, std::string_view finish_reason) {
  Part& part = parts_[at];
  const bool recorded = part.log_probabilities && !part.log_probabilities->empty();
  responder_->send(part_event(plan_.head, static_cast<int>(at), text,
                              recorded ? part.log_probabilities->take() : OrderedJson(),
                              finish_reason, plan_.include_usage));
}

void Answer::add(std::size_t at, const TextPiece& piece) {
  Part& part = parts_[at];
  if (ended_ || part.finished || plan_.only_echo) {
    return;
  }
  if (!part.first) {
    part.first = Clock::now();
    metrics_.first_token(seconds_between(began_, *part.first));
  }
  ToolText text = part.tool_reader ? part.tool_reader->add(piece.text) : ToolText{piece.text, {}};
  if (!plan_.stream) {
    part.text += text.content;
  } else {
    if (part.log_probabilities) {
      part.log_probabilities->add(piece.records);
    }
    if (!text.content.empty() || !piece.records.empty()) {
      send(at, text.content, "");
    }
  }
  add_calls(at, std::move(text.calls));
}

void Answer::add_calls(std::size_t at, std::vector<ToolCall> calls) {
  Part& part = parts_[at];
  for (ToolCall& call : calls) {
    if (plan_.stream) {
      responder_->send(tool_call_events(plan_.head, static_cast<int>(at), part.tool_calls.size(),
                                        call, plan_.include_usage));
    }
    part.tool_calls.push_back(std::move(call));
  }
}

// What was held back, and what follows from there being calls.
void Answer::finish_calls(std::size_t at) {
  Part& part = parts_[at];
  ToolText rest = part.tool_reader->finish();
  part.text += rest.content;
  if (plan_.stream && !rest.content.empty()) {
    send(at, rest.content, "");
  }
  add_calls(at, std::move(rest.calls));
  if (!part.tool_calls.empty() && part.finish_reason == "stop") {
    part.finish_reason = "tool_calls";
  }
}

std::size_t Answer::prompt_of(std::size_t at) const {
  return at / static_cast<std::size_t>(plan_.texts);
}

void Answer::finish(std::size_t at, engine::Completion completion) {
  Part& part = parts_[at];
  part.job = 0;
  if (ended_ || part.finished) {
    return;
  }
  if (completion.reason == engine::FinishReason::kFailed) {
    fail(error_of(completion.error));
    return;
  }
  if (completion.reason == engine::FinishReason::kCancelled) {
    fail(plain_error(503, "the request was cancelled"));
    return;
  }
  part.finished = true;
  part.tokens = plan_.only_echo ? 0 : static_cast<std::int64_t>(completion.tokens.size());
  part.finish_reason = plan_.only_echo ? "length" : std::string(to_string(completion.reason));
  usage_.completion_tokens += part.tokens;
  if (at % static_cast<std::size_t>(plan_.texts) == 0) {
    const std::size_t prompt = prompt_of(at);
    usage_.prompt_tokens += static_cast<std::int64_t>(plan_.prompts[prompt].size());
    usage_.cached_tokens += completion.cached_tokens;
    prompt_records_[prompt] = std::move(completion.prompt_records);
  }
  count(part, part.finish_reason);
  count_phases(completion);
  if (part.tool_reader) {
    finish_calls(at);
  }
  if (plan_.stream) {
    send(at, "", part.finish_reason);
  } else {
    part.records = std::move(completion.records);
  }
  if (--unfinished_ == 0) {
    complete();
  }
}

void Answer::count(Part& part, std::string_view reason) {
  const auto now = Clock::now();
  metrics_.finished(reason, seconds_between(began_, now), part.tokens);
  if (part.first && part.tokens > 1) {
    metrics_.later_tokens(seconds_between(*part.first, now),
                          static_cast<std::uint64_t>(part.tokens - 1));
  }
}

// The texts of a prompt that are given, in the order in which they are.
std::vector<std::size_t> Answer::chosen(std::size_t prompt) const {
  std::vector<std::size_t> parts(static_cast<std::size_t>(plan_.texts));
  std::iota(parts.begin(), parts.end(), prompt * parts.size());
  if (plan_.texts > plan_.choices) {
    std::stable_sort(parts.begin(), parts.end(), [this](std::size_t a, std::size_t b) {
      return mean_log_probability(parts_[a].records) > mean_log_probability(parts_[b].records);
    });
    parts.resize(static_cast<std::size_t>(plan_.choices));
  }
  return parts;
}

// An echoed prompt comes before the text, in the log probabilities too.
Choice Answer::choice_of(std::size_t at) {
  Part& part = parts_[at];
  const std::size_t prompt = prompt_of(at);
  const bool echo = !plan_.echoes.empty();
  Choice choice;
  choice.text = echo ? plan_.echoes[prompt] + part.text : std::move(part.text);
  choice.finish_reason = part.finish_reason;
  choice.tool_calls = std::move(part.tool_calls);
  if (part.log_probabilities) {
    if (echo) {
      part.log_probabilities->add_first(plan_.prompts[prompt].front());
      part.log_probabilities->add(prompt_records_[prompt]);
    }
    if (!plan_.only_echo) {
      part.log_probabilities->add(part.records);
    }
    choice.log_probabilities = part.log_probabilities->take();
  }
  return choice;
}

void Answer::count_phases(const engine::Completion& completion) {
  metrics_.phases(seconds_between(began_, completion.admitted),
                  seconds_between(completion.admitted, completion.first_token),
                  seconds_between(completion.first_token, completion.last_token));
}

void Answer::complete() {
  if (plan_.stream) {
    if (plan_.include_usage) {
      responder_->send(usage_event(plan_.head, usage_));
    }
    responder_->send(std::string(kDoneEvent));
    responder_->end();
  } else {
    std::vector<Choice> choices;
    for (std::size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
      std::string of_prompt;
      if (plan_.prompt_log_probabilities) {
        of_prompt = prompt_log_probabilities(tokenizer_, prompt_records_[prompt],
                                             *plan_.prompt_log_probabilities);
      }
      for (const std::size_t at : chosen(prompt)) {
        choices.push_back(choice_of(at));
        choices.back().prompt_log_probabilities = of_prompt;
      }
    }
    responder_->respond(json_response(200, answer_text(plan_.head, choices, usage_)));
  }
  end();
}

void Answer::fail(const ApiError& error) {
  if (ended_) {
    return;
  }
  if (plan_.stream) {
    responder_->send(event(error.body()));
    responder_->send(std::string(kDoneEvent));
    responder_->end();
  } else {
    responder_->respond(error.response());
  }
  for (Part& part : parts_) {
    if (!part.finished) {
      count(part, "error");
    }
  }
  end();
}

void Answer::abandon() {
  if (ended_) {
    return;
  }
  for (Part& part : parts_) {
    if (!part.finished) {
      count(part, "abort");
    }
  }
  end();
}

void Answer::end() {
  ended_ = true;
  for (const Part& part : parts_) {
    if (part.job != 0) {
      engine_.cancel(part.job);
    }
  }
  if (const auto done = std::exchange(done_, nullptr)) {
    done();
  }
}

}  // namespace nibble::serve
