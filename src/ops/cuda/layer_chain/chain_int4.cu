#include "ops/cuda/layer_chain/chain_kernel.cuh"

namespace nibble::ops::cuda {

template void launch_chain_of<ChainedInt4>(const ChainArguments&, int, cudaStream_t);
template void launch_chain_of<ChainedInt4By32>(const ChainArguments&, int, cudaStream_t);

}  // namespace nibble::ops::cuda
