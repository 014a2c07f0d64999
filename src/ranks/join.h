#pragma once

#include <memory>

#include "ranks/communicator.h"
#include "ranks/rank_environment.h"

namespace nibble::ranks {

/// Waits for all ranks of the job, connects each with each, and gives what they speak by: sockets,
/// of this host alone where place.address is empty. Only processes of the same user can join there;
/// over a network nothing is encrypted and nobody is asked for a key, as with MPI. Throws kFailed
/// when a rank does not come within a minute, kUsage for an address that is none.
std::unique_ptr<Communicator> join(const RankPlace& place);

}  // namespace nibble::ranks
