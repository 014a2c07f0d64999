#include "compress/any4/cuda_book_steps.h"

#include "compress/backend/absent/no_gpu.h"

namespace nibble::compress::cuda {

std::unique_ptr<BookSteps> make_cuda_book_steps(CudaContext&, const BookProblem&,
                                                core::ThreadPool&) {
  no_gpu();
}

}  // namespace nibble::compress::cuda
