#pragma once

#include <memory>

#include "compress/any4/book_steps.h"
#include "compress/backend/backend.h"

namespace nibble::compress::cuda {

inline constexpr std::int64_t kMostPoints = 65535;

/// BookSteps on a GPU, for rows of at most kMostPoints weights. Points are clustered by their
/// float32 values; sums are in double precision.
std::unique_ptr<BookSteps> make_cuda_book_steps(CudaContext& context, const BookProblem& problem,
                                                core::ThreadPool& pool);

}  // namespace nibble::compress::cuda
