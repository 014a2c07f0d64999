#pragma once

#include "core/threads.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/two_of_four/kept_units.h"
#include "ops/linear_kernel.h"

namespace nibble::ops::cuda {

/// Why a scheme does not come into these units.
Refusal kept_units_refusal(const formats::Scheme& scheme);

/// How the units of a scheme are made up that is not refused.
KeptForm kept_form(const formats::Scheme& scheme);

/// Weights of one scheme. Throws kUsage where kept_units_refusal() refuses it.
PackedKept pack_kept(const UnitRows& rows, core::ThreadPool& pool);

}  // namespace nibble::ops::cuda
