#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/bulk_copy.cuh"
#include "ops/cuda/gemm/resident/resident_stages.cuh"

namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// The copying thread.
template <class Shape>
struct ResidentCopy : ResidentStages<Shape> {
  using Stages = ResidentStages<Shape>;
  using Stages::a, Stages::advance, Stages::empty, Stages::full, Stages::inputs_full;
  using typename Stages::Part, typename Stages::Place;

  const CUtensorMap& inputs;

  __device__ ResidentCopy(const Stages& stages, const CUtensorMap& map)
      : Stages(stages), inputs(map) {}

  __device__ void run() const {
    prefetch_map(inputs);
    Place place;
    this->each_part([&](const Part& part, std::uint32_t parity) {
      wait_barrier(this->inputs_empty(), parity ^ 1);
      copy_inputs(part);
      copy_weights(part, place);
    });
  }

 private:
  __device__ void copy_inputs(const Part& part) const {
    for (int unit = 0; unit < a.units_along_k; ++unit) {
      arrive_expecting(inputs_full(unit), this->layout.unit_bytes);
      copy_box(this->inputs_of(unit), inputs, unit * static_cast<int>(kUnitInputs),
               part.first_token, inputs_full(unit));
    }
  }

  __device__ void copy_weights(const Part& part, Place& place) const {
    const int bytes = 4 * a.tile_bytes;
    const std::uint8_t* source =
        a.units + static_cast<std::int64_t>(part.begin) * a.units_along_k * bytes;
    const int units = (part.end - part.begin) * a.units_along_k;
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
      wait_barrier(empty(place.slot), place.parity ^ 1);
      arrive_expecting(full(place.slot), bytes);
      copy_bytes(this->unit_in(place.slot), source, bytes, full(place.slot));
      source += bytes;
      advance(place);
    }
  }
};

#endif

}  // namespace nibble::ops::cuda
