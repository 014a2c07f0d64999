#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/model.h"

namespace nibble::engine {

/// The head that labels texts or tokens. Throws kUsage where the model has none.
const models::Classifier& classifier_of(const models::Model& model);

/// The number of the first of the largest outputs.
std::size_t best_label(std::span<const float> logits);

/// The probability of each output: softmax where one label is right, else the logistic function.
std::vector<double> probabilities(models::Problem problem, std::span<const float> logits);

}  // namespace nibble::engine
