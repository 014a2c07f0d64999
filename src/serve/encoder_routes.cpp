#include <cmath>
#include <random>

#include "core/error.h"
#include "core/ordered_json.h"
#include "engine/classification.h"
#include "serve/encoder_answers.h"
#include "serve/encoder_service.h"
#include "serve/health_answers.h"
#include "serve/whole_answer.h"

// The routes of a server of an encoder.
namespace nibble::serve {
namespace {

std::string random_id() {
  static thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("{:016x}", random());
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0;
  double square_a = 0;
  double square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const auto y = static_cast<double>(b[i]);
    product += x * y;
    square_a += x * x;
    square_b += y * y;
  }
  const double lengths = std::sqrt(square_a) * std::sqrt(square_b);
  return lengths > 0 ? product / lengths : 0;
}

}  // namespace

const std::vector<EncoderService::Route>& EncoderService::routes() {
  static const std::vector<Route> all = {
      {{"/v1/embeddings", "POST", false}, &EncoderService::embeddings},
      {{"/v1/rerank", "POST", false}, &EncoderService::rerank},
      {{"/rerank", "POST", false}, &EncoderService::rerank},
      {{"/v1/score", "POST", false}, &EncoderService::score},
      {{"/score", "POST", false}, &EncoderService::score},
      {{"/v1/completions", "POST", false}, &EncoderService::no_text},
      {{"/v1/chat/completions", "POST", false}, &EncoderService::no_text},
      {{"/v1/models", "GET", false}, &EncoderService::models},
      {{"/v1/models/", "GET", false}, &EncoderService::models},
      {{"/metrics", "GET", false}, &EncoderService::metrics},
      {{"/health", "GET", true}, &EncoderService::health},
      {{"/readyz", "GET", true}, &EncoderService::health},
      {{"/livez", "GET", true}, &EncoderService::live},
  };
  return all;
}

void EncoderService::embeddings(HttpRequest& request, const Responder& responder) {
  prepare(request, responder,
          [this](const OrderedJson& json, EncoderJob& job) { fill_embeddings(json, job); });
}

void EncoderService::rerank(HttpRequest& request, const Responder& responder) {
  prepare(request, responder,
          [this](const OrderedJson& json, EncoderJob& job) { fill_rerank(json, job); });
}

void EncoderService::score(HttpRequest& request, const Responder& responder) {
  prepare(request, responder,
          [this](const OrderedJson& json, EncoderJob& job) { fill_score(json, job); });
}

void EncoderService::no_text(HttpRequest&, const Responder& responder) {
  responder->respond(
      plain_error(400, fmt::format("'{}' is an encoder, which writes no text; it serves "
                                   "/v1/embeddings, /v1/rerank and /v1/score",
                                   options_.names.front()))
          .response());
}

void EncoderService::models(HttpRequest& request, const Responder& responder) {
  responder->respond(models_answer(served_, request.path));
}

void EncoderService::health(HttpRequest&, const Responder& responder) {
  responder->respond(health_answer(given_up_   ? "failed"
                                   : draining_ ? "draining"
                                   : failing_  ? "failing"
                                               : "ok"));
}

void EncoderService::live(HttpRequest&, const Responder& responder) {
  responder->respond(live_answer(!given_up_));
}

