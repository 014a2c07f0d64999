#include "serve/answer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/ordered_json.h"

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

Answer::Answer(AnswerPlan plan, std::shared_ptr<HttpResponder> responder,
               const text::Tokenizer& tokenizer, TextJobs& engine, Metrics& metrics,
               Explain explain, Done done)
    : plan_(std::move(plan)),
      responder_(std::move(responder)),
      engine_(engine),
      metrics_(metrics),
      explain_(std::move(explain)),
      done_(std::move(done)),
      tokenizer_(tokenizer),
      parts_(plan_.prompts.size() * static_cast<std::size_t>(plan_.texts)),
      prompt_records_(plan_.prompts.size()),
      unfinished_(parts_.size()) {
  for (Part& part : parts_) {
    if (plan_.log_probabilities && plan_.stream) {
      part.log_probabilities.emplace(tokenizer, plan_.head.chat, *plan_.log_probabilities);
    }
    if (plan_.tools) {
      const std::string_view id = plan_.head.id;  // of its own for each answer
      part.tool_reader.emplace(*plan_.tools, fmt::format("call_{}_{}_", id.substr(id.find('-') + 1),
                                                         &part - parts_.data()));
    }
  }
}

void Answer::start(engine::Request request, std::size_t at_a_time, Admission::Place place) {
  request_ = std::move(request);
  at_a_time_ = at_a_time;
  place_ = std::move(place);
  responder_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->abandon();
    }
  });
  if (plan_.stream) {
    begin_stream();
  }
  submit_more();
}

void Answer::submit_more() {
  while (!ended_ && in_engine_ < at_a_time_ && submitted_ < parts_.size()) {
    submit(submitted_++);
  }
}

void Answer::submit(std::size_t at) {
  const std::size_t text = at % static_cast<std::size_t>(plan_.texts);
  Job job;
  job.request = request_;
  job.request.prompt = plan_.prompts[prompt_of(at)];
  job.request.sampling.seed += text;
  if (text > 0) {  // the first has the same prompt
    job.request.prompt_log_probabilities.reset();
  }
  job.on_piece = [self = shared_from_this(), at](const TextPiece& piece) { self->add(at, piece); };
  job.on_finish = [self = shared_from_this(), at](engine::Completion completion) {
    self->finish(at, std::move(completion));
  };
  ++in_engine_;
  parts_[at].job = engine_.submit(std::move(job));
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
    metrics_.first_token(seconds_between(began(), *part.first));
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
  --in_engine_;
  if (ended_ || part.finished) {
    return;
  }
  if (completion.reason == engine::FinishReason::kFailed) {
    fail(explain_(completion.error));
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
  } else {
    submit_more();
  }
}

void Answer::count(Part& part, std::string_view reason) {
  const auto now = Clock::now();
  metrics_.finished(reason, seconds_between(began(), now), part.tokens);
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

Choice Answer::choice_of(std::size_t at) {
  Part& part = parts_[at];
  Choice choice;
  choice.prompt = prompt_of(at);
  choice.text = std::move(part.text);
  choice.finish_reason = part.finish_reason;
  choice.tool_calls = std::move(part.tool_calls);
  if (plan_.log_probabilities && !plan_.only_echo) {
    choice.records = std::move(part.records);
  }
  return choice;
}

WholeAnswer Answer::whole() {
  WholeAnswer answer;
  answer.head = plan_.head;
  answer.usage = usage_;
  answer.echo = !plan_.echoes.empty();
  answer.log_probabilities = plan_.log_probabilities;
  answer.prompt_log_probabilities = plan_.prompt_log_probabilities;
  for (std::size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
    answer.prompts.push_back({answer.echo ? std::move(plan_.echoes[prompt]) : "",
                              plan_.prompts[prompt].front(), std::move(prompt_records_[prompt])});
    for (const std::size_t at : chosen(prompt)) {
      answer.choices.push_back(choice_of(at));
    }
  }
  return answer;
}

void Answer::count_phases(const engine::Completion& completion) {
  metrics_.phases(seconds_between(began(), completion.admitted),
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
    responder_->respond(json_response(body_of(whole(), tokenizer_)));
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
  place_ = {};
  for (const Part& part : parts_) {
    if (part.job != 0) {
      engine_.cancel(part.job);
    }
  }
  if (const auto done = std::exchange(done_, nullptr)) {
    done(*this);
  }
}

}  // namespace nibble::serve
