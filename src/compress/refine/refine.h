#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/coding/coded_weight.h"
#include "core/threads.h"

namespace nibble::compress {

struct RefineOptions {
  int sweeps = 2;      // times over all inputs
  bool scales = true;  // also fit the scales again
};

/// The whole matrix that refine() needs, from the lower triangle of X^T X [k, k]: both triangles,
/// with `damp` times the mean of the diagonal added to it.
std::vector<float> symmetric_hessian(const std::vector<float>& lower, std::int64_t k, double damp);

/// Lowers tr(E H E^T), E being what rounding changed, by cyclic coordinate descent: one code after
/// another takes the value that is best while all others stay (QuantEase, arXiv 2309.01885, section
/// 3; CDQuant, arXiv 2406.17542). After the codes of a group its scale is the least-squares
/// solution given everything else, rounded to its stored type. Zeros and books stay, and so do the
/// codes where `kept` [n, k] is 0 (empty: none): pruned weights.
///
/// target [n, k]: the weights before rounding; hessian [k, k] as symmetric_hessian makes it. No row
/// ever gets worse: a sweep that doesn't lower a row's loss is undone.
void refine(CodedWeight& coded, std::span<const float> target, std::int64_t n, std::int64_t k,
            const formats::Scheme& scheme, const std::vector<float>& hessian,
            const RefineOptions& options, core::ThreadPool& pool,
            std::span<const std::uint8_t> kept = {});

}  // namespace nibble::compress
