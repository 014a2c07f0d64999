#include "cli/ranks.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include <unistd.h>

#include "cli/output.h"
#include "core/cpu_topology.h"
#include "core/start_thread.h"
#include "engine/divided_runner.h"
#include "models/shard.h"
#include "ranks/join.h"

namespace nibble::cli {
namespace {

using core::ErrorKind;

constexpr auto kBetweenLooks = std::chrono::milliseconds(500);
constexpr auto kGrace =
    std::chrono::seconds(6);  // for a step that notices the same and ends itself
constexpr auto kForWords = std::chrono::milliseconds(200);  // of the rank that says why all end

volatile std::sig_atomic_t told_to_end = 0;

// Rank 0 decides when the others end: a signal for all of them must not take one away under it.
void leave_signals_to_first_rank() {
  struct sigaction action {};
  action.sa_handler = [](int) { told_to_end = 1; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// Cores of this rank, where the launcher has not already chosen them.
int share_of_cores(int ranks_here) {
  const auto online = sysconf(_SC_NPROCESSORS_ONLN);
  const bool bound = std::ssize(core::allowed_cpus()) < online;
  const int cores = core::available_cores();
  return bound ? cores : std::max(1, cores / ranks_here);
}

}  // namespace

Ranks::Ranks() : place_(ranks::find_place()) {
  if (!place_.alone()) {
    communicator_ = ranks::join(place_);
  }
}

Ranks::~Ranks() {
  end_watch();
}

void Ranks::end_watch() {
  if (watch_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    ends_.notify_all();
    watch_.join();
  }
}

engine::RunnerOptions Ranks::options(const std::string& model,
                                     const RunningOptions& running) const {
  engine::RunnerOptions options = running.runner(model);
  if (place_.alone()) {
    return options;
  }
  core::require(
      running.device.packed.empty() && running.lora.folder.empty() && running.strategy.step.empty(),
      ErrorKind::kUsage,
      "--packed, --lora and --strategy are for one rank, and {} says {}; leave them out",
      place_.size_name, place_.size);
  options.tile_file.clear();
  if (options.cpu.threads == 0) {
    options.cpu.threads = share_of_cores(place_.local_size);
  }
  return options;
}

void Ranks::end_in_silence(ErrorKind kind) const {
  const auto until = std::chrono::steady_clock::now() + kGrace;
  while (!communicator_->has_ended(0) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kForWords);
  }
  throw EndedInSilence(kind);
}

bool Ranks::follow(const std::string& model, const engine::RunnerOptions& options) {
  if (leads()) {
    return false;
  }
  leave_signals_to_first_rank();
  try {
    auto runner = engine::make_rank_runner(open(model, options.place, {}), options, communicator_);
    if (options.place.on_gpu()) {  // a call that the device never takes cannot end itself
      watch_ = core::start_thread([this] { watch(); });
    }
    engine::follow(*runner, *communicator_);
    runner.reset();  // watched as well
    end_watch();
    return true;
  } catch (const ranks::RankEnded& ended) {
    if (ended.how() == ranks::End::kLeft && ended.rank() == 0) {
      return true;
    }
    communicator_->leave(ended.kind(), ended.what());
    const bool died = ended.how() == ranks::End::kDied;
    if (died && ended.rank() == 0 && place_.rank == 1 && told_to_end == 0) {
      throw;
    }
    end_in_silence(ended.kind());
  } catch (const core::Error& error) {
    communicator_->leave(error.kind(), fmt::format("rank {}: {}", place_.rank, error.what()));
    end_in_silence(error.kind());
  } catch (const std::bad_alloc&) {
    communicator_->leave(ErrorKind::kOutOfMemory, fmt::format("rank {}: out of memory; use a "
                                                              "smaller model, context or batch",
                                                              place_.rank));
    end_in_silence(ErrorKind::kOutOfMemory);
  }
}

std::shared_ptr<models::Model> Ranks::open(const std::string& model, const device::Place& place,
                                           const Open& alone) const {
  return place_.alone() ? alone()
                        : models::open_model(model, engine::shard_of(communicator_.get(), place),
                                             engine::stored_layers_for(place));
}

std::unique_ptr<engine::Runner> Ranks::make_runner(std::shared_ptr<const models::Model> model,
                                                   const engine::RunnerOptions& options) {
  if (place_.alone()) {
    return engine::make_runner(std::move(model), options);
  }
  auto runner = engine::make_rank_runner(std::move(model), options, communicator_);
  watch_ = core::start_thread([this] { watch(); });
  return engine::make_leading_runner(std::move(runner), communicator_,
                                     options.place.on_gpu() ? 1 : place_.local_size);
}

// A step that is under way fails by itself when a rank is lost. Where there is none, nobody else
// would notice; nor where a GPU takes no more work.
void Ranks::watch() {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return ended_; };
  while (!ends_.wait_for(lock, kBetweenLooks, ended)) {
    const auto rank = communicator_->lost();
    if (!rank) {
      continue;
    }
    if (!ends_.wait_for(lock, kGrace, ended)) {
      if (leads() || (*rank == 0 && place_.rank == 1 && told_to_end == 0)) {
        print_note("nibble: error: rank {} of {} has died, or its host is gone\n", *rank,
                   place_.size);
      }
      std::_Exit(static_cast<int>(ErrorKind::kFailed));
    }
    return;
  }
}

void require_one_rank(bool divides_work) {
  if (divides_work) {
    return;
  }
  const ranks::RankPlace place = ranks::find_place();
  core::require(place.alone(), ErrorKind::kUsage,
                "run, eval, bench and serve divide a model among ranks, this command does not, and "
                "{} says {}; start it without mpirun",
                place.size_name, place.size);
}

bool is_said_by_first_rank(const core::Error& error) noexcept {
  if (error.kind() != ErrorKind::kUsage) {
    return false;
  }
  try {
    return ranks::find_place().rank != 0;
  } catch (const std::exception&) {
    return false;
  }
}

void let_another_rank_speak() noexcept {
  std::this_thread::sleep_for(kForWords);
}

}  // namespace nibble::cli
