#include "ops/cuda/layer_chain/chain_kernel.cuh"

namespace nibble::ops::cuda {

template void launch_chain_of<ChainedBook>(const ChainArguments&, int, cudaStream_t);
template void launch_chain_of<ChainedBookBy32>(const ChainArguments&, int, cudaStream_t);

}  // namespace nibble::ops::cuda
