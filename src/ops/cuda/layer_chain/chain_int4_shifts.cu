#include "ops/cuda/layer_chain/chain_kernel.cuh"

namespace nibble::ops::cuda {

template void launch_chain_of<ChainedInt4WithShiftsBy32>(const ChainArguments&, int, cudaStream_t);

}  // namespace nibble::ops::cuda
