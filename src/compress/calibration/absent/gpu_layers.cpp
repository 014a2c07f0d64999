#include "compress/calibration/gpu_layers.h"

#include "compress/backend/absent/no_gpu.h"

namespace nibble::compress::cuda {

std::string gpu_calibration_problem(const formats::Scheme&) {
  no_gpu();
}

}  // namespace nibble::compress::cuda
