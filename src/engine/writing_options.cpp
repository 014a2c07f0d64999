#include "engine/writing_options.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "io/json_file.h"
#include "models/config_reader.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using core::Json;
using models::NetworkConfig;

constexpr std::int64_t kMaxBeams = 256;
constexpr std::string_view kGenerationFile = "generation_config.json";

// Settings that are not built, with the values at which they do nothing; null does nothing either.
const std::vector<std::pair<std::string_view, Json>>& settings_not_built() {
  static const std::vector<std::pair<std::string_view, Json>> settings = {
      {"repetition_penalty", 1.0},
      {"encoder_repetition_penalty", 1.0},
      {"encoder_no_repeat_ngram_size", 0},
      {"num_beam_groups", 1},
      {"diversity_penalty", 0.0},
      {"guidance_scale", 1.0},
      {"renormalize_logits", false},
      {"bad_words_ids", nullptr},
      {"force_words_ids", nullptr},
      {"constraints", nullptr},
      {"suppress_tokens", nullptr},
      {"begin_suppress_tokens", nullptr},
      {"forced_decoder_ids", nullptr},
      {"sequence_bias", nullptr},
      {"exponential_decay_length_penalty", nullptr},
      {"penalty_alpha", nullptr},
      {"typical_p", 1.0},
      {"epsilon_cutoff", 0.0},
      {"eta_cutoff", 0.0},
      {"top_h", nullptr},
  };
  return settings;
}

// Reads one of the two files.
class Settings {
 public:
  Settings(Json json, std::string_view file, std::int64_t vocabulary)
      : json_(std::move(json)), file_(file), vocabulary_(vocabulary) {}

  std::optional<std::int64_t> count(std::string_view key) const {
    return core::find_integer(json_, key, file_, 0, std::numeric_limits<std::int32_t>::max());
  }
  std::optional<double> number(std::string_view key) const {
    return core::find_number(json_, key, file_);
  }
  bool flag(std::string_view key) const {
    return core::find_bool(json_, key, file_).value_or(false);
  }
  std::vector<std::int32_t> tokens(std::string_view key) const {
    return models::ConfigReader(json_).token_ids(key, vocabulary_);
  }
  std::optional<std::int32_t> token(std::string_view key) const {
    const std::vector<std::int32_t> ids = tokens(key);
    core::require(ids.size() <= 1, ErrorKind::kInvalidModel, "{}: '{}' must be one token id", file_,
                  key);
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  }

  EarlyStopping early_stopping() const {
    constexpr std::string_view kKey = "early_stopping";
    if (json_.contains(kKey) && json_.at(kKey) == "never") {
      return EarlyStopping::kNever;
    }
    return flag(kKey) ? EarlyStopping::kYes : EarlyStopping::kNo;
  }

  void refuse_what_is_not_built() const {
    for (const auto& [key, idle] : settings_not_built()) {
      const auto found = json_.find(key);
      core::require(found == json_.end() || found->is_null() || *found == idle, ErrorKind::kUsage,
                    "{}: '{}' is not supported; take it out", file_, key);
    }
  }

 private:
  Json json_;
  std::string_view file_;
  std::int64_t vocabulary_;
};

Settings settings_of(const models::Model& model) {
  const std::filesystem::path file = model.path / kGenerationFile;
  const std::int64_t vocabulary = model.network.config.vocabulary;
  return std::filesystem::exists(file)
             ? Settings(io::load_json_file(file), kGenerationFile, vocabulary)
             : Settings(*model.config_json, "config.json", vocabulary);
}

// The oldest models of BART say it by a flag.
std::optional<std::int32_t> forced_first(const Settings& settings) {
  return settings.flag("force_bos_token_to_be_generated") ? settings.token("bos_token_id")
                                                          : settings.token("forced_bos_token_id");
}

DrawOptions draw_options(const Settings& settings) {
  DrawOptions draw;
  draw.temperature = static_cast<float>(settings.number("temperature").value_or(1.0));
  draw.top_k = settings.count("top_k").value_or(draw.top_k);
  draw.top_p = static_cast<float>(settings.number("top_p").value_or(1.0));
  draw.min_p = static_cast<float>(settings.number("min_p").value_or(0.0));
  return draw;
}

void validate(const DrawOptions& draw, std::int64_t vocabulary) {
  core::require(draw.temperature > 0, ErrorKind::kUsage,
                "temperature is {}; tokens are drawn at one above 0", draw.temperature);
  validate(sampling_options(draw), vocabulary);
}

}  // namespace

SamplingOptions sampling_options(const DrawOptions& draw) {
  return {.temperature = draw.temperature,
          .top_k = draw.top_k,
          .top_p = draw.top_p,
          .min_p = draw.min_p,
          .seed = draw.seed};
}

WritingOptions writing_options(const models::Model& model) {
  const NetworkConfig& config = model.network.config;
  const Settings settings = settings_of(model);
  settings.refuse_what_is_not_built();
  WritingOptions options;
  options.start = settings.token("decoder_start_token_id").value_or(config.decoder_start.value());
  options.ends = settings.tokens("eos_token_id");
  if (options.ends.empty()) {
    options.ends = config.eos;
  }
  options.min_length = settings.count("min_length").value_or(0);
  if (const auto written = settings.count("min_new_tokens")) {
    options.min_length = *written + 1;
  }
  options.max_length = settings.count("max_length").value_or(config.max_positions);
  if (const auto written = settings.count("max_new_tokens")) {
    options.max_length = *written + 1;
  }
  options.max_length = std::min(options.max_length, config.max_positions + 1);
  options.forced_first = forced_first(settings);
  options.forced_last = settings.tokens("forced_eos_token_id");
  options.no_repeat_ngram = settings.count("no_repeat_ngram_size").value_or(0);
  options.beams = settings.count("num_beams").value_or(1);
  options.length_penalty = settings.number("length_penalty").value_or(1.0);
  options.early_stopping = settings.early_stopping();
  options.samples = settings.flag("do_sample");
  options.draw = draw_options(settings);
  return options;
}

void validate(const WritingOptions& options, const NetworkConfig& config) {
  core::require(!options.samples || options.beams == 1, ErrorKind::kUsage,
                "tokens are drawn (do_sample) for one beam, not for {}: say --beams {} alone for a "
                "search, or a temperature for draws",
                options.beams, options.beams);
  if (options.samples) {
    validate(options.draw, config.vocabulary);
  }
  core::require(options.beams >= 1 && options.beams <= kMaxBeams, ErrorKind::kUsage,
                "{} beams: there may be 1 to {}", options.beams, kMaxBeams);
  core::require(std::isfinite(options.length_penalty) && std::abs(options.length_penalty) <= 100,
                ErrorKind::kUsage, "length penalty is {}, must be -100 to 100",
                options.length_penalty);
  core::require(options.no_repeat_ngram >= 0, ErrorKind::kUsage,
                "n-grams of {} tokens: there are none", options.no_repeat_ngram);
  core::require(options.max_length >= 2 && options.max_length <= config.max_positions + 1,
                ErrorKind::kUsage,
                "{} tokens to write at the most: the model has positions for 1 to {}",
                options.max_length - 1, config.max_positions);
}

}  // namespace nibble::engine
