#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "compress/calibration/calibration.h"
#include "device/place.h"
#include "ops/gradient/product_precision.h"
#include "tune/losses.h"

namespace nibble::tune {

/// How a stage trains.
struct StageOptions {
  bool runs = true;
  std::int64_t epochs = 0;
  double learning_rate = 0;  // of weights in BQPO, of logarithms of scales in E2E-OQP
  double scale_rate = 1.0;   // of logarithms of scales, as a share of it
  double zero_rate = 0.0;    // of zero points, as a share of it; 0: they stay
  double code_rate = 0.0;    // of codes in E2E-OQP, as a share of it; 0: they stay
};

/// How a compressed model is tuned against the float one.
struct TuningOptions {
  StageOptions blocks{true, 5, 3e-4, 3.0, 0.0, 0.0};  // BQPO
  StageOptions model{true, 2, 1e-3, 1.0, 0.0, 0.0};   // E2E-OQP
  LogitLoss loss;
  compress::CalibrationOptions calibration{{}, 128, 512, 0, 0};
  std::int64_t batch = 4;        // windows that are read at a time
  std::int64_t accumulate = 1;   // batches of a step
  std::int64_t memory = 0;       // bytes for activations of E2E-OQP; 0: half of what is available
  std::int64_t checkpoint = 50;  // steps of E2E-OQP between two states that are kept
  std::int64_t patience = 2;     // epochs of BQPO without a gain, after which a block is left
  std::uint64_t seed = 0;        // of the order of windows
  int threads = 0;
  device::Place place;
  ops::gradient::ProductPrecision precision =
      ops::gradient::ProductPrecision::kBfloat16;  // on a GPU
  std::optional<std::filesystem::path> csv;        // the loss of each step
};

}  // namespace nibble::tune
