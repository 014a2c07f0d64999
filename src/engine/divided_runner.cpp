#include "engine/divided_runner.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/hash.h"
#include "core/json.h"
#include "device/cuda_devices.h"
#include "engine/forwarding_runner.h"
#include "engine/step_message.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;

// The calls that all ranks make.
enum Call : std::int64_t { kEnd, kRoom, kMakePages, kForward, kRanked, kHiddenSum, kScore };

void write_slice(StepWriter& message, const Slice& slice) {
  message.numbers(slice.pages);
  message.number(slice.position);
  message.numbers(slice.tokens);
  message.number(slice.logits);
  message.number(slice.prompt_tokens);
}

void write_slices(StepWriter& message, std::span<const Slice> slices) {
  message.number(std::ssize(slices));
  for (const Slice& slice : slices) {
    write_slice(message, slice);
  }
}

// A slice with what it points to.
struct OwnSlice {
  explicit OwnSlice(StepReader& message)
      : pages(message.numbers<ops::PageId>()),
        position(message.number()),
        tokens(message.numbers<std::int32_t>()),
        logits(message.number()),
        prompt_tokens(message.number()) {}
  Slice slice() const { return {pages, position, tokens, logits, prompt_tokens}; }

  std::vector<ops::PageId> pages;
  std::int64_t position;
  std::vector<std::int32_t> tokens;
  std::int64_t logits;
  std::int64_t prompt_tokens;
};

// The places where the numbers of all ranks arrive.
template <typename T>
std::vector<std::span<std::byte>> places_of(std::vector<T>& numbers) {
  std::vector<std::span<std::byte>> places;
  for (T& number : numbers) {
    places.push_back(std::as_writable_bytes(std::span(&number, 1)));
  }
  return places;
}

// What tells the results of one job from those of another.
std::uint64_t hash_of(const models::Model& model, const RunnerOptions& options) {
  StepWriter facts;
  const std::string config = model.config_json->dump();
  facts.numbers(std::span<const char>(config));
  for (const auto& file : model.source->files()) {
    facts.number(static_cast<std::int64_t>(std::filesystem::file_size(file)));
  }
  for (const models::Block& block : model.network.decoder.blocks) {
    facts.numbers(std::span<const float>(block.attention_norm.weight));
    facts.numbers(std::span<const float>(block.mlp_norm.weight));
  }
  facts.number(static_cast<std::int64_t>(options.kv_types.keys));
  facts.number(static_cast<std::int64_t>(options.kv_types.values));
  facts.number(static_cast<std::int64_t>(options.cpu.activations));
  facts.number(options.place.on_gpu() ? 1 : 0);
  return core::hash64(facts.bytes());
}

// The least number that any rank has; known to rank 0.
std::int64_t least(std::int64_t mine, ranks::Communicator& communicator) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()), mine);
  communicator.gather(std::as_bytes(std::span(&mine, 1)), places_of(all));
  return *std::min_element(all.begin(), all.end());
}

class LeadingRunner final : public ForwardingRunner {
 public:
  LeadingRunner(std::shared_ptr<Runner> runner, std::shared_ptr<ranks::Communicator> communicator,
                int ranks_here)
      : ForwardingRunner(runner),
        here_(std::move(runner)),
        ranks_(std::move(communicator)),
        ranks_here_(ranks_here) {}

  ~LeadingRunner() override {
    try {
      call(
          kEnd, [](StepWriter&) {}, [] {});
    } catch (const std::exception&) {  // they have ended
    }
  }

  void make_pages(std::int64_t count) override {
    call(
        kMakePages, [&](StepWriter& message) { message.number(count); },
        [&] { here_->make_pages(count); });
  }

  std::int64_t room_for_pages() const override {
    std::int64_t room = 0;
    call(
        kRoom, [](StepWriter&) {}, [&] { room = least(here_->room_for_pages(), *ranks_); });
    return room / ranks_here_;
  }

  LogitsView forward(std::span<const Slice> slices) override {
    LogitsView logits;
    call(
        kForward, [&](StepWriter& message) { write_slices(message, slices); },
        [&] { logits = here_->forward(slices); });
    return logits;
  }

  void forward_ranked(std::span<const Slice> slices, std::int64_t count,
                      std::vector<ops::RankedToken>& ranked) override {
    call(
        kRanked,
        [&](StepWriter& message) {
          message.number(count);
          write_slices(message, slices);
        },
        [&] { here_->forward_ranked(slices, count, ranked); });
  }

  // The other ranks would have to be told.
  SwappedPages* make_swap_space(std::optional<std::int64_t>) override { return nullptr; }
  StepsAhead* ahead() override { return nullptr; }

  std::vector<float> hidden_sum(const Slice& slice) override {
    std::vector<float> sum;
    call(
        kHiddenSum, [&](StepWriter& message) { write_slice(message, slice); },
        [&] { sum = here_->hidden_sum(slice); });
    return sum;
  }

  void score_texts(std::span<const ScoredText> texts, const ConsumeLogits& consume) override {
    call(
        kScore,
        [&](StepWriter& message) {
          message.number(std::ssize(texts));
          for (const ScoredText& text : texts) {
            message.numbers(text.tokens);
            message.number(text.first_row);
          }
        },
        [&] { here_->score_texts(texts, consume); });
  }

