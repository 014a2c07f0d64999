#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cli/running_options.h"
#include "core/error.h"
#include "engine/runner.h"
#include "models/model.h"
#include "ranks/communicator.h"
#include "ranks/rank_environment.h"

namespace nibble::cli {

/// The end of a rank of which another one has told the user.
class EndedInSilence : public core::Error {
 public:
  explicit EndedInSilence(core::ErrorKind kind) : Error(kind, "another rank says why") {}
};

/// The processes of this call that run one model together, as mpirun or torchrun started them;
/// without them this one alone. Rank 0 does what the command does, and the others follow it. When a
/// rank ends, all do, and one of them says why.
class Ranks {
 public:
  using Open = std::function<std::shared_ptr<models::Model>()>;

  /// Waits for the others. Throws as ranks::find_place and ranks::join.
  Ranks();
  /// Tells them that this rank ends.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Options of this rank: its share of the host's cores where no number of threads was asked for,
  /// and no layouts of whole layers but those of --packed. Throws kUsage for what ranks do not do.
  engine::RunnerOptions options(const std::string& model, const RunningOptions& running) const;

  bool leads() const { return place_.rank == 0; }

  /// On rank 0 false. Others run their part of the model until rank 0 ends. Throws EndedInSilence,
  /// and kFailed where nobody else can say it.
  bool follow(const std::string& model, const engine::RunnerOptions& options);

  /// This rank's part of a model that runs at `place`; what `alone` opens where there is one rank.
  std::shared_ptr<models::Model> open(const std::string& model, const device::Place& place,
                                      const Open& alone) const;

  /// As engine::make_runner, of a model that open() gave. To be called once.
  std::unique_ptr<engine::Runner> make_runner(std::shared_ptr<const models::Model> model,
                                              const engine::RunnerOptions& options);

 private:
  [[noreturn]] void end_in_silence(core::ErrorKind kind) const;
  void watch();
  void end_watch();

  ranks::RankPlace place_;
  std::shared_ptr<ranks::Communicator> communicator_;  // null: one rank
  std::thread watch_;  // for a rank that dies while nothing is computed
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
};

/// Throws kUsage when this process is one of several ranks and `command` does not divide its work.
void require_one_rank(bool divides_work);

/// Whether another rank says what was wrong with the words of the call.
bool is_said_by_first_rank(const core::Error& error) noexcept;

/// Waits a moment before this rank ends with an error of which another one tells the user: mpirun
/// kills all others as soon as one has failed.
void let_another_rank_speak() noexcept;

}  // namespace nibble::cli
