#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/json.h"
#include "io/json_file.h"

namespace nibble::tune {

/// What PyTorch computed (tests/reference/make_training.py).
inline core::Json training_golden(const std::string& part) {
  return io::load_json_file(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "reference" /
                            "training.json")
      .at(part);
}

inline std::vector<float> floats(const core::Json& json) {
  return json.get<std::vector<float>>();
}

}  // namespace nibble::tune