 private:
  // Tells what is called, and calls it here. Who fails on the way is no longer in step with the
  // others, so it is the last call.
  template <typename Write, typename Run>
  void call(Call what, Write write, Run run) const {
    core::require(why_broken_.empty(), ErrorKind::kFailed, "{}", why_broken_);
    try {
      StepWriter message;
      message.number(what);
      write(message);
      ranks_->broadcast(message.bytes());
      run();
    } catch (const core::Error& error) {
      give_up(error.kind(), error.what());
      throw;
    } catch (const std::exception& error) {
      give_up(ErrorKind::kFailed, error.what());
      throw;
    }
  }

  void give_up(ErrorKind kind, const char* why) const {
    why_broken_ = why;
    ranks_->leave(kind, why);
  }

  std::shared_ptr<Runner> here_;
  std::shared_ptr<ranks::Communicator> ranks_;
  int ranks_here_;
  mutable std::string why_broken_;  // empty: it is not
};

// A step, of which `ranked` tokens of each row are wanted, or logits.
void follow_forward(Runner& runner, StepReader& message, std::optional<std::int64_t> ranked) {
  std::vector<OwnSlice> own;
  for (std::int64_t missing = message.number(); missing > 0; --missing) {
    own.emplace_back(message);
  }
  std::vector<Slice> slices;
  std::transform(own.begin(), own.end(), std::back_inserter(slices),
                 [](const OwnSlice& each) { return each.slice(); });
  if (ranked) {
    std::vector<ops::RankedToken> unread;
    runner.forward_ranked(slices, *ranked, unread);
  } else {
    runner.forward(slices);
  }
}

void follow_score(Runner& runner, StepReader& message) {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::int64_t> first_rows;
  for (std::int64_t missing = message.number(); missing > 0; --missing) {
    tokens.push_back(message.numbers<std::int32_t>());
    first_rows.push_back(message.number());
  }
  std::vector<ScoredText> texts;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    texts.push_back({tokens[i], first_rows[i]});
  }
  runner.score_texts(texts, [](std::int64_t, const LogitsView&) {});
}

}  // namespace

models::Shard shard_of(const ranks::Communicator* communicator, const device::Place& place) {
  if (communicator == nullptr) {
    return {};
  }
  return {communicator->rank(), communicator->size(),
          place.on_gpu() ? models::Cut::kInputs : models::Cut::kOutputs};
}

device::Place place_of_rank(const device::Place& asked, const ranks::RankPlace& rank, int gpus) {
  if (!asked.on_gpu() || rank.alone()) {
    return asked;
  }
  if (gpus == 0) {
    (void)device::require_cuda_device();  // says why there is none
  }
  core::require(
      asked.index == 0, ErrorKind::kUsage,
      "{} ranks take one GPU each, by their numbers on their host: say --device cuda, and "
      "choose among GPUs by CUDA_VISIBLE_DEVICES",
      rank.size);
  core::require(rank.local_size <= gpus && rank.local_rank < gpus, ErrorKind::kUsage,
                "{} ranks on this host need a GPU each, and there {} {}; start fewer",
                std::max(rank.local_size, rank.local_rank + 1), gpus == 1 ? "is" : "are", gpus);
  return {device::Kind::kCuda, rank.local_rank};
}

std::unique_ptr<Runner> make_rank_runner(std::shared_ptr<const models::Model> model,
                                         const RunnerOptions& options,
                                         const std::shared_ptr<ranks::Communicator>& communicator) {
  core::require(options.tile_file.empty(), ErrorKind::kUsage,
                "a file of nibble pack holds whole layers, {} ranks each have a part of them; "
                "leave --packed out",
                communicator->size());
  require_same_on_all_ranks(*model, options, *communicator);
  if (options.place.on_gpu()) {
    require_runs_on_gpu(model->network);
    return make_cuda_rank_runner(std::move(model), options, communicator);
  }
  return make_cpu_rank_runner(std::move(model), options, communicator);
}

void require_same_on_all_ranks(const models::Model& model, const RunnerOptions& options,
                               ranks::Communicator& communicator) {
  const std::uint64_t mine = hash_of(model, options);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()), mine);
  communicator.all_gather(std::as_bytes(std::span(&mine, 1)), places_of(all));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    core::require(all[rank] == all[0], ErrorKind::kUsage,
                  "rank {} has another model than rank 0, or other options; start all with the "
                  "same words and files",
                  rank);
  }
}

std::unique_ptr<Runner> make_leading_runner(std::unique_ptr<Runner> runner,
                                            std::shared_ptr<ranks::Communicator> communicator,
                                            int ranks_here) {
  return std::make_unique<LeadingRunner>(std::move(runner), std::move(communicator), ranks_here);
}

void follow(Runner& runner, ranks::Communicator& communicator) {
  std::vector<std::byte> bytes;
  for (;;) {
    communicator.broadcast(bytes);
    StepReader message(bytes);
    switch (message.number()) {
      case kEnd:
        return;
      case kRoom:
        least(runner.room_for_pages(), communicator);
        break;
      case kMakePages:
        runner.make_pages(message.number());
        break;
      case kForward:
        follow_forward(runner, message, std::nullopt);
        break;
      case kRanked: {
        const std::int64_t count = message.number();
        follow_forward(runner, message, count);
        break;
      }
      case kHiddenSum:
        runner.hidden_sum(OwnSlice(message).slice());
        break;
      case kScore:
        follow_score(runner, message);
        break;
      default:
        core::fail(ErrorKind::kFailed,
                   "rank 0 asks for what this program does not know: is it of "
                   "the same version on all hosts?");
    }
  }
}

}  // namespace nibble::engine
