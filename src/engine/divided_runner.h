#pragma once

#include <memory>

#include "engine/runner.h"
#include "models/shard.h"
#include "ranks/communicator.h"

/// A model that several ranks run together. Rank 0 leads: it has the user, the engine and the
/// sampler, and tells the others before each step what is computed. They follow.
namespace nibble::engine {

/// What a rank holds of a model; all of it without a communicator.
models::Shard shard_of(const ranks::Communicator* communicator);

/// The runner of one rank's part of a model, which was opened for that. Every call must be made by
/// all ranks. Rows of logits are those of all ranks on rank 0, on others their own. Throws kUsage
/// for a GPU and for stored layouts, and as require_same_on_all_ranks().
std::unique_ptr<Runner> make_rank_runner(std::shared_ptr<const models::Model> model,
                                         const RunnerOptions& options,
                                         std::shared_ptr<ranks::Communicator> communicator);

/// Compares what decides the results on all ranks: the model's configuration, its files' sizes, its
/// norms, and the options. Throws kUsage, on all ranks, naming one that has another than rank 0.
void require_same_on_all_ranks(const models::Model& model, const RunnerOptions& options,
                               ranks::Communicator& communicator);

/// On rank 0: a runner like any other, whose calls the other ranks follow. When it goes, they end.
/// A step that fails on any rank is the last: all later ones fail with kFailed. `ranks_here` share
/// the memory of a host.
std::unique_ptr<Runner> make_leading_runner(std::unique_ptr<Runner> runner,
                                            std::shared_ptr<ranks::Communicator> communicator,
                                            int ranks_here);

/// On another rank: makes the calls that rank 0 makes, until it has made its last.
void follow(Runner& runner, ranks::Communicator& communicator);

}  // namespace nibble::engine
