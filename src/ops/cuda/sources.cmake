# The operators of NVIDIA GPUs, and their tests.
set(NIBBLE_CUDA_OPS
  cuda/limits/read_bandwidth.cu
  cuda/packed/unit_writer.cpp
  cuda/small_batch/reference.cpp cuda/small_batch/small_batch.cpp cuda/small_batch/small_batch.cu)
set(NIBBLE_CUDA_OPS_LIBRARIES CUDA::cublas)
set(NIBBLE_CUDA_OPS_TESTS
  cuda/device_code/dependent_launch_test.cu
  cuda/small_batch/small_batch_test.cpp)
