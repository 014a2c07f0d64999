#include "compress/calibration/cuda/forward_ops.h"

namespace nibble::compress::cuda {

void ForwardOps::load(const models::Block& block) {
  release();
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    for (std::size_t part = 0; part < set->parts.size(); ++part) {
      if (RoundedLayers::serves(set->parts[part])) {
        rounded_.load(*set, part);
      } else {
        operators_.load(set->parts[part]);
      }
    }
  }
}

ForwardOps::Matrix ForwardOps::linear(Input& input, const ops::LinearSet& set) {
  if (observer_) {
    observer_(set, input.values_);
  }
  Matrix y = matrix(input.values_.rows(), set.n());
  std::int64_t column = 0;
  for (const ops::Linear& part : set.parts) {
    if (RoundedLayers::serves(part)) {
      rounded_.run(part, input.values_, y, column);
    } else {
      operators_.linear(input.values_, part, y, column);
    }
    column += part.weight.n;
  }
  return y;
}

ForwardOps::Input ForwardOps::attention(Matrix& qkv, const ops::AttentionSpec& spec, std::int64_t,
                                        const ops::Batch<Cache>& batch, const ops::LinearSet& set) {
  ops::gradient::cuda::CudaOperators::Attended seen;  // not needed: nothing goes back
  return Input(operators_.attention(qkv, spec, batch, set, seen));
}

}  // namespace nibble::compress::cuda
