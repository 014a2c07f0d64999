#include "engine/cuda_text_to_text.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "core/cpu_topology.h"
#include "core/error.h"
#include "engine/cuda_layers.h"
#include "engine/cuda_steps.h"
#include "engine/encoder_batch.h"
#include "engine/step_size.h"
#include "models/encoder_forward.h"
#include "ops/cuda/cuda_ops.h"

namespace nibble::engine {
namespace {

using ops::cuda::CudaOps;
using ops::cuda::DeviceMatrix;
using ops::cuda::KvPool;
using ops::cuda::KvSequence;
using ops::cuda::MatrixType;

constexpr std::int64_t kStepTokens = 16384;  // that are read at a time, of whole texts
constexpr std::int64_t kStepRows = 2048;     // that are written at a time
constexpr std::int64_t kScoreRows = 256;     // rows of logits that exist at a time when scoring
constexpr std::size_t kMostRecorded = 128;
constexpr std::int64_t kMoreOf = 4;  // a part of pages that is made beside them when they grow

/// What makes steps alike: their stack, their sizes, and their kernels.
struct StepKind {
  bool reads = false;  // else they write
  std::int64_t rows = 0;
  int kernels = 0;
  bool operator==(const StepKind&) const = default;
};

/// Enough for rows that all see a text as long as the model has positions for.
ops::cuda::StepLimits limits_of(const models::NetworkConfig& config) {
  const std::int64_t pages = ops::pages_for(config.max_positions);
  const std::int64_t step = ops::cuda::pages_of_split(pages);
  const std::int64_t splits = (pages + step - 1) / step;
  return {.rows = std::max(kStepTokens, padded_tokens(config.max_positions)),
          .items = splits * std::max(kStepRows, config.max_positions)};
}

/// Where layers or their inputs are float32, all is: the texts of the encoder and what is kept.
ops::cuda::Precision precision_of(const models::Network& network,
                                  ops::ActivationPrecision activations) {
  return {.exact = activations == ops::ActivationPrecision::kFloat,
          .matrices = matrices_between(network.encoder, activations),
          .float_texts = true};
}

ops::KvType type_of_keys(const models::Network& network, ops::ActivationPrecision activations) {
  return matrices_between(network.decoder, activations) == MatrixType::kFloat32 ? ops::KvType::kF32
                                                                                : ops::KvType::kF16;
}

/// Texts are read in steps as a CudaEncoder makes them, which leave keys and values in a pool of
/// their own. Steps of both kinds are recorded when they come for the second time.
class CudaTextToText final : public TextToText {
 public:
  CudaTextToText(std::shared_ptr<const models::Model> model, const RunnerOptions& options)
      : TextToText(std::move(model)),
        layout_{type_of_keys(network(), options.cpu.activations), network().config.kv_heads,
                network().config.head_dim},
        read_matrices_(matrices_between(network().encoder, options.cpu.activations)),
        host_pool_(options.cpu.threads > 0 ? options.cpu.threads : core::available_cores()),
        ops_(limits_of(network().config), options.schedules, options.place.index,
             precision_of(network(), options.cpu.activations)),
        batch_(network()),
        branches_(0),
        step_(network().config.vocabulary) {
    prepare_layers(this->model(), ops_, host_pool_);
  }

  ~CudaTextToText() override { ops_.make_current(); }
  CudaTextToText(const CudaTextToText&) = delete;
  CudaTextToText& operator=(const CudaTextToText&) = delete;

  using TextToText::read;

  core::ThreadPool& pool() override { return host_pool_; }

  void read(std::span<const std::span<const std::int32_t>> texts,
            const WritingRoom& room) override {
    ops_.make_current();
    forget();
    for (const auto& text : texts) {  // refused before there is room for them
      batch_.clear();
      batch_.append({text, {}});
    }
    make_room(texts, room);
    ops_.set_matrices(read_matrices_);
    for (std::size_t next = 0; next < texts.size();) {
      const std::size_t first = next;
      batch_.clear();
      do {
        batch_.append({texts[next++], {}});
      } while (next < texts.size() && batch_.rows() + std::ssize(texts[next]) <= kStepTokens);
      read_step(first);
    }
    ops_.synchronize();
    ops_.check_range();
    read_ = std::ssize(texts);
  }

