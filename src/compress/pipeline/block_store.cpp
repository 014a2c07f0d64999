#include "compress/pipeline/block_store.h"

namespace nibble::compress {

models::Network MemoryStore::network(const models::Network& original) const {
  models::Network network = ends_ ? with_ends(original, *ends_) : original;
  const std::vector<models::Block*> blocks = models::all_blocks(network);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    *blocks[i] = apply_compressed(*blocks[i], blocks_[i]);
  }
  return output_ ? with_output(std::move(network), *output_) : network;
}

}  // namespace nibble::compress
