#pragma once

#include <concepts>
#include <string>
#include <type_traits>

#include "core/json.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/medium_batch/medium_batch.h"
#include "ops/cuda/small_batch/small_batch.h"

namespace nibble::ops::cuda {

template <typename T, typename Schedule>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Schedule>;

/// Calls visit(name, member) for each member of a plan or schedule: the one list of them for files,
/// comparisons and words.
template <MaybeConst<GemmPlan> Plan, typename Visit>
void each_field(Plan& plan, const Visit& visit) {
  visit("wgmma", plan.wgmma);
  visit("row_tile", plan.row_tile);
  visit("token_tile", plan.token_tile);
  visit("cluster", plan.cluster);
  visit("blocks", plan.blocks);
  visit("divides_k", plan.divides_k);
}
template <MaybeConst<MediumBatchSchedule> Schedule, typename Visit>
void each_field(Schedule& schedule, const Visit& visit) {
  visit("row_groups", schedule.row_groups);
  visit("cluster", schedule.cluster);
  visit("blocks", schedule.blocks);
}
template <MaybeConst<SmallBatchSchedule> Schedule, typename Visit>
void each_field(Schedule& schedule, const Visit& visit) {
  visit("warps", schedule.warps);
  visit("stages", schedule.stages);
  visit("blocks", schedule.blocks);
}

template <typename Schedule>
core::Json fields_json(const Schedule& schedule) {
  core::Json json = core::Json::object();
  each_field(schedule, [&](const char* name, auto value) { json[name] = value; });
  return json;
}

template <typename Schedule>
bool same_fields(const Schedule& a, const Schedule& b) {
  return fields_json(a) == fields_json(b);
}

/// "row_tile 128, blocks 132", behind `text` where there is some; members that are false are left
/// out, and of others of two values there is but the name.
template <typename Schedule>
std::string with_fields(std::string text, const Schedule& schedule) {
  each_field(schedule, [&]<typename Value>(const char* name, Value value) {
    const std::string begin = std::string(text.empty() ? "" : ", ") + name;
    if constexpr (std::is_same_v<Value, bool>) {
      text += value ? begin : "";
    } else {
      text += begin + " " + std::to_string(value);
    }
  });
  return text;
}

/// "wgmma, row_tile 128, token_tile 64, cluster 2, blocks 132"
inline std::string to_string(const GemmPlan& plan) {
  return with_fields("", plan);
}
inline std::string to_string(const MediumBatchSchedule& schedule) {
  return with_fields("medium batch", schedule);
}
inline std::string to_string(const SmallBatchSchedule& schedule) {
  return with_fields("few tokens", schedule);
}

}  // namespace nibble::ops::cuda