  LogitsView step(std::span<const DecoderRow> rows) override {
    ops_.make_current();
    begin_writing();
    copy_pages(advance(branches_, rows, read_));
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
      const DecoderRow& row = rows[static_cast<std::size_t>(i)];
      append({&row.token, 1}, branches_.position(i), branches_.pages(i), row.text);
    }
    const auto [batch, none] = begin_step({});
    const auto work = [&, &batch = batch] {
      return models::logits(ops_, network(), models::hidden_states(ops_, network(), batch));
    };
    const DeviceRows logits = steps_.run({false, step_.size(), ops_.kernels()}, work);
    return {steps_.download(logits, step_.size()), step_.size(), logits.columns};
  }

  EncoderRows score(std::span<const std::int32_t> source,
                    std::span<const std::int32_t> target) override {
    const StepTokens tokens = tokens_before(target);
    read({&source, 1}, {1, tokens.size()});
    begin_writing();
    std::vector<ops::PageId> pages(static_cast<std::size_t>(ops::pages_for(tokens.size())));
    std::iota(pages.begin(), pages.end(), 0);
    append(tokens.tokens(), 0, pages, 0);
    std::vector<std::int32_t> wanted(static_cast<std::size_t>(tokens.size()));
    std::iota(wanted.begin(), wanted.end(), 0);
    const auto [batch, rows] = begin_step(wanted);
    const DeviceMatrix hidden = models::hidden_states(ops_, network(), batch);
    EncoderRows scores{{}, tokens.size(), network().config.vocabulary};
    for (std::size_t at = 0; at < rows.size(); at += kScoreRows) {
      const auto chunk = rows.subspan(at, std::min<std::size_t>(kScoreRows, rows.size() - at));
      const DeviceMatrix logits = models::logits(ops_, network(), ops_.gather(hidden, chunk));
      const auto values = steps_.download({logits.data(), logits.columns()}, logits.rows());
      scores.values.insert(scores.values.end(), values.begin(), values.end());
    }
    return scores;
  }

 private:
  void forget() {
    read_ = 0;
    memories_.clear();
    memory_rows_.clear();
    branches_ = Branches(0);
  }

  /// Pages for the texts and what is to be written of them. They are kept for later calls; where
  /// there are too few, other memory takes their place, which recorded steps do not know.
  void make_room(std::span<const std::span<const std::int32_t>> texts, const WritingRoom& room) {
    const models::NetworkConfig& config = network().config;
    std::int64_t pages = 0;
    for (const auto& text : texts) {
      std::vector<ops::PageId>& own = memory_pages_of(std::ssize(memories_));
      own.resize(static_cast<std::size_t>(ops::pages_for(std::ssize(text))));
      std::iota(own.begin(), own.end(), static_cast<ops::PageId>(pages));
      pages += std::ssize(own);
      memories_.push_back({own});
      memory_rows_.push_back(std::ssize(text));
    }
    const std::int64_t tokens = room.tokens > 0 ? room.tokens : config.max_positions;
    const std::int64_t written = room.rows * ops::pages_for(tokens);
    const KvPool* const of_texts = ops_.memory_pool();
    if (of_texts == nullptr || of_texts->pages() < pages) {
      const std::int64_t more = of_texts == nullptr ? 0 : pages / kMoreOf;
      steps_.clear();
      ops_.set_memory_pool(nullptr);
      ops_.set_memory_pool(make_pool(pages + more));
    }
    if (!ops_.has_kv_pool() || ops_.kv_pool().pages() < written) {
      steps_.clear();
      ops_.set_kv_pool(nullptr);
      ops_.set_kv_pool(make_pool(written));
    }
    branches_ = Branches(written);
  }

