#include "device/cuda/blas.h"

#include <array>

#include <cublas_v2.h>

#include "device/cuda/cublas_status.h"
#include "device/cuda/shared_library.h"

namespace nibble::device::cuda {
namespace {

constexpr std::array<const char*, 3> kNames = {"libcublas.so.13", "libcublas.so.12",
                                               "libcublas.so"};

struct Functions {
  SharedLibrary library{"cuBLAS", kNames};
  decltype(&cublasCreate_v2) create =
      library.function<decltype(cublasCreate_v2)>("cublasCreate_v2");
  decltype(&cublasDestroy_v2) destroy =
      library.function<decltype(cublasDestroy_v2)>("cublasDestroy_v2");
  decltype(&cublasSetStream_v2) set_stream =
      library.function<decltype(cublasSetStream_v2)>("cublasSetStream_v2");
  decltype(&cublasSetMathMode) set_math_mode =
      library.function<decltype(cublasSetMathMode)>("cublasSetMathMode");
  // A function that the header overloads in C++.
  using Multiply = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                  int, const void*, const void*, cudaDataType, int, long long,
                                  const void*, cudaDataType, int, long long, const void*, void*,
                                  cudaDataType, int, long long, int, cublasComputeType_t,
                                  cublasGemmAlgo_t);
  Multiply* multiply = library.function<Multiply>("cublasGemmStridedBatchedEx");
};

const Functions& functions() {
  static const Functions found;
  return found;
}

void check(cublasStatus_t status, const char* call) {
  check_cublas(status, "cuBLAS", call);
}

}  // namespace

struct Blas::Handle {
  cublasHandle_t value = nullptr;
  cublasComputeType_t float_products = CUBLAS_COMPUTE_32F;
  ~Handle() {
    if (value != nullptr) {
      functions().destroy(value);
    }
  }
};

Blas::Blas(cudaStream_t stream, FloatProducts products) : handle_(std::make_unique<Handle>()) {
  check(functions().create(&handle_->value), "cublasCreate");
  check(functions().set_stream(handle_->value, stream), "cublasSetStream");
  check(functions().set_math_mode(handle_->value, CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
  if (products == FloatProducts::kTf32) {
    handle_->float_products = CUBLAS_COMPUTE_32F_FAST_TF32;
  }
}

Blas::~Blas() = default;
Blas::Blas(Blas&&) noexcept = default;
Blas& Blas::operator=(Blas&&) noexcept = default;

// cuBLAS reads matrices by columns, so that it sees the transpose of each: c^T = b^T a^T.
void Blas::multiply(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Operand& a,
                    const Operand& b, float beta, const Product& c, std::int64_t batch) const {
  if (m == 0 || n == 0 || batch == 0) {
    return;
  }
  const auto operation = [](const Operand& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const auto type = [](const Operand& x) {
    return x.type == core::DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
  };
  check(functions().multiply(
            handle_->value, operation(b), operation(a), static_cast<int>(n), static_cast<int>(m),
            static_cast<int>(k), &alpha, b.data, type(b), static_cast<int>(b.ld), b.stride, a.data,
            type(a), static_cast<int>(a.ld), a.stride, &beta, c.data, CUDA_R_32F,
            static_cast<int>(c.ld), c.stride, static_cast<int>(batch),
            a.type == core::DType::kF32 ? handle_->float_products : CUBLAS_COMPUTE_32F,
            CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
}

}  // namespace nibble::device::cuda
