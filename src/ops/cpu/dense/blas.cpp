#include "ops/cpu/dense/blas.h"

#include <cstdlib>
#include <mutex>
#include <string_view>

#include <cblas.h>
#include <dlfcn.h>

#include "ops/cpu/cpu_features.h"

namespace nibble::ops::cpu {
namespace {

using Function = void (*)();

// A function of OpenBLAS that not every build of it has.
Function find_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// The kernels that OpenBLAS should have chosen where it fell back to its oldest; null: none better.
const char* better_core() {
  if (std::string_view(openblas_get_corename()) != "Prescott" ||
      std::getenv("OPENBLAS_CORETYPE") != nullptr) {
    return nullptr;
  }
  const CpuFeatures& features = cpu_features();
  return features.avx512 ? "SkylakeX" : features.avx2 ? "Haswell" : nullptr;
}

void choose_core() {
  const char* const core = better_core();
  const Function quit = find_function("gotoblas_dynamic_quit");
  const Function init = find_function("gotoblas_dynamic_init");
  if (core == nullptr || quit == nullptr || init == nullptr) {
    return;
  }
  setenv("OPENBLAS_CORETYPE", core, 1);
  quit();
  init();  // reads the environment
}

}  // namespace

void prepare_blas() {
  static std::once_flag once;
  std::call_once(once, [] {
    choose_core();
    openblas_set_num_threads(1);
  });
}

}  // namespace nibble::ops::cpu
