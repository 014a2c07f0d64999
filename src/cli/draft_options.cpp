#include "cli/draft_options.h"

#include "cli/hub_model.h"
#include "cli/open_model.h"
#include "cli/option.h"
#include "cli/options.h"
#include "engine/model_drafts.h"
#include "engine/ngram_drafts.h"
#include "engine/tile_file.h"

namespace nibble::cli {

void DraftOptions::add(CLI::App& app) {
  add_option(app, "--draft", source_,
             "Speculative decoding: a small model of the same vocabulary that guesses the next "
             "tokens, or 'ngram' to guess from the text itself; the tokens stay the same");
  add_option(app, "--draft-tokens", most_, "Tokens to guess in one step at the most")
      ->in_range(1, 32)
      ->capture_default_str();
}

std::unique_ptr<engine::DraftSource> DraftOptions::open(const models::Model& model,
                                                        engine::RunnerOptions options,
                                                        std::int64_t sequences) const {
  if (source_.empty()) {
    return nullptr;
  }
  if (source_ == "ngram") {
    return std::make_unique<engine::NgramDrafts>(most_);
  }
  const std::string place = model_place(source_, false);
  const auto drafts = cli::open_model(place, engine::stored_layers_for(options.place));
  engine::require_same_vocabulary(model, *drafts);
  const std::int64_t context = drafts->network.config.max_positions;
  options.tile_file.clear();
  return std::make_unique<engine::ModelDrafts>(
      engine::make_runner(drafts, engine::with_own_tiles(options, place)), most_, sequences,
      context);
}

}  // namespace nibble::cli
