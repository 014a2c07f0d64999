#include "compress/shortgpt/block_influence.h"

#include <cmath>
#include <optional>

#include "compress/block/decoded_block.h"
#include "compress/calibration/pack_forward.h"
#include "compress/calibration/prepared_block.h"
#include "compress/calibration/window_store.h"

namespace nibble::compress {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;

// The cosines of the angles between rows, added up; states without a length count 0.
double sum_of_cosines(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    double product = 0;
    double squares_a = 0;
    double squares_b = 0;
    for (std::int64_t i = 0; i < a.columns(); ++i) {
      const auto x = static_cast<double>(a.row(row)[i]);
      const auto y = static_cast<double>(b.row(row)[i]);
      product += x * y;
      squares_a += x * x;
      squares_b += y * y;
    }
    sum += squares_a > 0 && squares_b > 0 ? product / std::sqrt(squares_a * squares_b) : 0.0;
  }
  return sum;
}

}  // namespace

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
      cosines += sum_of_cosines(before, x);
      states.write(pack, std::move(x));
    }
    influence.push_back(1.0 - cosines / static_cast<double>(tokens_of(inputs.decoder)));
  }
  return influence;
}

}  // namespace nibble::compress
