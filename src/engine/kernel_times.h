#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "core/json_type.h"

/// Measured times of a CPU's linear layers, kept in a file of JSON.
namespace nibble::engine {

/// How long a layer took, beside what its device can do at the most: reading the weights once at
/// the measured bandwidth, or the measured rate of 8-bit multiply-adds, whichever takes longer.
struct KernelTime {
  double microseconds = 0.0;
  double limit_microseconds = 0.0;
  bool limited_by_memory = false;  // else by arithmetic
  std::string date;                // of the measurement, "2026-01-31"
  double share_of_limit() const { return limit_microseconds / microseconds; }
};

/// What a time belongs to.
struct KernelTimeKey {
  std::string machine;  // the processor
  std::string isa;
  int threads = 0;
  std::string kernel;
  std::string layer;  // "int4-sym-g128, 4096 x 11008, int8 activations"
  std::int64_t tokens = 0;

  auto values() const { return std::tie(machine, isa, threads, kernel, layer, tokens); }
  friend bool operator<(const KernelTimeKey& a, const KernelTimeKey& b) {
    return a.values() < b.values();
  }
};

class KernelTimes {
 public:
  /// Of a file, or nothing where there is none; without the times of other kernels. Throws
  /// kInvalidModel, naming the file, for what no nibble wrote, and kIo.
  static KernelTimes read(const std::filesystem::path& path);
  core::Json to_json() const;

  /// nullopt: not measured.
  std::optional<KernelTime> find(const KernelTimeKey& key) const;
  /// In the place of what is known of the key.
  void put(const KernelTimeKey& key, const KernelTime& time);

 private:
  std::map<KernelTimeKey, KernelTime> times_;
};

/// "kernels-cpu.json" in a folder.
std::filesystem::path kernel_times_in(const std::filesystem::path& folder);

/// Today, "2026-01-31" (UTC).
std::string today();

}  // namespace nibble::engine
