#pragma once

#include <vector>

#include "models/network.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// Sets of a block in the layout of their kernels, as long as this lives.
class PreparedBlock {
 public:
  PreparedBlock(ops::cpu::CpuOps& ops, const models::Block& block)
      : ops_(ops), sets_(models::linear_sets(block)) {
    for (const ops::LinearSet* set : sets_) {
      ops_.prepare(*set);
    }
  }
  ~PreparedBlock() {
    for (const ops::LinearSet* set : sets_) {
      ops_.release(*set);
    }
  }
  PreparedBlock(const PreparedBlock&) = delete;
  PreparedBlock& operator=(const PreparedBlock&) = delete;

 private:
  ops::cpu::CpuOps& ops_;
  std::vector<const ops::LinearSet*> sets_;
};

}  // namespace nibble::compress
