#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compress/backend/backend.h"

namespace nibble::compress {

/// U with H^-1 = U^T U, from the damped Hessian of a layer's inputs.
struct InverseFactor {
  std::vector<float> upper;         // [k, k] row-major, upper triangular
  double damp = 0;                  // share of the mean diagonal that was added
  std::vector<std::int64_t> order;  // column i of the factor is input order[i]
  std::vector<bool> dead;           // by input: never active on the calibration text; none of them
                                    // where no input was ever active
};

/// A Hessian with its rows and columns in the order in which inputs are processed, damped.
struct OrderedHessian {
  const std::vector<float>& lower;         // [k, k], rows and columns as inputs are stored
  const std::vector<std::int64_t>& order;  // [k]
  const std::vector<bool>& dead;           // [k], by input: its diagonal becomes 1
  double added = 0;                        // to each element of the diagonal
  std::int64_t k() const { return static_cast<std::int64_t>(order.size()); }
};

/// U [k, k] row-major with H^-1 = U^T U; nothing when H is not positive definite. Computes in
/// double precision.
std::optional<std::vector<float>> upper_factor(const OrderedHessian& hessian);
using FactorFunction = std::function<std::optional<std::vector<float>>(const OrderedHessian&)>;

/// upper_factor() on the backend's GPU, where it has one.
FactorFunction factor_on(const Backend& backend);

/// `hessian` [k, k]: lower triangle of X^T X. Inputs are processed in descending order of their
/// diagonal when `descending` ("act-order"). The damp is raised tenfold until the factorisation
/// succeeds (GPTQ, arXiv 2210.17323, section 3.3, steps 2 and 3); throws kFailed when no damp up to
/// 1000 helps. `factor` is upper_factor() on some device.
InverseFactor inverse_factor(const std::vector<float>& hessian, std::int64_t k, double damp,
                             bool descending, const FactorFunction& factor = upper_factor);

/// What the user should know when the damp had to be raised.
std::string damp_note(const InverseFactor& factor);

}  // namespace nibble::compress
