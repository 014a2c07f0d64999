#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/sampling_options.h"
#include "cli/writing_arguments.h"
#include "engine/runner.h"

namespace nibble::cli {

/// What `nibble run` was asked for, of an encoder-decoder.
struct WritingCall {
  std::string source;
  std::int64_t max_tokens = 0;  // 0: as many as the model says
  SaidDraws draws;
  bool json = false;
  bool quiet = false;
};

/// Throws kUsage for options of `app` that are for decoders, naming the first.
void refuse_decoder_options(const CLI::App& app);

/// Reads the source and prints what the model writes for it. Throws as WritingArguments and
/// engine::write_texts.
void run_text_to_text(const WritingCall& call, const std::shared_ptr<const models::Model>& model,
                      const engine::RunnerOptions& options, const WritingArguments& arguments);

}  // namespace nibble::cli
