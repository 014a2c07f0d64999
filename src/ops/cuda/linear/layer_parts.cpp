#include "ops/cuda/linear/layer_parts.h"

#include "device/cuda/check.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/input_transform.h"

namespace nibble::ops::cuda {
namespace {

// Adapters add to parts.
bool in_pairs(const LinearSet& set) {
  return set.pairs && set.parts.size() == 2 && !set.parts[0].low_rank && !set.parts[1].low_rank &&
         set.parts[0].weight.n == set.parts[1].weight.n && set.parts[0].weight.n % kPairRows == 0;
}

// Of its inputs; 0 where none is stored.
float input_scale(const formats::PackedWeight& weight) {
  return weight.scheme.activation.stored_scale ? formats::input_scale_of(weight) : 0.0f;
}

// Whether the inputs of both are made ready alike.
bool reads_alike(const formats::PackedWeight& a, const formats::PackedWeight& b) {
  return a.scheme == b.scheme && InputTransform(a) == InputTransform(b) &&
         input_scale(a) == input_scale(b);
}

}  // namespace

std::size_t joint_parts(const LinearSet& set, std::size_t first) {
  std::size_t last = first + 1;
  while (last < set.parts.size() && reads_alike(set.parts[first].weight, set.parts[last].weight)) {
    ++last;
  }
  return last - first;
}

LinearProblem joint_problem(const LinearSet& set, std::size_t first, std::size_t last) {
  LinearProblem problem;
  problem.scheme = set.parts[first].weight.scheme;
  problem.k = set.parts[first].weight.k;
  problem.pairs = last - first == 2 && !formats::is_dense(problem.scheme) && in_pairs(set);
  for (std::size_t part = first; part < last; ++part) {
    problem.n += set.parts[part].weight.n;
  }
  return problem;
}

device::cuda::Buffer joined_table(const LinearSet& set, std::size_t first, std::size_t last) {
  std::int64_t bytes = 0;
  for (std::size_t part = first; part < last; ++part) {
    bytes += set.parts[part].weight.dense.bytes();
  }
  device::cuda::Buffer table(bytes);
  std::byte* to = table.data();
  for (std::size_t part = first; part < last; ++part) {
    const core::Tensor& rows = set.parts[part].weight.dense;
    const auto count = static_cast<std::size_t>(rows.bytes());
    device::cuda::check(cudaMemcpy(to, rows.raw(), count, cudaMemcpyHostToDevice), "cudaMemcpy");
    to += count;
  }
  return table;
}

std::vector<float> joined_bias(const LinearSet& set, std::size_t first, std::size_t last) {
  bool has_bias = false;
  for (std::size_t part = first; part < last; ++part) {
    has_bias = has_bias || !set.parts[part].bias.empty();
  }
  std::vector<float> all;
  for (std::size_t part = first; has_bias && part < last; ++part) {
    const Linear& layer = set.parts[part];
    std::vector<float> bias = layer.bias;
    bias.resize(static_cast<std::size_t>(layer.weight.n));
    all.insert(all.end(), bias.begin(), bias.end());
  }
  return all;
}

}  // namespace nibble::ops::cuda
