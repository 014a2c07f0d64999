#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/column_slice.h"
#include "formats/cut_weights_for_tests.h"
#include "formats/packed_weight.h"
#include "formats/row_slice.h"

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

/// Parts of a weight of 5 rows hold what the whole does: parts of the outputs, and of the inputs;
/// among them such that keep nothing, and such whose indices are of one byte where those of the
/// whole are of two.
inline void expect_parts_hold_the_whole(const PackedWeight& weight) {
  const std::int64_t group = weight.scheme.scale.group;
  const std::int64_t groups = weight.k / group;
  for (const auto& [begin, end] : {std::pair{0, 5}, {0, 2}, {1, 2}, {3, 5}}) {
    const PackedWeight slice = own_rows_of(weight, begin, end);
    validate(slice, "slice");
    EXPECT_EQ(slice.n, end - begin);
    for (std::int64_t row = 0; row < slice.n; ++row) {
      EXPECT_EQ(decoded(slice, row), decoded(weight, begin + row)) << "row " << row;
    }
  }
  for (const std::int64_t cut : {std::int64_t{2}, groups / 2}) {
    for (const auto& [first, last] : {std::pair{std::int64_t{0}, cut}, {cut, groups}}) {
      const PackedWeight slice = columns_of(weight, first * group, last * group);
      validate(slice, "slice");
      EXPECT_EQ(slice.k, (last - first) * group);
      for (std::int64_t row = 0; row < slice.n; ++row) {
        const std::vector<float> whole = decoded(weight, row);
        EXPECT_EQ(decoded(slice, row),
                  std::vector<float>(whole.begin() + first * group, whole.begin() + last * group))
            << "row " << row;
      }
    }
  }
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

/// What a test does to a weight of 4 rows of `groups` groups of 16; the message of its refusal.
using Damage = std::function<void(PackedWeight&)>;
using DamagedRows = std::function<std::string(const Damage& damage, std::int64_t groups)>;

inline std::int32_t& row_end(PackedWeight& w, std::size_t row) {
  return w.row_index.mutable_data<std::int32_t>()[row];
}
inline std::uint8_t& group(PackedWeight& w, std::size_t at) {
  return w.groups.mutable_data<std::uint8_t>()[at];
}

/// Every wrong index of rows or groups is refused. `weights`: the part that holds those of a group.
inline void expect_wrong_indices_are_refused(const DamagedRows& damaged,
                                             const std::string& weights) {
  const auto refused = [&](const Damage& damage, const std::string& words,
                           std::int64_t groups = 6) {
    const std::string message = damaged(damage, groups);
    EXPECT_TRUE(names(message, words)) << words << ": " << message;
  };
  EXPECT_EQ(damaged([](PackedWeight&) {}, 6), "");
  refused([](PackedWeight& w) { row_end(w, 0) = 1; }, "row_index: begins");
  refused([](PackedWeight& w) { row_end(w, 0) = -1; }, "row_index: begins");
  refused([](PackedWeight& w) { row_end(w, 2) = 0; }, "row_index: row 1");
  refused([](PackedWeight& w) { row_end(w, 1) = 7; }, "row_index: row 0");
  refused([](PackedWeight& w) { row_end(w, 4) = 1 << 30; }, "row_index: row 3");
  refused([](PackedWeight& w) { row_end(w, 4) -= 1; }, weights);  // fewer groups than parts have
  refused(
      [](PackedWeight& w) {
        for (std::size_t row = 0; row < 5; ++row) {
          row_end(w, row) = 0;
        }
      },
      "row_index: no group");
  refused([](PackedWeight& w) { group(w, 0) = 6; }, "groups: row 0");
  refused([](PackedWeight& w) { group(w, 1) = group(w, 0); }, "groups: row 0");  // twice
  refused([](PackedWeight& w) { std::swap(group(w, 0), group(w, 1)); }, "groups: row 0");
  refused([](PackedWeight& w) { group(w, 1) = 1; }, "groups: row 0", 300);  // an upper byte
}

}  // namespace nibble::formats
