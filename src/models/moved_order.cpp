#include "models/moved_order.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "formats/row_slice.h"

namespace nibble::models {
namespace {

bool has_adapter(const ops::LinearSet& set) {
  return std::any_of(set.parts.begin(), set.parts.end(),
                     [](const ops::Linear& part) { return part.low_rank.has_value(); });
}

// The order of down, for each run of its inputs that a part of up has: gate and up may be one.
std::vector<std::int64_t> outputs_of(const core::Tensor& permutation, std::int64_t n) {
  const auto order = permutation.data<std::int32_t>();
  std::vector<std::int64_t> outputs;
  for (std::int64_t first = 0; first < n; first += std::ssize(order)) {
    std::transform(order.begin(), order.end(), std::back_inserter(outputs),
                   [first](std::int32_t input) { return first + input; });
  }
  return outputs;
}

}  // namespace

bool can_move_order(const Mlp& mlp) {
  const std::int64_t k = mlp.down.k();
  return mlp.down.parts.size() == 1 && !mlp.down.parts.front().weight.permutation.empty() &&
         !has_adapter(mlp.down) && !has_adapter(mlp.up) &&
         std::all_of(mlp.up.parts.begin(), mlp.up.parts.end(), [k](const ops::Linear& part) {
           return part.weight.n % k == 0 && !formats::is_dense(part.weight.scheme) &&
                  formats::can_order_rows(part.weight.scheme);
         });
}

ops::LinearSet up_in_order_of_down(const Mlp& mlp) {
  const core::Tensor& permutation = mlp.down.parts.front().weight.permutation;
  ops::LinearSet up = mlp.up;
  for (ops::Linear& part : up.parts) {
    const std::vector<std::int64_t> outputs = outputs_of(permutation, part.weight.n);
    part.weight = formats::rows_in_order(part.weight, outputs);
    if (!part.bias.empty()) {
      std::vector<float> bias;
      std::transform(
          outputs.begin(), outputs.end(), std::back_inserter(bias),
          [&part](std::int64_t output) { return part.bias[static_cast<std::size_t>(output)]; });
      part.bias = std::move(bias);
    }
  }
  return up;
}

ops::LinearSet down_without_order(const Mlp& mlp) {
  ops::LinearSet down = mlp.down;
  formats::PackedWeight& weight = down.parts.front().weight;
  weight.scheme.inputs.ordered = false;
  weight.permutation = core::Tensor();
  return down;
}

}  // namespace nibble::models
