#pragma once

#include <cmath>
#include <vector>

#include "ops/cpu/attention/attention.h"

namespace nibble::ops::cpu::testing {

/// The problem of a case's rows over the first layer and head of a cache. `c` has rows, heads, dim,
/// first, window, bidirectional and softcap; q [rows, heads * dim] and the cache outlive it.
template <typename Case, typename Cache>
AttentionProblem problem_of(const Case& c, const std::vector<float>& q, const Cache& cache) {
  AttentionProblem p;
  p.q = q.data();
  p.ldq = p.ldo = c.heads * c.dim;
  p.rows = c.rows;
  p.heads = c.heads;
  p.head_dim = c.dim;
  p.scale = 1.0f / std::sqrt(static_cast<float>(c.dim));
  p.softcap = c.softcap;
  p.first_position = c.first;
  p.mask = {c.bidirectional, c.window};
  p.keys = cache.keys(0, 0);
  p.values = cache.values(0, 0);
  return p;
}

}  // namespace nibble::ops::cpu::testing
