#pragma once

#include <cstdint>
#include <vector>

/// How the layers of a model are divided among ranks, processes that run it together.
namespace nibble::ops {

/// Columns of each rank, side by side; empty where every rank has all of them.
using Widths = std::vector<std::int64_t>;

/// What ranks gather before a set of layers and behind it, or add.
struct Gathering {
  Widths inputs;      // columns that each rank has of the set's inputs
  Widths outputs;     // columns that each rank computes, where all are wanted
  bool adds = false;  // each rank has other inputs of the set, and their outputs are to be added
};

struct Division {
  std::vector<Gathering> sets;  // by the set's id
  int output = -1;              // id of the set whose outputs rank 0 alone gathers
  Widths tokens;                // rows of the embedding that each rank has, one rank after another
};

}  // namespace nibble::ops
