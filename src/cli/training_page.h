#pragma once

#include <span>
#include <string>

#include "tune/loss_curve.h"

namespace nibble::cli {

/// A page with the loss, the norm of the gradient and the learning rate of each stage of training,
/// drawn over the steps, and a table of the epochs. Where there are many steps a point is the mean
/// of several; of many blocks a few are drawn.
std::string training_page(const std::string& title, std::span<const tune::LossPoint> points);

}  // namespace nibble::cli
