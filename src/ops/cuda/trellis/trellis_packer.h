#pragma once

#include "core/threads.h"
#include "formats/scheme.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/trellis/trellis_units.h"
#include "ops/linear_kernel.h"

namespace nibble::ops::cuda {

/// Why a scheme does not come into these units: it has no trellis codes, or rounds activations.
Refusal trellis_refusal(const formats::Scheme& scheme);

/// Weights of one scheme. Throws kUsage where trellis_refusal() refuses it.
PackedTrellis pack_trellis(const UnitRows& rows, core::ThreadPool& pool);

}  // namespace nibble::ops::cuda
