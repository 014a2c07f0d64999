#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "core/error.h"
#include "serve/health_answers.h"
#include "serve/json_request.h"
#include "serve/page.h"
#include "serve/service.h"

namespace nibble::serve {
namespace {

constexpr std::size_t kMaxWaitingWork = 256;

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t random_seed() {
  static thread_local std::mt19937_64 random(std::random_device{}());
  return random();
}

// "%2F" -> "/"; malformed escapes stay.
std::string percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() + 0 && digit(text[i + 1]) >= 0 &&
                        digit(text[i + 2]) >= 0;
    decoded += escape ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    i += escape ? 2 : 0;
  }
  return decoded;
}

engine::SamplingOptions sampling_of(const GenerationOptions& options) {
  engine::SamplingOptions sampling;
  sampling.temperature = static_cast<float>(options.temperature);
  sampling.top_k = options.top_k;
  sampling.top_p = static_cast<float>(options.top_p);
  sampling.min_p = static_cast<float>(options.min_p);
  sampling.repetition_penalty = static_cast<float>(options.repetition_penalty);
  sampling.presence_penalty = static_cast<float>(options.presence_penalty);
  sampling.frequency_penalty = static_cast<float>(options.frequency_penalty);
  sampling.logit_bias = options.logit_bias;
  return sampling;
}

engine::Request engine_request(const GenerationOptions& options) {
  engine::Request request;
  request.max_tokens = std::max<std::int64_t>(
      1, options.max_tokens.value_or(std::numeric_limits<std::int32_t>::max()));
  request.min_tokens = options.min_tokens;
  request.sampling = sampling_of(options);
  request.stop = options.stop;
  request.stop_tokens = options.stop_tokens;
  request.ignore_end_tokens = options.ignore_end_tokens;
  request.grammar = make_grammar(options.constraint);
  request.log_probabilities = options.log_probabilities;
  if (options.texts > options.choices && !request.log_probabilities) {
    request.log_probabilities = 0;  // by which the texts are compared
  }
  return request;
}

}  // namespace

// A request for texts, ready for the engine.
struct Service::Prepared {
  std::string model;
  AnswerPlan plan;
  std::vector<engine::Request> requests;

  /// Calls of tools are looked for, or asked for by a grammar.
  void take(const ToolOptions& tools, ToolFormat format) {
    if (tools.choice == ToolOptions::Choice::kNone) {
      return;
    }
    if (format == ToolFormat::kNone) {
      serve::refuse("tools",
                    "this server does not know how the model writes calls of tools; they can only "
                    "be shown, with 'tool_choice': \"none\"");
    }
    plan.tools = {format, tools.names, tools.parallel};
    if (tools.choice == ToolOptions::Choice::kRequired) {
      const auto grammar = tool_grammar(tools, format);
      for (engine::Request& request : requests) {
        request.grammar = grammar;
      }
    }
  }

  /// `owner`: the number of the client's key. Keys share no cached prefixes: its timing would tell
  /// one client what another has asked.
  void take(const GenerationOptions& options, std::size_t owner) {
    plan.choices = options.choices;
    plan.texts = options.texts;
    plan.log_probabilities = options.log_probabilities;
    plan.prompt_log_probabilities = options.prompt_log_probabilities;
    plan.stream = options.stream;
    plan.include_usage = options.include_usage;
    engine::Request request = engine_request(options);
    request.cache_salt = fmt::format("{}:{}", owner, options.cache_salt);
    std::optional<int> of_prompt = options.prompt_log_probabilities;
    if (!plan.echoes.empty()) {
      of_prompt = std::max(of_prompt, options.log_probabilities);
    }
    const std::uint64_t seed = options.seed.value_or(random_seed());
    for (const auto& prompt : plan.prompts) {
      for (int i = 0; i < options.texts; ++i) {
        requests.push_back(request);
        requests.back().prompt = prompt;
        requests.back().sampling.seed = seed + static_cast<std::uint64_t>(i);
        if (i == 0) {  // the other texts have the same prompt
          requests.back().prompt_log_probabilities = of_prompt;
        }
      }
    }
  }
};

