#pragma once

#include <CLI/CLI.hpp>

#include "engine/sampler.h"

namespace nibble::cli {

inline void add_sampling_options(CLI::App& app, engine::SamplingOptions& options) {
  app.add_option("--temp", options.temperature, "Temperature; 0 takes the most probable token")
      ->capture_default_str();
  app.add_option("--top-k", options.top_k, "Keep the k most probable tokens (0: all)")
      ->capture_default_str();
  app.add_option("--top-p", options.top_p, "Keep the most probable tokens up to this share")
      ->capture_default_str();
  app.add_option("--min-p", options.min_p, "Drop tokens below this share of the most probable one")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of the draws")->capture_default_str();
}

}  // namespace nibble::cli
