#include "device/cuda/solver.h"

#include <array>

#include <cusolverDn.h>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/shared_library.h"

namespace nibble::device::cuda {
namespace {

constexpr std::array<const char*, 3> kNames = {"libcusolver.so.12", "libcusolver.so.11",
                                               "libcusolver.so"};
constexpr cublasFillMode_t kUpper = CUBLAS_FILL_MODE_UPPER;

struct Functions {
  SharedLibrary library{"cuSOLVER", kNames};
  decltype(&cusolverDnCreate) create =
      library.function<decltype(cusolverDnCreate)>("cusolverDnCreate");
  decltype(&cusolverDnDestroy) destroy =
      library.function<decltype(cusolverDnDestroy)>("cusolverDnDestroy");
  decltype(&cusolverDnSetStream) set_stream =
      library.function<decltype(cusolverDnSetStream)>("cusolverDnSetStream");
  decltype(&cusolverDnDpotrf_bufferSize) potrf_size =
      library.function<decltype(cusolverDnDpotrf_bufferSize)>("cusolverDnDpotrf_bufferSize");
  decltype(&cusolverDnDpotrf) potrf =
      library.function<decltype(cusolverDnDpotrf)>("cusolverDnDpotrf");
  decltype(&cusolverDnDpotri_bufferSize) potri_size =
      library.function<decltype(cusolverDnDpotri_bufferSize)>("cusolverDnDpotri_bufferSize");
  decltype(&cusolverDnDpotri) potri =
      library.function<decltype(cusolverDnDpotri)>("cusolverDnDpotri");
};

const Functions& functions() {
  static const Functions found;
  return found;
}

void require_success(cusolverStatus_t status, const char* call) {
  core::require(status == CUSOLVER_STATUS_SUCCESS,
                status == CUSOLVER_STATUS_ALLOC_FAILED ? core::ErrorKind::kOutOfMemory
                                                       : core::ErrorKind::kFailed,
                "cuSOLVER: {} gives status {}", call, static_cast<int>(status));
}

}  // namespace

struct Solver::Handle {
  cusolverDnHandle_t value = nullptr;
  ~Handle() {
    if (value != nullptr) {
      functions().destroy(value);
    }
  }
};

Solver::Solver(cudaStream_t stream)
    : handle_(std::make_unique<Handle>()), stream_(stream), status_(sizeof(int)) {
  require_success(functions().create(&handle_->value), "cusolverDnCreate");
  require_success(functions().set_stream(handle_->value, stream), "cusolverDnSetStream");
}

Solver::~Solver() = default;
Solver::Solver(Solver&&) noexcept = default;
Solver& Solver::operator=(Solver&&) noexcept = default;

double* Solver::workspace(std::int64_t values) {
  const auto bytes = values * static_cast<std::int64_t>(sizeof(double));
  if (workspace_.bytes() < bytes) {
    workspace_ = Buffer();
    workspace_ = Buffer(bytes);
  }
  return workspace_.as<double>();
}

bool Solver::succeeded() const {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return status_.values<int>().front() == 0;
}

bool Solver::factor(double* a, std::int64_t n) {
  int size = 0;
  const auto order = static_cast<int>(n);
  require_success(functions().potrf_size(handle_->value, kUpper, order, a, order, &size),
                  "cusolverDnDpotrf_bufferSize");
  require_success(functions().potrf(handle_->value, kUpper, order, a, order, workspace(size), size,
                                    status_.as<int>()),
                  "cusolverDnDpotrf");
  return succeeded();
}

bool Solver::invert(double* u, std::int64_t n) {
  int size = 0;
  const auto order = static_cast<int>(n);
  require_success(functions().potri_size(handle_->value, kUpper, order, u, order, &size),
                  "cusolverDnDpotri_bufferSize");
  require_success(functions().potri(handle_->value, kUpper, order, u, order, workspace(size), size,
                                    status_.as<int>()),
                  "cusolverDnDpotri");
  return succeeded();
}

}  // namespace nibble::device::cuda