const std::vector<Service::Route>& Service::routes() {
  static const std::vector<Route> all = {
      {"/v1/completions", "POST", false, &Service::completions},
      {"/v1/chat/completions", "POST", false, &Service::chat},
      {"/v1/embeddings", "POST", false, &Service::embeddings},
      {"/v1/models", "GET", false, &Service::models},
      {"/v1/models/", "GET", false, &Service::models},
      {"/tokenize", "POST", false, &Service::tokenize},
      {"/detokenize", "POST", false, &Service::detokenize},
      {"/props", "GET", false, &Service::properties},
      {"/metrics", "GET", false, &Service::metrics},
      {"/health", "GET", true, &Service::health},
      {"/readyz", "GET", true, &Service::health},
      {"/livez", "GET", true, &Service::live},
      {"/", "GET", true, &Service::page},
      {"/page.css", "GET", true, &Service::page},
      {"/page.js", "GET", true, &Service::page},
  };
  return all;
}

template <typename Make, typename Then>
void Service::work(const Responder& responder, Make make, Then then) {
  if (workers_.waiting() > kMaxWaitingWork) {
    throw queue_full();
  }
  workers_.post([this, responder, make = std::move(make), then = std::move(then)]() mutable {
    try {
      auto made = std::make_shared<decltype(make())>(make());
      server_.post([responder, made, then = std::move(then)]() mutable {
        try {
          then(std::move(*made), responder);
        } catch (const ApiError& error) {
          responder->respond(error.response());
        }
      });
    } catch (const ApiError& error) {
      responder->respond(error.response());
    } catch (const std::exception&) {
      responder->respond(error_of(std::current_exception()).response());
    }
  });
}

void Service::check_model(const std::string& name) const {
  if (!name.empty() &&
      std::find(options_.names.begin(), options_.names.end(), name) == options_.names.end()) {
    throw ApiError(404, "invalid_request_error",
                   fmt::format("the model '{}' does not exist; this server has '{}'",
                               core::printable(name), options_.names.front()),
                   "model", "model_not_found");
  }
}

ApiError Service::queue_full() {
  metrics_.rejected();
  ApiError error(429, "rate_limit_error", "the server's queue is full; try again later", "",
                 "queue_full");
  error.retry_after = 1;
  return error;
}

// One request may hold many texts, but never more than the queue.
void Service::check_room(const std::string& field, std::size_t jobs, std::size_t tokens) {
  if (jobs > options_.max_jobs) {
    serve::refuse(field, "{} texts were asked for, this server takes {} at a time", jobs,
                  options_.max_jobs);
  }
  if (engine_.jobs() > 0 && (engine_.jobs() + jobs > options_.max_jobs ||
                             engine_.tokens() + tokens > options_.max_tokens)) {
    throw queue_full();
  }
}

void Service::start(Prepared prepared, const Responder& responder) {
  std::size_t tokens = 0;
  for (const engine::Request& request : prepared.requests) {
    tokens += request.prompt.size();
  }
  AnswerPlan& plan = prepared.plan;
  check_room(field_of_texts(plan.texts, plan.choices), prepared.requests.size(), tokens);
  plan.head.model = options_.names.front();
  plan.head.created = unix_seconds();
  plan.head.id = fmt::format("{}-{:016x}", plan.head.chat ? "chatcmpl" : "cmpl", random_seed());
  const std::int64_t max_tokens = prepared.requests.front().max_tokens;
  for (const auto& prompt : plan.prompts) {
    metrics_.accepted(static_cast<std::int64_t>(prompt.size()), plan.choices,
                      std::min(max_tokens, limits_.context));
  }
  // The callback finds the answer by this, which is set below, before anything runs.
  const auto self = std::make_shared<std::weak_ptr<Answer>>();
  const auto answer = std::make_shared<Answer>(std::move(plan), responder, prompts_.tokenizer(),
                                               engine_, metrics_, [this, self] {
                                                 if (const auto done = self->lock()) {
                                                   answers_.erase(done);
                                                 }
                                               });
  *self = answer;
  answers_.insert(answer);
  answer->start(std::move(prepared.requests));
}

