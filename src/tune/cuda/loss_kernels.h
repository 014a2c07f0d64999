#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

/// Losses at logits. All pointers are of the device. Nothing waits or allocates, and sums have a
/// fixed order.
namespace nibble::tune::cuda {

/// Shares of a loss, as those of LogitLoss.
struct LogitShares {
  float labels = 0;
  float logits = 0;
};

/// As logit_loss(), row by row: `logits` [m, vocabulary] become the gradient of scale times the sum
/// of all `losses` [m], which are 0 where there is no label (-1). `teacher` is read where
/// shares.logits is not 0.
void logit_loss(const LogitShares& shares, float* logits, const float* teacher,
                const std::int32_t* labels, float scale, std::int64_t m, std::int64_t vocabulary,
                double* losses, cudaStream_t stream);

}  // namespace nibble::tune::cuda
