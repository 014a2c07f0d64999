#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nibble::compress {

/// U with H^-1 = U^T U, from the damped Hessian of a layer's inputs.
struct InverseFactor {
  std::vector<float> upper;         // [k, k] row-major, upper triangular
  double damp = 0;                  // share of the mean diagonal that was added
  std::vector<std::int64_t> order;  // column i of the factor is input order[i]
  std::vector<bool> dead;           // by input: never active on the calibration text; none of them
                                    // where no input was ever active
};

/// `hessian` [k, k]: lower triangle of X^T X. Inputs are processed in descending order of their
/// diagonal when `descending` ("act-order"). The damp is raised tenfold until the factorisation
/// succeeds (GPTQ, arXiv 2210.17323, section 3.3, steps 2 and 3); throws kFailed when no damp up to
/// 1000 helps.
InverseFactor inverse_factor(const std::vector<float>& hessian, std::int64_t k, double damp,
                             bool descending);

/// What the user should know when the damp had to be raised.
std::string damp_note(const InverseFactor& factor);

}  // namespace nibble::compress
