#pragma once

#include <memory>

#include "engine/runner.h"
#include "models/shard.h"
#include "ranks/communicator.h"
#include "ranks/rank_environment.h"

/// A model that several ranks run together. Rank 0 leads: it has the user, the engine and the
/// sampler, and tells the others before each step what is computed. They follow.
namespace nibble::engine {

/// What a rank holds of a model that runs on CPUs or GPUs; all of it without a communicator.
models::Shard shard_of(const ranks::Communicator* communicator, const device::Place& place = {});

/// The GPU of a rank, where `asked` is one and there are `gpus` on this host: that of its number
/// among the ranks of the host. Throws kUsage where there are fewer, or one was asked for by
/// number.
device::Place place_of_rank(const device::Place& asked, const ranks::RankPlace& rank, int gpus);

/// The runner of one rank's part of a model, which was opened for that. Every call must be made by
/// all ranks. Rows of logits are those of all ranks on rank 0, on others of no use. Throws kUsage
/// for stored layouts, as require_same_on_all_ranks(), and where GPUs lack what they need to meet
/// (ops::cuda::Collectives).
std::unique_ptr<Runner> make_rank_runner(std::shared_ptr<const models::Model> model,
                                         const RunnerOptions& options,
                                         const std::shared_ptr<ranks::Communicator>& communicator);

std::unique_ptr<Runner> make_cpu_rank_runner(
    std::shared_ptr<const models::Model> model, const RunnerOptions& options,
    const std::shared_ptr<ranks::Communicator>& communicator);
std::unique_ptr<Runner> make_cuda_rank_runner(
    std::shared_ptr<const models::Model> model, const RunnerOptions& options,
    const std::shared_ptr<ranks::Communicator>& communicator);

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
