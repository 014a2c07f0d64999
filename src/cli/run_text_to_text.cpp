#include "cli/run_text_to_text.h"

#include <chrono>

#include "cli/option.h"
#include "cli/output.h"
#include "core/json.h"
#include "engine/language_codes.h"
#include "engine/request.h"
#include "engine/write_texts.h"
#include "text/model_input.h"

namespace nibble::cli {
namespace {

// Options of `nibble run` that say how a prompt is continued.
constexpr const char* kDecoderOptions[] = {"--stop",
                                           "--ignore-eos",
                                           "--context",
                                           "--copies",
                                           "--repeat-penalty",
                                           "--presence-penalty",
                                           "--frequency-penalty",
                                           "--logit-bias",
                                           "--draft",
                                           "--draft-tokens",
                                           "--grammar",
                                           "--grammar-file",
                                           "--json-schema",
                                           "--json-schema-file",
                                           "--regex",
                                           "--kv-type"};

text::ModelInput encode(const text::Tokenizer& tokenizer, const WritingCall& call,
                        const std::string& language) {
  text::ModelInput input = text::encode_for_model(tokenizer, call.source, std::nullopt);
  if (!language.empty()) {
    engine::set_source_language(input, tokenizer, language);
  }
  return input;
}

}  // namespace

void refuse_decoder_options(const CLI::App& app) {
  for (const char* name : kDecoderOptions) {
    core::require(option_of(app, name)->count() == 0, core::ErrorKind::kUsage,
                  "{} is for models that continue a prompt; leave it out for an encoder-decoder",
                  name);
  }
}

void run_text_to_text(const WritingCall& call, const std::shared_ptr<const models::Model>& model,
                      const engine::RunnerOptions& options, const WritingArguments& arguments) {
  const engine::WritingOptions writing = arguments.applied_to(*model, call.max_tokens, call.draws);
  const text::ModelInput input = encode(*model->tokenizer, call, arguments.source_language());
  const auto writer = engine::make_text_to_text(model, options);
  const auto start = std::chrono::steady_clock::now();
  const std::span<const std::int32_t> source = input.ids;
  const engine::WrittenText written = engine::write_texts(*writer, {&source, 1}, writing).front();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string text = engine::text_of(written, writing, *model->tokenizer);
  const std::vector<std::int32_t> tokens(written.tokens.begin() + 1, written.tokens.end());
  const auto reason =
      engine::to_string(engine::is_ended(written, writing) ? engine::FinishReason::kStop
                                                           : engine::FinishReason::kLength);
  if (!call.json) {
    print_result("{}\n", text);
    if (!call.quiet) {
      print_note("{} tokens read, {} written in {:.2f} s ({:.1f} tokens/s), ended by {}\n",
                 input.ids.size(), tokens.size(), seconds,
                 static_cast<double>(tokens.size()) / seconds, reason);
    }
    return;
  }
  core::Json json = {{"prompt", call.source},
                     {"text", text},
                     {"token_ids", tokens},
                     {"prompt_tokens", input.ids.size()},
                     {"completion_tokens", tokens.size()},
                     {"finish_reason", reason},
                     {"beams", writing.beams},
                     {"seconds", seconds}};
  if (writing.samples) {
    json["seed"] = writing.draw.seed;
  }
  if (writing.beams > 1) {
    json["score"] = written.score;
  }
  print_result("{}\n", json.dump(-1, ' ', false, core::Json::error_handler_t::replace));
}

}  // namespace nibble::cli
