#include "ops/cuda/linear/layer_parts.h"

#include "ops/cuda/packed/unit_rows.h"
#include "ops/input_transform.h"

namespace nibble::ops::cuda {
namespace {

// Adapters add to parts.
bool in_pairs(const LinearSet& set) {
  return set.pairs && set.parts.size() == 2 && !set.parts[0].low_rank && !set.parts[1].low_rank &&
         set.parts[0].weight.n == set.parts[1].weight.n && set.parts[0].weight.n % kPairRows == 0;
}

}  // namespace

std::size_t joint_parts(const LinearSet& set, std::size_t first) {
  const formats::Scheme& scheme = set.parts[first].weight.scheme;
  std::size_t last = first + 1;
  if (formats::is_dense(scheme)) {
    return 1;
  }
  const InputTransform transform(set.parts[first].weight);
  while (last < set.parts.size() && set.parts[last].weight.scheme == scheme &&
         InputTransform(set.parts[last].weight) == transform) {
    ++last;
  }
  return last - first;
}

LinearProblem joint_problem(const LinearSet& set, std::size_t first, std::size_t last) {
  LinearProblem problem;
  problem.scheme = set.parts[first].weight.scheme;
  problem.k = set.parts[first].weight.k;
  problem.pairs = last - first == 2 && in_pairs(set);
  for (std::size_t part = first; part < last; ++part) {
    problem.n += set.parts[part].weight.n;
  }
  return problem;
}

}  // namespace nibble::ops::cuda
