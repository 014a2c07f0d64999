#pragma once

#include "compress/block/block_work.h"
#include "models/network.h"

namespace nibble::compress {

/// `block` with float32 weights where activations come in float and as they are: decoded once for
/// all windows.
models::Block decoded(models::Block block, core::ThreadPool& pool);

/// The block of `work` as far as it is compressed, the rest as it should become, in float32.
models::Block current_block(const BlockWork& work, const models::Block& block,
                            core::ThreadPool& pool);

}  // namespace nibble::compress
