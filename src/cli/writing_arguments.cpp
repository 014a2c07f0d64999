#include "cli/writing_arguments.h"

#include "cli/option.h"
#include "core/error.h"
#include "engine/language_codes.h"

namespace nibble::cli {

void WritingArguments::add(CLI::App& app) {
  CLI::App& group = add_group(app, "Encoder-decoders",
                              "in place of what generation_config.json of the model says");
  beams_ = add_option(group, "--beams", said_.beams,
                      "Texts that are followed at a time (1: the likeliest token each time)");
  length_penalty_ = add_option(
      group, "--length-penalty", said_.length_penalty,
      "Power of the length that a beam's log-probability is divided by; larger: longer texts");
  early_ = add_option(group, "--early-stopping", early_stopping_,
                      "End when as many texts are finished as there are beams: yes; no, "
                      "while the best beam at its length is better; never, while it may "
                      "become better")
               ->one_of({"yes", "no", "never"});
  no_repeat_ = add_option(group, "--no-repeat-ngram", said_.no_repeat_ngram,
                          "Write no run of so many tokens twice (0: any)");
  least_ = add_option(group, "--min-tokens", min_tokens_, "Tokens to write at the least")
               ->in_range(std::int64_t{0}, std::int64_t{1} << 30);
  const Option source = add_option(group, "--source-language", source_language_,
                                   "Language of the text, as the tokenizer writes it: en_XX");
  const Option target = add_option(group, "--target-language", target_language_,
                                   "Language to write, as the tokenizer writes it: ro_RO");
  all_ = {beams_, length_penalty_, early_, no_repeat_, least_, source, target};
}

void WritingArguments::refuse(std::string_view what) const {
  for (const Option& option : all_) {
    core::require(option->count() == 0, core::ErrorKind::kUsage, "{} is {}",
                  core::lazily([&] { return option->get_name(); }), what);
  }
}

void WritingArguments::apply(const SaidDraws& said, engine::WritingOptions& options) const {
  if (said.any()) {
    options.samples = said.temperature != 0.0f;
    core::require(!options.samples || beams_->count() == 0 || options.beams == 1,
                  core::ErrorKind::kUsage,
                  "--beams {} is a search, which draws no tokens; leave it or --temp, --top-k, "
                  "--top-p and --min-p out",
                  options.beams);
    options.beams = options.samples ? 1 : options.beams;
  }
  core::require(!said.seed || options.samples || said.temperature, core::ErrorKind::kUsage,
                "--seed: this model draws no tokens unless --temp says so; leave it out");
  engine::DrawOptions& draw = options.draw;
  if (options.samples) {
    draw = {said.temperature.value_or(draw.temperature), said.top_k.value_or(draw.top_k),
            said.top_p.value_or(draw.top_p), said.min_p.value_or(draw.min_p),
            said.seed.value_or(draw.seed)};
  }
}

engine::WritingOptions WritingArguments::applied_to(const models::Model& model,
                                                    std::int64_t max_tokens,
                                                    const SaidDraws& draws) const {
  engine::WritingOptions options = engine::writing_options(model);
  if (beams_->count() > 0) {
    options.beams = said_.beams;
    options.samples = false;
  }
  apply(draws, options);
  if (length_penalty_->count() > 0) {
    options.length_penalty = said_.length_penalty;
  }
  if (early_->count() > 0) {
    options.early_stopping = early_stopping_ == "yes"  ? engine::EarlyStopping::kYes
                             : early_stopping_ == "no" ? engine::EarlyStopping::kNo
                                                       : engine::EarlyStopping::kNever;
  }
  if (no_repeat_->count() > 0) {
    options.no_repeat_ngram = said_.no_repeat_ngram;
  }
  if (least_->count() > 0) {
    options.min_length = min_tokens_ + 1;
  }
  if (max_tokens > 0) {
    options.max_length = max_tokens + 1;
  }
  if (!target_language_.empty()) {
    engine::set_target_language(options, *model.tokenizer, target_language_);
  }
  engine::validate(options, model.network.config);
  return options;
}

}  // namespace nibble::cli
