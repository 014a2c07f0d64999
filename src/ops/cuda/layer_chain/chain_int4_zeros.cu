#include "ops/cuda/layer_chain/chain_kernel.cuh"

namespace nibble::ops::cuda {

template void launch_chain_of<ChainedInt4WithZeros>(const ChainArguments&, int, cudaStream_t);
template void launch_chain_of<ChainedInt4WithZerosBy32>(const ChainArguments&, int, cudaStream_t);

}  // namespace nibble::ops::cuda
