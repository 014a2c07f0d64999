#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/tuning_texts.h"
#include "cli/window_options.h"
#include "core/progress.h"
#include "models/model.h"
#include "tune/qat/train_student.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}  // namespace CLI

namespace nibble::cli {

/// What `nibble tune --stage qat` takes: an encoder, a decoder, or an encoder-decoder, that learns
/// to run with rounded weights and activations.
class StudentTuning {
 public:
  void add(CLI::App& app);

  /// Options that other stages have too.
  tune::StudentOptions& options() { return options_; }

  /// Trains a student of `model` into the folder `output`. `name` is the model's in messages.
  void run(const models::Model& model, const std::string& name, const WindowOptions& windows,
           const std::string& output, bool resume, bool quiet);

 private:
  compress::Recipe recipe() const;
  tune::LayerCounts layers(const models::Model& model, const std::string& name) const;
  TuningTexts texts(const models::Model& model, const std::string& name,
                    const WindowOptions& windows) const;

  tune::StudentOptions options_;
  std::string task_;
  std::string data_;
  std::string recipe_ = "w4a4";
  std::string parts_;
  std::string prune_;
  std::string prune_by_ = "magnitude";
  bool prune_rounded_ = false;
  std::int64_t layers_ = 0;
  tune::LayerCounts stacks_;
  std::optional<std::string> loss_;
  std::int64_t limit_ = 0;
  std::int64_t max_length_ = 0;
};

}  // namespace nibble::cli
