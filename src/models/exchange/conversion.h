#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/progress.h"
#include "core/threads.h"
#include "formats/packed_weight.h"
#include "models/model.h"

namespace nibble::models {

/// What a layer became in the files of another tool.
struct ConvertedLayer {
  std::string name;
  std::string from;  // its scheme
  std::string to;    // that of the target, or its own word for it: "Q4_0"
  std::int64_t weights = 0;
  std::int64_t stored_bytes = 0;  // in the files
  bool exact = false;             // its weights are the same numbers
  double squared_error = 0;       // sum over all weights of (written - before)^2
  double squared_weights = 0;     // and of before^2

  /// Frobenius norm of the change relative to that of the weights.
  double relative_error() const;
};

/// What conversion did, layer by layer, and what else is not as it was, a sentence each.
struct Conversion {
  std::vector<ConvertedLayer> layers;
  std::vector<std::string> remarks;

  double relative_error() const;        // of all layers together
  double bits_per_weight() const;       // of all layers in the files; 0 without any
  const ConvertedLayer* worst() const;  // null where there is none
};

/// Rounds weights [n, k] to integers of a scheme.
using Rounder = std::function<formats::PackedWeight(std::span<const float> weights, std::int64_t n,
                                                    std::int64_t k, const formats::Scheme& scheme,
                                                    core::ThreadPool& pool)>;

struct ConversionOptions {
  std::optional<formats::Scheme> scheme;  // of all compressed layers; of none: what fits them best
  Rounder round;  // what does not fit the target; empty: formats::round_to_nearest
  int threads = 0;
};

/// The squares of what differs between the rows of two weights: ConvertedLayer's sums.
void add_errors(ConvertedLayer& layer, std::span<const float> before, std::span<const float> after);

/// Writes `model` into the new folder `target` for `method`: "hf" (plain tensors), or a method of
/// formats::exchange that has a writer. Layers whose grid the method holds are moved; others are
/// decoded and rounded.
///
/// Throws kUsage for methods and schemes that there are not, for models without compressed layers
/// where no scheme says what they become, kInvalidModel for layers that the method can't hold and
/// models that its readers don't take, kIo as AtomicFolder.
Conversion convert_folder(const Model& model, std::string_view method,
                          const std::filesystem::path& target, const ConversionOptions& options,
                          core::ProgressSink& progress);

}  // namespace nibble::models