  std::vector<ops::PageId>& memory_pages_of(std::int64_t text) {
    if (text == std::ssize(memory_pages_)) {
      memory_pages_.emplace_back();
    }
    return memory_pages_[static_cast<std::size_t>(text)];
  }

  std::unique_ptr<KvPool> make_pool(std::int64_t pages) const {
    return std::make_unique<KvPool>(layout_, network().config.layers,
                                    std::max<std::int64_t>(pages, 1));
  }

  /// The texts of the batch, which is filled up; the first of them is text `first`.
  void read_step(std::size_t first) {
    const std::size_t texts = batch_.firsts().size();
    fill_up(batch_);
    slices_.clear();
    for (std::size_t i = 0; i < batch_.firsts().size(); ++i) {
      const std::int64_t rows = batch_.rows_of(static_cast<std::int64_t>(i));
      slices_.push_back({nullptr, 0, batch_.firsts()[i], rows,
                         i < texts ? &memories_[first + i] : nullptr, i < texts ? rows : 0});
    }
    const CudaOps::Step put = ops_.begin_step(
        {batch_.tokens(), batch_.positions(), slices_, batch_.types()}, {}, {}, group());
    const models::Batch<CudaOps> batch{put.tokens, put.positions, slices_, put.types};
    const auto work = [&] {
      const DeviceMatrix states = models::encode(ops_, network(), batch);
      models::remember(ops_, network(), batch, states);
      return DeviceMatrix();
    };
    steps_.run({true, batch_.rows(), ops_.kernels()}, work);
  }

  void begin_writing() {
    ops_.set_matrices(MatrixType::kFloat32);
    step_.clear();
    caches_.clear();
    slices_.clear();
  }

  void append(std::span<const std::int32_t> tokens, std::int64_t position,
              std::span<const ops::PageId> pages, std::int64_t text) {
    const auto at = static_cast<std::size_t>(text);
    caches_.push_back({pages});
    slices_.push_back({&caches_.back(), position, step_.size(), std::ssize(tokens), &memories_[at],
                       memory_rows_[at]});
    step_.append(tokens, position);
  }

  // Puts the step's numbers on the device; the batch to give to operators, and its rows.
  std::pair<models::Batch<CudaOps>, std::span<const std::int32_t>> begin_step(
      std::span<const std::int32_t> rows) {
    constexpr std::int64_t kWindows[] = {0};  // none slides
    const CudaOps::Step put =
        ops_.begin_step({step_.tokens(), step_.positions(), slices_}, rows, kWindows, group());
    return {{put.tokens, put.positions, slices_}, put.rows};
  }

  void copy_pages(std::span<const Branches::Copy> copies) {
    copies_.clear();
    for (const Branches::Copy& copy : copies) {
      copies_.push_back({copy.from, copy.to});
    }
    if (!copies_.empty()) {
      ops_.copy_pages(copies_);
    }
  }

  // Query heads of a KV head.
  std::int64_t group() const { return network().config.heads / network().config.kv_heads; }

  ops::cuda::KvLayout layout_;
  MatrixType read_matrices_;  // of the encoder
  core::ThreadPool host_pool_;
  CudaOps ops_;
  EncoderBatch batch_;                                 // the texts of a step that reads
  std::int64_t read_ = 0;                              // texts that were read
  std::vector<KvSequence> memories_;                   // of these
  std::vector<std::int64_t> memory_rows_;              // their tokens
  std::deque<std::vector<ops::PageId>> memory_pages_;  // of them, and of texts before
  Branches branches_;                                  // pages of what was written
  StepTokens step_;                                    // that writes
  std::vector<ops::SequenceSlice<KvSequence>> slices_;
  std::deque<KvSequence> caches_;  // of the slices, which point to them
  std::vector<ops::cuda::PageCopy> copies_;
  CudaSteps<StepKind> steps_{ops_, kMostRecorded};
};

}  // namespace

std::unique_ptr<TextToText> make_cuda_text_to_text(std::shared_ptr<const models::Model> model,
                                                   const RunnerOptions& options) {
  return std::make_unique<CudaTextToText>(std::move(model), options);
}

}  // namespace nibble::engine
