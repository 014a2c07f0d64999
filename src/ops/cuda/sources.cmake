# The operators of NVIDIA GPUs, and their tests.
set(NIBBLE_CUDA_OPS)
set(NIBBLE_CUDA_OPS_LIBRARIES CUDA::cublas)
set(NIBBLE_CUDA_OPS_TESTS cuda/device_code/dependent_launch_test.cu)
