#include "compress/shortgpt/block_influence.h"

#include <optional>

#include "compress/block/decoded_block.h"
#include "compress/calibration/pack_forward.h"
#include "compress/calibration/prepared_block.h"
#include "compress/calibration/row_products.h"
#include "compress/calibration/window_store.h"

namespace nibble::compress {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;

std::vector<double> block_influence(const models::Network& network, const CalibrationInputs& inputs,
                                    CpuOps& ops) {
  WindowStore states(std::nullopt);
  for (const CalibrationPack& pack : inputs.decoder) {
    states.add(models::embed(ops, network, PackBatch(pack).batch()));
  }
  std::vector<double> influence;
  for (const models::Block& stored : network.decoder.blocks) {
    const models::Block block = decoded(stored, ops.pool());
    const PreparedBlock prepared(ops, block);
    double cosines = 0;
    for (std::size_t pack = 0; pack < states.size(); ++pack) {
      const Matrix before = states.read(pack, ops);
      Matrix x = ops.copy(before);
      run_pack(ops, network.config, network.decoder.norms, block, inputs.decoder[pack], {}, x);
      for (std::int64_t row = 0; row < x.rows(); ++row) {
        cosines += row_products(before, x, row).cosine();
      }
      states.write(pack, std::move(x));
    }
    influence.push_back(1.0 - cosines / static_cast<double>(tokens_of(inputs.decoder)));
  }
  return influence;
}

}  // namespace nibble::compress
