#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/packed_weight.h"

/// Weights for tests of block-sparse rows, and what damaged ones are refused with.
namespace nibble::formats {

/// Weights of which `share` of the groups are 0. Row 0 keeps groups 0 2 3 5 6 ..., row 1 is empty,
/// row 2 has no group that is 0.
inline std::vector<float> sparse_values(std::int64_t n, std::int64_t k, std::int64_t group,
                                        double share) {
  core::Random random(5);
  std::vector<float> w(static_cast<std::size_t>(n * k));
  for (std::int64_t at = 0; at < n * k / group; ++at) {
    const std::int64_t row = at * group / k;
    const bool drawn = random.uniform() < share;
    const bool empty = row == 0 ? at % 3 == 1 : row == 1 || (row != 2 && drawn);
    for (std::int64_t i = 0; i < group; ++i) {
      const float value = random.normal();
      w[static_cast<std::size_t>(at * group + i)] = empty ? 0.0f : value;
    }
  }
  return w;
}

/// The message of the refusal of a damaged weight; empty when it is accepted.
inline std::string refusal_of(PackedWeight weight,
                              const std::function<void(PackedWeight&)>& damage) {
  damage(weight);
  try {
    validate(weight, "model.layers.0.q_proj");
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
    return error.what();
  }
  return "";
}

/// Whether a message of one line is about a part of that weight: "groups: row 0".
inline bool names(const std::string& message, const std::string& words) {
  return message.find("model.layers.0.q_proj." + words) != std::string::npos &&
         message.find('\n') == std::string::npos;
}

}  // namespace nibble::formats
