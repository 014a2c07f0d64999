#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "core/json_type.h"
#include "engine/runner.h"
#include "models/layer_part.h"
#include "models/network.h"

/// The strategies that `nibble tune-strategy` has chosen, kept in a file of JSON beside schedules
/// (kernel_schedules.h) and times of kernels (kernel_times.h).
namespace nibble::engine {

/// What a strategy belongs to.
struct StrategyKey {
  std::string model;       // shape and weights: "bert, 6 x 256, ..., weights 0123456789abcdef"
  std::string device;      // "AMD EPYC 9654, avx512vnni, 2 threads, kernels 3", "NVIDIA H200"
  std::int64_t batch = 0;  // at most so many texts, a power of two
  std::int64_t seq = 0;    // of at most so many tokens, a power of two

  auto values() const { return std::tie(model, device, batch, seq); }
  friend bool operator<(const StrategyKey& a, const StrategyKey& b) {
    return a.values() < b.values();
  }
};

/// The key of a model with `batch` texts of `seq` tokens on the device of `runner`. Throws
/// kUsage for a model that is compressed, where that device can't be used, and for a batch or a
/// length that is not in [1, 2^20].
StrategyKey strategy_key(const models::Model& model, const RunnerOptions& runner,
                         std::int64_t batch, std::int64_t seq);

/// A CPU with its instruction set, threads and kernels, or a GPU. Throws kUsage where that device
/// can't be used.
std::string strategy_device(const RunnerOptions& runner);

/// A batch or a length as keys have it: the next power of two. Throws kUsage outside [1, 2^20];
/// `what` names it.
std::int64_t strategy_bucket(std::int64_t value, std::string_view what);

struct StoredStrategy {
  models::PartSchemes schemes;
  double microseconds = 0.0;        // of a step of the whole model
  double float_microseconds = 0.0;  // of the float one
  double loss = 0.0;                // of the whole model
  std::string measure;              // of the loss: "sst2 acc"
  std::string date;                 // "2026-01-31"
};

class StrategyFile {
 public:
  /// Of a file, or nothing where there is none. Throws kInvalidModel, naming the file, for what no
  /// nibble wrote, and kIo.
  static StrategyFile read(const std::filesystem::path& path);
  core::Json to_json() const;

  /// nullopt: nothing was tuned.
  std::optional<StoredStrategy> find(const StrategyKey& key) const;
  /// In the place of what is known of the key.
  void put(const StrategyKey& key, const StoredStrategy& strategy);

 private:
  std::map<StrategyKey, StoredStrategy> strategies_;
};

/// "strategies.json" in a folder.
std::filesystem::path strategies_in(const std::filesystem::path& folder);

/// Throws kUsage with what to do when nothing is stored for the key.
StoredStrategy require_strategy(const std::filesystem::path& file, const StrategyKey& key);

}  // namespace nibble::engine
