# The operators of NVIDIA GPUs, and their tests.
set(NIBBLE_CUDA_OPS
  cuda/activation_codes/activation_codes.cu
  cuda/attention/append.cu cuda/attention/append_fragments.cu cuda/attention/append_prompt.cu
  cuda/attention/attention_plan.cpp
  cuda/attention/checks.cpp cuda/attention/decode.cu cuda/attention/hadamard_signs.cpp
  cuda/attention/kv_pool.cpp cuda/attention/plain.cu cuda/attention/prefill.cu
  cuda/cuda_ops.cpp cuda/cuda_ops_parameters.cpp cuda/cuda_ops_results.cpp cuda/dense/dense.cu cuda/device_input.cpp cuda/device_matrix.cpp
  cuda/elementwise/activation.cu cuda/elementwise/checks.cpp cuda/elementwise/norm.cu cuda/elementwise/rows.cu
  cuda/device_code/tensor_map.cpp cuda/expert_lists.cpp
  cuda/gemm/gemm.cpp cuda/gemm/gemm_plan.cpp
  cuda/gemm/mma_half.cu cuda/gemm/mma_int4.cu cuda/gemm/mma_int8.cu
  cuda/gemm/wgmma_half_from_book.cu cuda/gemm/wgmma_half_from_int4.cu cuda/gemm/wgmma_half_from_int8.cu
  cuda/gemm/wgmma_int4.cu cuda/gemm/wgmma_int4_by_group.cu cuda/gemm/wgmma_int4_by_group_of_both.cu
  cuda/gemm/wgmma_int8.cu cuda/gemm/wgmma_int8_by_group.cu
  cuda/input_transform/device_transform.cpp cuda/input_transform/input_transform.cu
  cuda/linear/dense_kernel.cpp cuda/linear/gemm_kernel.cpp cuda/linear/layer_parts.cpp cuda/linear/layer_plan.cpp
  cuda/linear/linear_kernels.cpp cuda/linear/linear_layer.cpp cuda/linear/medium_batch_kernel.cpp cuda/linear/small_batch_kernel.cpp
  cuda/linear/unit_segment.cpp
  cuda/limits/multiply_add_rate.cu cuda/limits/read_bandwidth.cu
  cuda/medium_batch/book.cu cuda/medium_batch/int4.cu cuda/medium_batch/int4_with_zeros.cu
  cuda/medium_batch/int8.cu cuda/medium_batch/medium_batch.cpp
  cuda/outliers/outliers.cu
  cuda/packed/book_table.cpp cuda/packed/raw_rows.cpp cuda/packed/unit_kernels.cu cuda/packed/unit_packer.cpp
  cuda/packed/unit_rows.cpp
  cuda/sampling/ranking.cu
  cuda/schedules/choose_schedules.cpp cuda/schedules/linear_shape.cpp cuda/schedules/linear_trial.cpp
  cuda/schedules/schedules.cpp cuda/schedules/schedules_json.cpp
  cuda/small_batch/small_batch.cpp cuda/small_batch/small_batch.cu
  cuda/step_inputs.cpp cuda/step_upload.cpp cuda/step_upload.cu)
set(NIBBLE_CUDA_OPS_TESTS
  cuda/activation_codes/activation_codes_test.cpp
  cuda/attention/append_attend_test.cpp cuda/attention/attention_test.cpp cuda/cuda_ops_test.cpp
  cuda/dense/dense_test.cpp
  cuda/device_code/dependent_launch_test.cu
  cuda/elementwise/elementwise_test.cpp cuda/elementwise/half_input_test.cpp
  cuda/input_transform/input_transform_test.cpp
  cuda/gemm/gemm_reference.cpp cuda/gemm/gemm_refusal_test.cpp cuda/gemm/gemm_test.cpp cuda/gemm/gemm_test_data.cpp
  cuda/medium_batch/medium_batch_test.cpp
  cuda/packed/unit_packer_test.cpp cuda/packed/unit_writer.cpp
  cuda/sampling/ranking_test.cpp
  cuda/small_batch/reference.cpp cuda/small_batch/small_batch_test.cpp
  cuda/step_upload_test.cu)