void Service::completions(HttpRequest& request, const Responder& responder) {
  const std::size_t owner = keys_.find(request).value_or(0);
  const auto make = [this, owner, body = std::move(request.body)] {
    const CompletionRequest asked = read_completion(parse_request(body), limits_);
    check_model(asked.model);
    Prepared prepared;
    for (const Prompt& prompt : asked.prompts) {
      prepared.plan.prompts.push_back(prompts_.encode(prompt, asked.add_special, "prompt"));
      if (asked.echo) {
        const auto* text = std::get_if<std::string>(&prompt);
        prepared.plan.echoes.push_back(
            text != nullptr ? *text
                            : prompts_.tokenizer().decode(prepared.plan.prompts.back(), false));
      }
    }
    prepared.plan.only_echo = asked.options.max_tokens == 0;
    prepared.take(asked.options, owner);
    return prepared;
  };
  work(responder, make,
       [this](Prepared prepared, const Responder& to) { start(std::move(prepared), to); });
}

void Service::chat(HttpRequest& request, const Responder& responder) {
  const std::size_t owner = keys_.find(request).value_or(0);
  const auto make = [this, owner, body = std::move(request.body)] {
    const ChatRequest asked = read_chat(parse_request(body), limits_);
    check_model(asked.model);
    Prepared prepared;
    prepared.plan.head.chat = true;
    prepared.plan.prompts.push_back(prompts_.encode(asked));
    prepared.take(asked.options, owner);
    prepared.take(asked.tools, options_.tool_format.value_or(prompts_.tool_format()));
    return prepared;
  };
  work(responder, make,
       [this](Prepared prepared, const Responder& to) { start(std::move(prepared), to); });
}

namespace {

// The embeddings of a request, as they come.
struct Embeddings {
  std::vector<std::vector<std::int32_t>> inputs;
  bool base64 = false;
  std::vector<std::vector<float>> values;
  std::vector<EngineThread::JobId> jobs;
  std::size_t unfinished = 0;
  std::int64_t tokens = 0;
  bool ended = false;
};

}  // namespace

void Service::embeddings(HttpRequest& request, const Responder& responder) {
  const auto make = [this, body = std::move(request.body)] {
    const EmbeddingsRequest asked = read_embeddings(parse_request(body), limits_);
    check_model(asked.model);
    const std::int64_t width = model_->decoder.config.hidden;
    if (asked.dimensions && *asked.dimensions != width) {
      serve::refuse("dimensions",
                    "this model's embeddings have {} dimensions; others are not supported", width);
    }
    auto made = std::make_shared<Embeddings>();
    made->base64 = asked.base64;
    for (const Prompt& input : asked.inputs) {
      made->inputs.push_back(prompts_.encode(input, true, "input"));
      made->tokens += static_cast<std::int64_t>(made->inputs.back().size());
    }
    made->unfinished = made->inputs.size();
    made->values.resize(made->inputs.size());
    return made;
  };
  work(responder, make, [this](const std::shared_ptr<Embeddings>& made, const Responder& to) {
    check_room("input", 1, static_cast<std::size_t>(made->tokens));
    const auto cancel = [this, made] {
      made->ended = true;
      for (const EngineThread::JobId job : made->jobs) {
        engine_.cancel(job);
      }
    };
    to->on_disconnect(cancel);
    for (std::size_t i = 0; i < made->inputs.size(); ++i) {
      EmbeddingJob job;
      job.tokens = std::move(made->inputs[i]);
      job.on_finish = [this, made, to, i, cancel](std::vector<float> values,
                                                  const std::exception_ptr& error) {
        if (made->ended) {
          return;
        }
        if (error) {
          cancel();
          to->respond(error_of(error).response());
          return;
        }
        made->values[i] = std::move(values);
        if (--made->unfinished == 0) {
          made->ended = true;
          to->respond(json_response(200, embeddings_text(options_.names.front(), made->values,
                                                         made->base64, made->tokens)));
        }
      };
      made->jobs.push_back(engine_.submit(std::move(job)));
    }
  });
}

