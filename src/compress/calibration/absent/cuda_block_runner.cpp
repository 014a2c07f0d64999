#include "compress/calibration/cuda_block_runner.h"

#include "compress/backend/absent/no_gpu.h"

namespace nibble::compress::cuda {

std::unique_ptr<BlockRunner> make_cuda_block_runner(CudaContext&, const models::Network&,
                                                    const CalibrationWindows&, ops::cpu::CpuOps&,
                                                    bool) {
  no_gpu();
}

}  // namespace nibble::compress::cuda
