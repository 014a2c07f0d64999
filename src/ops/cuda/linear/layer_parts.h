#pragma once

#include <cstddef>
#include <vector>

#include "device/cuda/memory.h"
#include "ops/layers.h"
#include "ops/linear_problem.h"

namespace nibble::ops::cuda {

/// How many parts from `first` on can run as one: those of one scheme whose inputs are
/// made ready alike.
std::size_t joint_parts(const LinearSet& set, std::size_t first);

/// Parts [first, last) of a set as one layer. Gate and up stand in pairs where both are in it,
/// neither has an adapter, and their rows are as many and a multiple of kPairRows.
LinearProblem joint_problem(const LinearSet& set, std::size_t first, std::size_t last);

/// The rows of dense parts [first, last), of one type, side by side on the device. Throws
/// kOutOfMemory.
device::cuda::Buffer joined_table(const LinearSet& set, std::size_t first, std::size_t last);
/// Their biases, zeros where a part has none; empty where none has.
std::vector<float> joined_bias(const LinearSet& set, std::size_t first, std::size_t last);

}  // namespace nibble::ops::cuda