void Service::tokenize(HttpRequest& request, const Responder& responder) {
  const auto make = [this, body = std::move(request.body)] {
    const TokenizeRequest asked = read_tokenize(parse_request(body), limits_);
    const text::Tokenizer& tokenizer = prompts_.tokenizer();
    const auto tokens = asked.chat
                            ? prompts_.tokens_of(*asked.chat)
                            : tokenizer.encode(asked.text, {.add_special = asked.add_special,
                                                            .parse_special = asked.parse_special});
    OrderedJson json;
    json["tokens"] = tokens;
    if (asked.with_pieces) {
      OrderedJson pieces = OrderedJson::array();
      for (const std::int32_t token : tokens) {
        pieces.push_back({{"id", token}, {"piece", token_name(tokenizer.piece(token))}});
      }
      json["tokens"] = std::move(pieces);
    }
    json["count"] = tokens.size();
    json["max_model_len"] = limits_.context;
    return to_text(json);
  };
  work(responder, make, [](std::string body, const Responder& to) {
    to->respond(json_response(200, std::move(body)));
  });
}

void Service::detokenize(HttpRequest& request, const Responder& responder) {
  const auto make = [this, body = std::move(request.body)] {
    const DetokenizeRequest asked = read_detokenize(parse_request(body), limits_);
    const std::string text = prompts_.tokenizer().decode(asked.tokens, asked.skip_special);
    return to_text({{"prompt", text}, {"content", text}});
  };
  work(responder, make, [](std::string body, const Responder& to) {
    to->respond(json_response(200, std::move(body)));
  });
}

void Service::models(HttpRequest& request, const Responder& responder) {
  const auto describe = [this](const std::string& name) {
    OrderedJson json;
    json["id"] = name;
    json["object"] = "model";
    json["created"] = started_;
    json["owned_by"] = "nibble";
    json["max_model_len"] = limits_.context;
    return json;
  };
  constexpr std::string_view kPrefix = "/v1/models/";
  if (request.path.size() > kPrefix.size()) {
    const std::string name = percent_decoded(std::string_view(request.path).substr(kPrefix.size()));
    check_model(name);
    responder->respond(json_response(200, to_text(describe(name))));
    return;
  }
  OrderedJson list = OrderedJson::array();
  for (const std::string& name : options_.names) {
    list.push_back(describe(name));
  }
  OrderedJson json;
  json["object"] = "list";
  json["data"] = std::move(list);
  responder->respond(json_response(200, to_text(json)));
}

void Service::health(HttpRequest&, const Responder& responder) {
  responder->respond(health_answer(working_state()));
}

void Service::live(HttpRequest&, const Responder& responder) {
  responder->respond(live_answer(working_state() != "failed"));
}

void Service::metrics(HttpRequest&, const Responder& responder) {
  const engine::EngineState state = engine_.state();
  Gauges gauges;
  gauges.running = std::min<std::int64_t>(state.running, static_cast<std::int64_t>(engine_.jobs()));
  gauges.waiting = static_cast<std::int64_t>(engine_.jobs()) - gauges.running;
  gauges.kv_usage =
      state.pages == 0 ? 0.0
                       : static_cast<double>(state.pages_in_use) / static_cast<double>(state.pages);
  gauges.generated_tokens = state.generated_tokens;
  gauges.preemptions = state.preemptions;
  gauges.prefix_queries = state.prefix_queries;
  gauges.prefix_hits = state.prefix_hits;
  gauges.drafted_tokens = state.drafted_tokens;
  gauges.accepted_drafts = state.accepted_drafts;
  responder->respond(
      {200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}}, metrics_.text(gauges)});
}

void Service::properties(HttpRequest&, const Responder& responder) {
  const text::Tokenizer& tokenizer = prompts_.tokenizer();
  const auto piece = [&](const std::optional<std::int32_t>& token) {
    return token ? tokenizer.piece(*token) : std::string();
  };
  OrderedJson json;
  json["model_alias"] = options_.names.front();
  json["default_generation_settings"] = {{"n_ctx", limits_.context}};
  json["chat_template"] = options_.chat_template;
  json["bos_token"] = piece(tokenizer.bos());
  json["eos_token"] = piece(tokenizer.eos());
  json["model"] = to_json(options_.facts, limits_.context);
  responder->respond(json_response(200, to_text(json)));
}

void Service::page(HttpRequest& request, const Responder& responder) {
  responder->respond(*page_of(request.path));
}

}  // namespace nibble::serve