void EncoderService::metrics(HttpRequest&, const Responder& responder) {
  Gauges gauges;
  gauges.running = std::min(loop_.running(), std::ssize(jobs_));
  gauges.waiting = std::ssize(jobs_) - gauges.running;
  responder->respond({200,
                      {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                      metrics_.text(gauges),
                      nullptr});
}

// ---- what is asked of the encoder

void EncoderService::add_text(EncoderJob& job, const engine::InputText& text,
                              const Truncation& truncation, const std::string& param) const {
  const std::int64_t most =
      std::min(inputs_.most_tokens, truncation.most_tokens.value_or(inputs_.most_tokens));
  text::ModelInput input = text::encode_for_model(*model_->tokenizer, text.first, text.second,
                                                  {.most_tokens = truncation.cut ? most : 0});
  if (input.ids.empty()) {
    serve::refuse(param, "'{}' has no token", param);
  }
  if (static_cast<std::int64_t>(input.ids.size()) > inputs_.most_tokens) {
    throw ApiError(400, "invalid_request_error",
                   fmt::format("'{}' has {} tokens, the model takes {}; shorten it, or send "
                               "'truncate': true",
                               param, input.ids.size(), inputs_.most_tokens),
                   param, "context_length_exceeded");
  }
  job.inputs.push_back(std::move(input));
}

void EncoderService::fill_embeddings(const OrderedJson& json, EncoderJob& job) const {
  const EncoderEmbeddingsRequest asked = read_encoder_embeddings(json, limits_);
  check_model_name(served_, asked.fields.model);
  job.token_types = inputs_.token_types;
  for (std::size_t i = 0; i < asked.fields.inputs.size(); ++i) {
    const Prompt& prompt = asked.fields.inputs[i];
    const std::string param = fmt::format("input[{}]", i);
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      add_text(job, {*text, std::nullopt}, asked.truncation, param);
      continue;
    }
    const auto& tokens = std::get<std::vector<std::int32_t>>(prompt);
    if (static_cast<std::int64_t>(tokens.size()) > inputs_.most_tokens) {
      throw ApiError(400, "invalid_request_error",
                     fmt::format("'{}' has {} tokens, the model takes {}", param, tokens.size(),
                                 inputs_.most_tokens),
                     param, "context_length_exceeded");
    }
    job.inputs.push_back({tokens, std::vector<std::int32_t>(tokens.size()), {}, false});
  }
  job.answer = [model = served_.names.front(), base64 = asked.fields.base64,
                dimensions = asked.fields.dimensions,
                tokens = job.tokens()](EncoderJob::Rows rows) {
    const auto width = static_cast<std::int64_t>(rows.front().size());
    if (dimensions && *dimensions != width) {
      serve::refuse("dimensions",
                    "this model's embeddings have {} dimensions; others are not supported", width);
    }
    return json_response(embeddings_body(model, std::move(rows), base64, tokens));
  };
}

// Pairs for a cross-encoder; else the texts apart, whose embeddings are compared.
void EncoderService::add_pairs(EncoderJob& job, const std::vector<std::string>& firsts,
                               const std::vector<std::string>& seconds,
                               const Truncation& truncation, const char* first_param,
                               const char* second_param) const {
  job.token_types = inputs_.token_types;
  if (model_->network.classifier && !scores_pairs_) {
    throw plain_error(
        400, fmt::format("'{}' tells {} labels apart; scores need a model with one "
                         "label, or one of embeddings",
                         options_.names.front(), model_->network.classifier->labels.size()));
  }
  job.output = scores_pairs_ ? EncoderJob::Output::kLogits : EncoderJob::Output::kEmbeddings;
  if (!scores_pairs_) {
    for (const std::string& first : firsts) {
      add_text(job, {first, std::nullopt}, truncation, first_param);
    }
  }
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const std::string& first = firsts[firsts.size() == 1 ? 0 : i];
    const std::string param = fmt::format("{}[{}]", second_param, i);
    if (scores_pairs_) {
      add_text(job, {first, seconds[i]}, truncation, param);
    } else {
      add_text(job, {seconds[i], std::nullopt}, truncation, param);
    }
  }
}

std::vector<double> EncoderService::scores_of(const EncoderJob::Rows& rows, std::size_t pairs,
                                              bool raw) const {
  std::vector<double> scores;
  const std::size_t firsts = rows.size() - pairs;  // of embeddings
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::vector<float>& row = rows[firsts + i];
    if (!scores_pairs_) {
      scores.push_back(cosine(rows[firsts == 1 ? 0 : i], row));
    } else if (raw) {
      scores.push_back(static_cast<double>(row.front()));
    } else {
      scores.push_back(engine::probabilities(models::Problem::kRegression, row).front());
    }
  }
  return scores;
}

void EncoderService::fill_rerank(const OrderedJson& json, EncoderJob& job) const {
  const auto asked = std::make_shared<const RerankRequest>(read_rerank(json));
  check_model_name(served_, asked->model);
  const bool tei = asked->form == RerankRequest::Form::kTei;
  add_pairs(job, {asked->query}, asked->documents, asked->truncation, "query",
            tei ? "texts" : "documents");
  ScoringHead head{random_id(), served_.names.front(), 0, job.tokens()};
  job.answer = [this, asked, head](const EncoderJob::Rows& rows) {
    const bool raw = asked->raw_scores || raw_scores_;
    return rerank_answer(head, *asked, scores_of(rows, asked->documents.size(), raw));
  };
}

void EncoderService::fill_score(const OrderedJson& json, EncoderJob& job) const {
  const ScoreRequest asked = read_score(json);
  check_model_name(served_, asked.model);
  add_pairs(job, asked.firsts, asked.seconds, asked.truncation, "text_1", "text_2");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  ScoringHead head{random_id(), served_.names.front(),
                   std::chrono::duration_cast<std::chrono::seconds>(now).count(), job.tokens()};
  job.answer = [this, head, pairs = asked.seconds.size()](const EncoderJob::Rows& rows) {
    return score_answer(head, scores_of(rows, pairs, raw_scores_));
  };
}

}  // namespace nibble::serve
