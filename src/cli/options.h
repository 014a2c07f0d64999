#pragma once

#include <string>

#include "engine/runner.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace nibble::cli {

/// What every command takes: -v, -q, --json where it makes sense.
struct CommonOptions {
  bool quiet = false;
  bool verbose = false;
  bool json = false;
  void add(CLI::App& app, bool with_json);
};

/// How a model is run.
struct DeviceOptions {
  int threads = 0;
  std::string device = "cpu";
  std::string activations = "int8";
  std::string kv_type = "f16";
  void add(CLI::App& app);
  engine::RunnerOptions runner() const;  // throws kUsage
};

}  // namespace nibble::cli
