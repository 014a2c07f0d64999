#include "device/cuda/blas_lt.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string>
#include <tuple>

#include <cublasLt.h>

#include "core/error.h"
#include "device/cuda/cublas_status.h"
#include "device/cuda/memory.h"
#include "device/cuda/shared_library.h"

namespace nibble::device::cuda {
namespace {

constexpr std::array<const char*, 3> kNames = {"libcublasLt.so.13", "libcublasLt.so.12",
                                               "libcublasLt.so"};
constexpr std::int64_t kWorkspaceBytes = 32 << 20;  // what cuBLAS takes for itself on Hopper
constexpr std::int64_t kLeastTokens = 16;           // below, an algorithm of its own saves nothing

struct Functions {
  SharedLibrary library{"cuBLASLt", kNames};
  decltype(&cublasLtCreate) create = library.function<decltype(cublasLtCreate)>("cublasLtCreate");
  decltype(&cublasLtDestroy) destroy =
      library.function<decltype(cublasLtDestroy)>("cublasLtDestroy");
  decltype(&cublasLtMatmul) multiply = library.function<decltype(cublasLtMatmul)>("cublasLtMatmul");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic =
      library.function<decltype(cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmulAlgoCheck) check =
      library.function<decltype(cublasLtMatmulAlgoCheck)>("cublasLtMatmulAlgoCheck");
  decltype(&cublasLtMatmulDescCreate) create_operation =
      library.function<decltype(cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) destroy_operation =
      library.function<decltype(cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) set_operation =
      library.function<decltype(cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) create_layout =
      library.function<decltype(cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout =
      library.function<decltype(cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatmulPreferenceCreate) create_preference =
      library.function<decltype(cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference =
      library.function<decltype(cublasLtMatmulPreferenceDestroy)>(
          "cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference =
      library.function<decltype(cublasLtMatmulPreferenceSetAttribute)>(
          "cublasLtMatmulPreferenceSetAttribute");
};

const Functions& functions() {
  static const Functions found;
  return found;
}

void check(cublasStatus_t status, const char* call) {
  check_cublas(status, "cuBLASLt", call);
}

cudaDataType_t type_of(core::DType type) {
  switch (type) {
    case core::DType::kF16:
      return CUDA_R_16F;
    case core::DType::kBF16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

/// What the library makes and must take back.
template <typename Handle>
class Owned {
 public:
  using Destroy = cublasStatus_t (*)(Handle);
  explicit Owned(Destroy destroy) : destroy_(destroy) {}
  ~Owned() {
    if (value_ != nullptr) {
      destroy_(value_);
    }
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle* place() { return &value_; }
  Handle get() const { return value_; }

 private:
  Destroy destroy_;
  Handle value_ = nullptr;
};

/// A matrix as cuBLASLt sees it: by columns, so that each of ours is its transpose.
class Layout {
 public:
  Layout(core::DType type, std::int64_t rows, std::int64_t columns, std::int64_t ld)
      : value_(functions().destroy_layout) {
    check(functions().create_layout(value_.place(), type_of(type), static_cast<std::uint64_t>(rows),
                                    static_cast<std::uint64_t>(columns), ld),
          "cublasLtMatrixLayoutCreate");
  }
  cublasLtMatrixLayout_t get() const { return value_.get(); }

 private:
  Owned<cublasLtMatrixLayout_t> value_;
};

/// y^T [n, m] = w [n, k] x^T [k, m].
class Operation {
 public:
  Operation(const void* bias, cudaDataType_t type_of_bias) : value_(functions().destroy_operation) {
    check(functions().create_operation(value_.place(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of_bias);
    }
  }
  cublasLtMatmulDesc_t get() const { return value_.get(); }

 private:
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(functions().set_operation(value_.get(), attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }
  Owned<cublasLtMatmulDesc_t> value_;
};

/// The largest power of two up to 256 that divides an address.
std::uint32_t alignment_of(const void* address) {
  constexpr std::uintptr_t kMost = 256;
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | kMost;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// All that the choice of an algorithm depends on.
struct Kind {
  core::DType type;
  core::DType type_of_y;
  std::int64_t n;
  std::int64_t k;
  std::int64_t m;
  std::int64_t ldx;
  std::int64_t ldy;
  bool has_bias;
  bool adds;
  std::uint32_t alignment_of_w;
  std::uint32_t alignment_of_x;
  std::uint32_t alignment_of_y;

  explicit Kind(const LtProduct& product)
      : type(product.type),
        type_of_y(product.type_of_y),
        n(product.n),
        k(product.k),
        m(product.m),
        ldx(product.ldx),
        ldy(product.ldy),
        has_bias(product.bias != nullptr),
        adds(product.adds),
        alignment_of_w(alignment_of(product.w)),
        alignment_of_x(alignment_of(product.x)),
        alignment_of_y(alignment_of(product.y)) {}
  // NOLINTNEXTLINE(modernize-use-nullptr): of the comparison with 0 that the compiler writes
  friend auto operator<=>(const Kind&, const Kind&) = default;
};

struct Problem {
  Operation operation;
  Layout w;
  Layout x;
  Layout y;

  Problem(const Kind& kind, const void* bias)
      : operation(bias, type_of(kind.type_of_y)),
        w(kind.type, kind.k, kind.n, kind.k),
        x(kind.type, kind.k, kind.m, kind.ldx),
        y(kind.type_of_y, kind.n, kind.m, kind.ldy) {}
};

class Preference {
 public:
  explicit Preference(const Kind& kind) : value_(functions().destroy_preference) {
    check(functions().create_preference(value_.place()), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});  // through the workspace, in order
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kind.alignment_of_w);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kind.alignment_of_x);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kind.alignment_of_y);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kind.alignment_of_y);
  }
  cublasLtMatmulPreference_t get() const { return value_.get(); }

 private:
  template <typename Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    check(functions().set_preference(value_.get(), attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  }
  Owned<cublasLtMatmulPreference_t> value_;
};

}  // namespace

struct BlasLt::State {
  Owned<cublasLtHandle_t> handle{functions().destroy};
  Buffer workspace{kWorkspaceBytes};
  std::map<Kind, cublasLtMatmulAlgo_t> algorithms;  // of numbers of tokens that came

  State() { check(functions().create(handle.place()), "cublasLtCreate"); }

  cublasLtMatmulAlgo_t chosen(const Kind& kind, const void* bias) const {
    const Problem problem(kind, bias);
    const Preference preference(kind);
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    const cublasStatus_t status = functions().heuristic(
        handle.get(), problem.operation.get(), problem.w.get(), problem.x.get(), problem.y.get(),
        problem.y.get(), preference.get(), 1, &result, &count);
    core::require(status == CUBLAS_STATUS_SUCCESS && count > 0, core::ErrorKind::kFailed,
                  "cuBLASLt has no algorithm for {} tokens and {} x {} weights in {} (status {})",
                  kind.m, kind.n, kind.k, core::name_of(kind.type), static_cast<int>(status));
    return result.algo;
  }

  bool serves(const cublasLtMatmulAlgo_t& algorithm, const Problem& problem) const {
    cublasLtMatmulHeuristicResult_t result{};
    return functions().check(handle.get(), problem.operation.get(), problem.w.get(),
                             problem.x.get(), problem.y.get(), problem.y.get(), &algorithm,
                             &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= static_cast<std::size_t>(kWorkspaceBytes);
  }

  // That of the next power of two of tokens, unless it does not take these.
  const cublasLtMatmulAlgo_t& algorithm(const Kind& kind, const Problem& problem,
                                        const void* bias) {
    const auto at = algorithms.find(kind);
    if (at != algorithms.end()) {
      return at->second;
    }
    Kind rounded = kind;
    rounded.m = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max(kind.m, kLeastTokens))));
    auto whole = algorithms.find(rounded);
    if (whole == algorithms.end()) {
      whole = algorithms.emplace(rounded, chosen(rounded, bias)).first;
    }
    const bool same = serves(whole->second, problem);
    return algorithms.emplace(kind, same ? whole->second : chosen(kind, bias)).first->second;
  }
};

std::string_view BlasLt::absence() {
  static const std::string reason = [] {
    try {
      functions();
      return std::string();
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
  }();
  return reason;
}

BlasLt::BlasLt() : state_(std::make_unique<State>()) {}
BlasLt::~BlasLt() = default;
BlasLt::BlasLt(BlasLt&&) noexcept = default;
BlasLt& BlasLt::operator=(BlasLt&&) noexcept = default;

void BlasLt::multiply(const LtProduct& product, cudaStream_t stream) {
  if (product.m == 0) {
    return;
  }
  const Kind kind(product);
  const Problem problem(kind, product.bias);
  const float alpha = 1.0f;
  const float beta = product.adds ? 1.0f : 0.0f;
  check(functions().multiply(
            state_->handle.get(), problem.operation.get(), &alpha, product.w, problem.w.get(),
            product.x, problem.x.get(), &beta, product.y, problem.y.get(), product.y,
            problem.y.get(), &state_->algorithm(kind, problem, product.bias),
            state_->workspace.data(), static_cast<std::size_t>(kWorkspaceBytes), stream),
        "cublasLtMatmul");
}

}  // namespace nibble::device::cuda
