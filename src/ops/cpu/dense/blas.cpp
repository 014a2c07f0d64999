#include "ops/cpu/dense/blas.h"

#include <cstdlib>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <sys/mman.h>

#include "core/error.h"
#include "ops/cpu/cpu_features.h"

namespace nibble::ops::cpu {
namespace {

using core::ErrorKind;

constexpr std::size_t kLibraryBytes = std::size_t{64} << 20;
constexpr std::size_t kCallBytes = std::size_t{128}
                                   << 20;  // addresses that a call works in: x86-64

bool can_map(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return false;
  }
  munmap(memory, bytes);
  return true;
}

// The loader does not say whether memory was what it lacked.
[[noreturn]] void fail_to_open() {
  const char* reason = dlerror();
  core::require(can_map(kLibraryBytes), ErrorKind::kOutOfMemory, "no memory for OpenBLAS");
  core::fail(ErrorKind::kFailed, "OpenBLAS cannot be opened ({}); install it (libopenblas0)",
             core::printable(reason != nullptr ? reason : "no reason given"));
}

void* open_library() {
  setenv("OPENBLAS_NUM_THREADS", "1", 1);  // it starts its threads while it is loaded
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
  }
  fail_to_open();
}

// It stays open.
void* library() {
  static void* const opened = open_library();
  return opened;
}

// A function that not every build of it has; null: this one has not.
template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(library(), name));
}

template <typename Function>
void take(Function& function, const char* name) {
  function = find<Function>(name);
  core::require(function != nullptr, ErrorKind::kFailed, "OpenBLAS has no function {}", name);
}

// The kernels that OpenBLAS should have chosen where it fell back to its oldest; null: none better.
const char* better_core(const Blas& functions) {
  if (std::string_view(functions.corename()) != "Prescott" ||
      std::getenv("OPENBLAS_CORETYPE") != nullptr) {
    return nullptr;
  }
  const CpuFeatures& features = cpu_features();
  return features.avx512 ? "SkylakeX" : features.avx2 ? "Haswell" : nullptr;
}

void choose_core(const Blas& functions) {
  const char* const core = better_core(functions);
  const auto quit = find<void (*)()>("gotoblas_dynamic_quit");
  const auto init = find<void (*)()>("gotoblas_dynamic_init");
  if (core == nullptr || quit == nullptr || init == nullptr) {
    return;
  }
  setenv("OPENBLAS_CORETYPE", core, 1);
  quit();
  init();  // reads the environment
}

Blas open_blas() {
  Blas functions = {};
  take(functions.sgemm, "cblas_sgemm");
  take(functions.ssymm, "cblas_ssymm");
  take(functions.sgemv, "cblas_sgemv");
  take(functions.saxpy, "cblas_saxpy");
  take(functions.dpotrf, "dpotrf_");
  take(functions.dpotri, "dpotri_");
  take(functions.dpotrs, "dpotrs_");
  take(functions.corename, "openblas_get_corename");
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
  take(set_num_threads, "openblas_set_num_threads");
  set_num_threads(1);  // also where the environment does not decide (OpenMP)
  choose_core(functions);
  return functions;
}

}  // namespace

const Blas& blas() {
  static const Blas opened = open_blas();
  return opened;
}

void reserve_blas_memory(int threads) {
  static_cast<void>(blas());
  const auto allocate = find<void* (*)(int)>("blas_memory_alloc");
  const auto release = find<void (*)(void*)>("blas_memory_free");
  if (allocate == nullptr || release == nullptr) {
    return;  // another OpenBLAS, with other ways
  }
  // Each call takes one of the places that are free; so many exist afterwards.
  std::vector<void*> places;
  places.reserve(static_cast<std::size_t>(threads));
  try {
    for (int i = 0; i < threads; ++i) {
      core::require(can_map(kCallBytes), ErrorKind::kOutOfMemory,
                    "no memory for products in {} threads; use a smaller --threads", threads);
      places.push_back(allocate(1));
    }
  } catch (...) {
    for (void* place : places) {
      release(place);
    }
    throw;
  }
  for (void* place : places) {
    release(place);
  }
}

}  // namespace nibble::ops::cpu
