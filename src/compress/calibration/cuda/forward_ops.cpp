#include "compress/calibration/cuda/forward_ops.h"

namespace nibble::compress::cuda {

void ForwardOps::load(const models::Block& block) {
  release();
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    operators_.load(*set);
  }
}

ForwardOps::Matrix ForwardOps::linear(Input& input, const ops::LinearSet& set) {
  if (observer_) {
    observer_(set, input.values_);
  }
  return operators_.linear(input.values_, set);
}

ForwardOps::Input ForwardOps::attention(Matrix& qkv, const ops::AttentionSpec& spec, std::int64_t,
                                        const ops::Batch<Cache>& batch, const ops::LinearSet& set) {
  ops::gradient::cuda::CudaOperators::Attended seen;  // not needed: nothing goes back
  return Input(operators_.attention(qkv, spec, batch, set, seen));
}

}  // namespace nibble::compress::cuda
