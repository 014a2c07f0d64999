#pragma once

#include <cstdint>
#include <span>

#include "compress/backend/backend.h"
#include "compress/coding/coded_weight.h"
#include "compress/gptq/cholesky.h"
#include "core/threads.h"

namespace nibble::compress {

/// GPTQ (arXiv 2210.17323, Algorithm 1): inputs are rounded one after another, and the error of
/// each is made up for by the ones not yet rounded. Group parameters (and books) are given and stay
/// ("static groups"), so the stored layout is that of round to nearest.
/// `weights` [n, k] row-major. kept [n, k], or empty: where it is 0 the weight becomes exactly 0,
/// and what the updates had put there is made up for like any other error.
CodedWeight gptq(std::span<const float> weights, std::int64_t n, std::int64_t k,
                 const formats::Scheme& scheme, Parameters parameters, const InverseFactor& factor,
                 core::ThreadPool& pool, std::span<const std::uint8_t> kept = {});

/// On the backend's GPU for schemes that has_gpu_coder_of_head() accepts, else on its threads.
CodedWeight gptq(std::span<const float> weights, std::int64_t n, std::int64_t k,
                 const formats::Scheme& scheme, Parameters parameters, const InverseFactor& factor,
                 const Backend& backend, std::span<const std::uint8_t> kept);

}  // namespace nibble::compress
