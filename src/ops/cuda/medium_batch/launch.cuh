#pragma once

#include <cuda_runtime.h>

#include "device/cuda/check.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/tensor_map.h"
#include "ops/cuda/medium_batch/kernel.cuh"

namespace nibble::ops::cuda {

template <class Shape>
void launch_shape(const MediumBatchArguments& a, const MediumBatchSchedule& schedule,
                  cudaStream_t stream) {
  const auto kernel = medium_batch_kernel<Shape>;
  allow_shared_bytes(kernel, kLayout<Shape>.bytes);
  constexpr int kValueBytes = Shape::kHalf ? 2 : 1;
  const std::int64_t columns = std::int64_t{a.blocks} * kUnitInputs;
  const CUtensorMap inputs = make_tensor_map({.data = a.inputs,
                                              .value_bytes = kValueBytes,
                                              .rows = std::int64_t{a.tokens} * Shape::kDigits,
                                              .columns = columns,
                                              .row_bytes = columns * kValueBytes,
                                              .box_rows = Shape::kColumns});
  launch_clusters(kernel, dim3(static_cast<unsigned>(schedule.blocks)), dim3(Shape::kThreads),
                  Shape::kCluster, static_cast<std::size_t>(kLayout<Shape>.bytes), stream, a,
                  inputs);
}

template <class Decoder, int kColumns, int kDigits, bool kScaleOfToken, int kRowGroups>
void launch_cluster(const MediumBatchArguments& a, const MediumBatchSchedule& schedule,
                    cudaStream_t stream) {
  if (schedule.cluster == 2) {
    return launch_shape<MediumBatchShape<Decoder, kColumns, kDigits, kScaleOfToken, kRowGroups, 2>>(
        a, schedule, stream);
  }
  launch_shape<MediumBatchShape<Decoder, kColumns, kDigits, kScaleOfToken, kRowGroups, 1>>(
      a, schedule, stream);
}

template <class Decoder, int kColumns, int kDigits, bool kScaleOfToken>
void launch_rows(const MediumBatchArguments& a, const MediumBatchSchedule& schedule,
                 cudaStream_t stream) {
  switch (schedule.row_groups) {
    case 1:
      return launch_cluster<Decoder, kColumns, kDigits, kScaleOfToken, 1>(a, schedule, stream);
    case 2:
      return launch_cluster<Decoder, kColumns, kDigits, kScaleOfToken, 2>(a, schedule, stream);
    default:
      constexpr int kMost =
          MediumBatchShape<Decoder, kColumns, kDigits, kScaleOfToken, 1, 1>::kWarpgroups;
      return launch_cluster<Decoder, kColumns, kDigits, kScaleOfToken, kMost>(a, schedule, stream);
  }
}

/// The kernels of float16 inputs.
template <class Decoder>
void launch_half_batch(const MediumBatchArguments& a, const MediumBatchSchedule& schedule,
                       cudaStream_t stream) {
  if (half_columns_of(a.tokens) == 64) {
    return launch_rows<Decoder, 64, 1, true>(a, schedule, stream);
  }
  launch_rows<Decoder, 32, 1, true>(a, schedule, stream);
}

/// The kernels of up to `kMostColumns` INT8 digits, two of a token.
template <class Decoder, int kMostColumns>
void launch_two_digit_batch(const MediumBatchArguments& a, const MediumBatchSchedule& schedule,
                            cudaStream_t stream) {
  if constexpr (kMostColumns > 32) {
    if (a.tokens > 32) {
      return launch_rows<Decoder, 128, 2, false>(a, schedule, stream);
    }
    if (a.tokens > 16) {
      return launch_rows<Decoder, 64, 2, false>(a, schedule, stream);
    }
  }
  launch_rows<Decoder, 32, 2, false>(a, schedule, stream);
}

/// The kernels of one INT8 digit.
template <class Decoder>
void launch_one_digit_batch(const MediumBatchArguments& a, const MediumBatchSchedule& schedule,
                            bool scale_of_token, cudaStream_t stream) {
  if (scale_of_token) {
    return launch_rows<Decoder, 32, 1, true>(a, schedule, stream);
  }
  launch_rows<Decoder, 32, 1, false>(a, schedule, stream);
}

/// The kernels of integers.
template <class Decoder, int kMostColumns>
void launch_integer_batch(const MediumBatchArguments& a, const MediumBatchSchedule& schedule,
                          MediumBatchInputs inputs, cudaStream_t stream) {
  if (inputs == MediumBatchInputs::kTwoDigitsByGroup) {
    return launch_two_digit_batch<Decoder, kMostColumns>(a, schedule, stream);
  }
  launch_one_digit_batch<Decoder>(a, schedule, inputs == MediumBatchInputs::kInt8ByToken, stream);
}

}  // namespace nibble::ops::cuda
