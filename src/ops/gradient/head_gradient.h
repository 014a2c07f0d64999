#pragma once

#include <cstdint>
#include <vector>

#include "ops/layers.h"

namespace nibble::ops::gradient {

/// Vectors of a head, [rows, head_dim] with `stride` floats from row to row.
struct HeadView {
  const float* data = nullptr;
  std::int64_t stride = 0;
};

/// A query head of a sequence and the KV head that it reads, as they are multiplied: behind QK norm
/// and RoPE.
struct HeadRecord {
  std::int64_t rows = 0;  // of q, out and dout
  std::int64_t keys = 0;  // of k and v
  std::int64_t dim = 0;
  float scale = 1.0f;    // as those of AttentionSpec
  float softcap = 0.0f;  // 0: none
  Mask mask;             // causal ones have as many keys as rows
  HeadView q;
  HeadView k;
  HeadView v;
  HeadView out;
  HeadView dout;
  const float* dscores = nullptr;  // [rows, keys] of the capped scores, beside what comes through
                                   // out; null: 0
};

/// The gradient of out = softmax(cap(scale q k^T)) v. The probabilities are computed again:
/// [rows, keys] floats, twice.
class HeadGradient {
 public:
  HeadGradient(std::int64_t rows, std::int64_t keys);

  /// dq = the gradient at q, dk += that at k, [rows or keys, dim] without gaps; dv += that at v,
  /// `dv_stride` floats from row to row. `head` has the rows and keys of the constructor.
  void run(const HeadRecord& head, float* dq, float* dk, float* dv, std::int64_t dv_stride);

 private:
  void compute_probabilities(const HeadRecord& head);
  void compute_slopes(const HeadRecord& head);

  std::vector<float> probabilities_;  // [rows, keys]
  std::vector<float> slopes_;         // [rows, keys]
  std::vector<float> cap_slopes_;     // [rows, keys] where there is a softcap
};

}  // namespace nibble::ops::gradient
