#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace nibble::formats::exchange {

/// The order that makes groups contiguous: stored input i is input order[i] of the layer. Inputs of
/// a group keep their order. `group_of` [k] is the group of each input ("g_idx" of act-order);
/// groups have `group` inputs, the last may have fewer. Empty where the groups are contiguous
/// already. Throws kInvalidModel naming the layer for anything else.
std::vector<std::int32_t> order_by_group(std::span<const std::int32_t> group_of, std::int64_t group,
                                         std::string_view layer);

}  // namespace nibble::formats::exchange
