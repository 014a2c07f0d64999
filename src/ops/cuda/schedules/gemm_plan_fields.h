#pragma once

#include <string>

#include "core/json.h"
#include "ops/cuda/gemm/gemm.h"

namespace nibble::ops::cuda {

/// Calls visit(name, member) for each member of a plan: the one list of them for files, comparisons
/// and words.
template <typename Plan, typename Visit>
void each_field(Plan& plan, const Visit& visit) {
  visit("wgmma", plan.wgmma);
  visit("row_tile", plan.row_tile);
  visit("token_tile", plan.token_tile);
  visit("cluster", plan.cluster);
  visit("blocks", plan.blocks);
}

inline bool same_plan(const GemmPlan& a, const GemmPlan& b) {
  const auto values = [](const GemmPlan& plan) {
    core::Json list = core::Json::array();
    each_field(plan, [&](const char*, auto value) { list.push_back(value); });
    return list;
  };
  return values(a) == values(b);
}

/// "wgmma, row_tile 128, token_tile 64, cluster 2, blocks 132"
inline std::string to_string(const GemmPlan& plan) {
  std::string text;
  each_field(plan, [&]<typename Value>(const char* name, Value value) {
    if constexpr (std::is_same_v<Value, bool>) {
      text += value ? std::string(text.empty() ? "" : ", ") + name : "";
    } else {
      text += std::string(text.empty() ? "" : ", ") + name + " " + std::to_string(value);
    }
  });
  return text;
}

}  // namespace nibble::ops::cuda
