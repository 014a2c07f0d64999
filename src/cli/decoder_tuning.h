#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/window_options.h"
#include "core/progress.h"
#include "models/model.h"
#include "tune/tuning_options.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}  // namespace CLI

namespace nibble::cli {

/// What `nibble tune` takes for compressed decoders: --stage bqpo, e2e-oqp or both.
class DecoderTuning {
 public:
  void add(CLI::App& app);

  /// Options that other stages have too.
  tune::TuningOptions& options() { return options_; }

  /// Tunes `model` into the folder `output`.
  void run(const models::Model& model, const std::string& stage, const WindowOptions& windows,
           const std::string& output, bool resume, core::ProgressSink& progress);

 private:
  tune::TuningOptions options_;
  std::string teacher_;
  std::string loss_ = "logits";
  double scale_rate_ = 1e-3;
  double zero_rate_ = 0;
  double code_rate_ = 0;
};

}  // namespace nibble::cli
