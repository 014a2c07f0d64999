#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nibble::compress {

/// M [k, k] = (C + d I) (H + d I)^-1: W M x comes closest (least squares) to W x0 when x is what
/// the input has become behind compressed layers and x0 what it was. C = sum of x0 x^T, all of it;
/// H = sum of x x^T, lower triangle; d = damp times the mean of H's diagonal, so that inputs that
/// were never active keep their weights. Throws kFailed when no damp makes H invertible.
std::vector<float> correction(const std::vector<float>& cross, const std::vector<float>& hessian,
                              std::int64_t k, double damp);

/// w [n, k] = w M.
void multiply_rows(std::vector<float>& w, std::int64_t k, const std::vector<float>& m);

}  // namespace nibble::compress
