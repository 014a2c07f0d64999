#include "compress/pipeline/block_store.h"

namespace nibble::compress {

models::Decoder MemoryStore::decoder(const models::Decoder& original) const {
  models::Decoder decoder = ends_ ? with_ends(original, *ends_) : original;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    models::Block& block = decoder.blocks[i];
    block = apply_compressed(block, blocks_[i]);
  }
  return output_ ? with_output(std::move(decoder), *output_) : decoder;
}

}  // namespace nibble::compress
