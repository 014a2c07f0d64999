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
  const CUtensorMap inputs = make_tensor_map({.data = a.codes,
                                              .value_bytes = 1,
                                              .rows = std::int64_t{a.m} * Shape::kDigits,
                                              .columns = std::int64_t{a.blocks} * kUnitInputs,
                                              .row_bytes = std::int64_t{a.blocks} * kUnitInputs,
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
      constexpr int kMost = kColumns > 64 ? 2 : 4;
      return launch_cluster<Decoder, kColumns, kDigits, kScaleOfToken, kMost>(a, schedule, stream);
  }
}

template <class Decoder, int kDigits, bool kScaleOfToken>
void launch_columns(const MediumBatchArguments& a, const MediumBatchSchedule& schedule,
                    cudaStream_t stream) {
  if constexpr (max_medium_batch_columns(kDigits) > 32) {
    if (a.m * kDigits > 64) {
      return launch_rows<Decoder, 128, kDigits, kScaleOfToken>(a, schedule, stream);
    }
    if (a.m * kDigits > 32) {
      return launch_rows<Decoder, 64, kDigits, kScaleOfToken>(a, schedule, stream);
    }
  }
  launch_rows<Decoder, 32, kDigits, kScaleOfToken>(a, schedule, stream);
}

/// The kernel for weights of one kind.
template <class Decoder>
void launch_medium_batch(const MediumBatchArguments& a, const MediumBatchSchedule& schedule,
                         int digits, bool scale_of_token, cudaStream_t stream) {
  if (digits == 2) {
    return launch_columns<Decoder, 2, false>(a, schedule, stream);
  }
  if (scale_of_token) {
    return launch_columns<Decoder, 1, true>(a, schedule, stream);
  }
  launch_columns<Decoder, 1, false>(a, schedule, stream);
}

}  // namespace nibble::ops::cuda
