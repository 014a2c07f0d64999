# The operators of NVIDIA GPUs, and their tests.
set(NIBBLE_CUDA_OPS
  cuda/elementwise/activation.cu cuda/elementwise/checks.cpp cuda/elementwise/norm.cu cuda/elementwise/rows.cu)
set(NIBBLE_CUDA_OPS_LIBRARIES CUDA::cublas)
set(NIBBLE_CUDA_OPS_TESTS
  cuda/device_code/dependent_launch_test.cu
  cuda/elementwise/elementwise_test.cpp)
