#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "device/cuda/stream.h"
#include "device/cuda_devices.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/attention_plan.h"
#include "ops/cuda/attention/copy_pages.h"
#include "ops/cuda/attention/hadamard_signs.h"
#include "ops/cuda/attention/kv_pool.h"
#include "ops/cuda/attention/packed/text_tiles.h"
#include "ops/cuda/attention/swap_pages.h"
#include "ops/cuda/device_input.h"
#include "ops/cuda/device_matrix.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/text_pooling.h"
#include "ops/cuda/expert_lists.h"
#include "ops/cuda/layer_chain/pending_layers.h"
#include "ops/cuda/linear/linear_layer.h"
#include "ops/cuda/packed/unit_packer.h"
#include "ops/cuda/range_flag.h"
#include "ops/cuda/schedules/schedules.h"
#include "ops/cuda/step_inputs.h"
#include "ops/cuda/step_upload.h"
#include "ops/layers.h"
#include "ops/ops.h"
#include "ops/ranked_token.h"
#include "ops/token_draw.h"

namespace nibble::ops::cuda {

/// What bounds a step.
struct StepLimits {
  std::int64_t rows = 8192;   // tokens of one step
  std::int64_t items = 4096;  // pieces of attention
};

/// Pages that are listed for all sequences of a step, which may share some.
inline constexpr std::int64_t kListedPages = 1 << 18;

/// In what numbers the operators compute.
struct Precision {
  bool exact = false;  // activations of dense layers stay in float32 (LinearProblem::exact)
  MatrixType matrices = MatrixType::kFloat32;  // that embed() makes
  bool float_texts = false;  // float32 matrices see float32 inside texts, else float16
  bool chained = true;  // layers of one token may run in one kernel, with last bits of their own
};

/// The first tokens of rows by their logits, on the device: `tokens` [rows, count] of RankedToken.
struct RankedRows {
  PooledBuffer tokens;
  std::int64_t rows = 0;
  std::int64_t count = 0;
};

/// The operators of ops.h on an NVIDIA GPU: they put work on one stream and do not wait for it, but
/// for route(), whose lists the host makes.
///
/// Matrices are float32, or float16 where embed() makes such ones: each operator gives the type of
/// what it is given, but for gather(), pool() and widened(), whose float32 leaves the device or
/// goes to a head. Sums, norms and activations are float32 in any case. Attention with caches,
/// attend(), experts and rank() take float32 only (kFailed).
///
/// Between begin_step() and the last operator of the step, the numbers of the batch are those that
/// begin_step() gave. Parameters are uploaded when they are first used, by prepare() or by the
/// first step; after one step, another one of the same sizes can be recorded into a graph.
class CudaOps {
 public:
  using Matrix = DeviceMatrix;
  using Cache = KvSequence;

  /// An activation that linear layers read, in each form that they ask for.
  class Input {
   public:
    std::int64_t m() const { return m_; }

   private:
    friend class CudaOps;
    /// In the form of a layer.
    LinearInput of(const LinearLayer& layer) const;

    std::int64_t m_ = 0;
    MatrixType type_ = MatrixType::kFloat32;  // of the layers' results
    FloatRows rows_;                          // what the layers read, where they round it
    core::Fp16* stream_ = nullptr;     // all there is, where the layers read the stream as it is
    std::optional<LinearInput> made_;  // all there is, where another than CudaOps made it
    std::optional<Matrix> matrix_;     // float32
    std::vector<std::pair<const DeviceTransform*, Matrix>> transformed_;
    std::vector<DeviceInput> forms_;
  };

  /// On the GPU of that number, with schedules that were measured on it, or null: what is built in.
  /// Throws kUsage where there is no such GPU.
  explicit CudaOps(const StepLimits& limits, std::shared_ptr<const Schedules> schedules = nullptr,
                   int gpu = 0, const Precision& precision = {});

  /// Makes its GPU that of the calling thread: to be called before all else, and once by each other
  /// thread before it calls anything.
  void make_current() const noexcept { cudaSetDevice(device_.index); }

  const device::CudaDevice& device() const { return device_; }
  /// With all that operators have been asked for so far.
  cudaStream_t stream() const {
    pending_.start(stream_.get());
    return stream_.get();
  }
  void synchronize() const {
    pending_.start(stream_.get());
    wait_ ? wait_() : stream_.synchronize();
  }

  /// Brings the weights of a set to the device; linear() needs it.
  void prepare(const LinearSet& set, UnitPacker& packer);
  /// Bytes of parameters on the device, and the most bytes of activations.
  std::int64_t prepared_bytes() const;
  std::int64_t peak_activation_bytes() const { return pool_->bytes(); }

  /// Where the pages of sequences lie; attention() needs it. May be null.
  void set_kv_pool(std::unique_ptr<KvPool> pool);
  bool has_kv_pool() const { return kv_ != nullptr; }
  const KvPool& kv_pool() const { return *kv_; }
  /// Copies pages of this pool in the order of the stream (attention/copy_pages.h). Throws kFailed
  /// where there is no such page, or no pool.
  void copy_pages(std::span<const PageCopy> copies);
  /// The same out to the host's memory, or in from there (attention/swap_pages.h).
  void swap_pages(std::span<const SwappedPage> pages, SwapDirection direction);

  /// Where the pages of memories lie, of float16 or float32; remember() and attend() need it. May
  /// be null.
  void set_memory_pool(std::unique_ptr<KvPool> pool) { memories_.pool = std::move(pool); }
  const KvPool* memory_pool() const { return memories_.pool.get(); }

  /// The type of what embed() makes from here on, in place of Precision::matrices.
  void set_matrices(MatrixType type) { precision_.matrices = type; }

  /// Copies of the numbers of a step, for the operators to take; valid until the next step. Plans
  /// attention for sliding windows of the given lengths (0: none).
  struct Step {
    std::span<const std::int32_t> tokens;
    std::span<const std::int32_t> positions;
    std::span<const std::int32_t> rows;
    std::span<const std::int32_t> types;
  };
  /// Slices have caches, all or none: those without are texts, which follow one another. The rows
  /// of texts are those that remember() keeps, from the first on; rows with caches are those that
  /// attend() to their memories. Token -1 - r is the first of row r of `taken` (step_upload.h).
  /// Throws kFailed when the step is larger than its limits.
  Step begin_step(const Batch<KvSequence>& batch, std::span<const std::int32_t> rows,
                  std::span<const std::int64_t> windows, std::int64_t group,
                  const RankedRows* taken = nullptr);

  /// Which kernels attention takes in this step, as a number: it depends on how many sequences
  /// there are and how long they are, or how many tiles texts have. Recorded steps serve only steps
  /// that are alike in this.
  int kernels() const { return kernels_; }

  /// Whether an operator of this step waited for the device: such a step can't be recorded.
  bool waited() const { return waited_; }

  /// Throws kFailed where a matrix of float16 had values at the end of its range since the last
  /// call: results are wrong then. The device must have done all steps (synchronize()).
  void check_range();

  /// In the type of Precision::matrices, or of set_matrices().
  Matrix embed(const core::Tensor& table, std::span<const std::int32_t> ids);
  /// The same where `table` holds the rows of tokens from `first` on, as float32. Rows of other
  /// tokens become 0.
  Matrix embed_part(const core::Tensor& table, std::span<const std::int32_t> ids,
                    std::int64_t first);
  void add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                std::int64_t offset);
  /// Layers of very few tokens may read x itself, when they run: it must be there, as it is now,
  /// until linear() of the result was called.
  Input norm(const Matrix& x, const Norm& norm, const LinearSet& set);
  Input add_norm(Matrix& x, const Matrix& delta, const Norm& norm, const LinearSet& set);
  /// Layers may read the new x itself, which must stay as it is until then.
  Input post_norm(Matrix& x, const Matrix& delta, const Norm& norm, const LinearSet& set);
  Matrix norm_matrix(const Matrix& x, const Norm& norm);
  void add(Matrix& x, const Matrix& delta);
  Matrix linear(Input& input, const LinearSet& set);
  /// By the product itself; left to do after sets of several layers, and adapters.
  std::optional<Matrix> linear(Input& input, const LinearSet& set, const Residual<Matrix>& onto);
  /// By the product itself where its kernel joins gates, or activates float16: of more than a few
  /// tokens. Gates of dense layers in bfloat16 are rounded to it before they are joined.
  Input linear(Input& input, const LinearSet& set, const ActivateInto& into);
  Input attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                  const Batch<KvSequence>& batch, const LinearSet& set);
  Input mlp_activation(const Matrix& x, MlpActivation activation, const LinearSet& set);
  Input gated_activation(const Matrix& gate_up, MlpActivation activation, const LinearSet& set);
  Input input(const Matrix& x, const LinearSet& set);
  /// Rows of the step, or of an expert as the last route() gave them, as float32.
  Matrix gather(const Matrix& x, std::span<const std::int32_t> rows);
  std::vector<ExpertRows> route(const Matrix& logits, const RoutingSpec& spec);
  void scatter_add(Matrix& sum, const Matrix& x, const ExpertRows& expert);
  Matrix zeros(std::int64_t rows, std::int64_t columns);
  void activate(Matrix& x, MlpActivation activation);
  void scale(Matrix& x, float factor);
  /// x as float32.
  Matrix widened(Matrix x);
  /// Both throw kFailed where slices have no memories, or they have no pool.
  void remember(const Matrix& kv, const AttentionSpec& spec, std::int64_t layer,
                const Batch<KvSequence>& batch);
  Input attend(const Matrix& q, const AttentionSpec& spec, std::int64_t layer,
               const Batch<KvSequence>& batch, const LinearSet& set);
  /// Rows [begins[i], ends[i]) of x as one (elementwise/text_pooling.h). Both are of the step.
  Matrix pool(const Matrix& x, TextPooling pooling, std::span<const std::int32_t> begins,
              std::span<const std::int32_t> ends);
  /// The `count` first of each row by their logits (sampling/ranking.h).
  RankedRows rank(const Matrix& logits, std::int64_t count);
  /// One token of each row by its draw, of all where it has no top_k, else of the first ones, of
  /// which `ranked` has as many as are wanted (sampling/draw_rows.h, draw_tokens.h). `draws` lie in
  /// pinned memory of the host. Throws kFailed for more than kMostDrawn tokens.
  RankedRows draw(const Matrix& logits, const RankedRows& ranked, std::span<const TokenDraw> draws);
  Matrix matrix(std::int64_t rows, std::int64_t columns, MatrixType type = MatrixType::kFloat32) {
    return {pool_, rows, columns, type};
  }

 protected:
  /// How synchronize() waits for the stream, where that is not all that is to be looked after.
  void set_wait(std::function<void()> wait) { wait_ = std::move(wait); }

  /// Has each layer run in a kernel of its own from here on.
  void keep_layers_apart() { pending_.refuse(); }

  /// Whether the product of a set can send its results to another GPU.
  bool sends(const Input& input, const LinearSet& set) const;
  /// Has it do so.
  void send(Input& input, const LinearSet& set, const BlockOutput& output);
  /// The only form in which the layers of a set read m rows, where an operator can write it.
  std::optional<InputKey> direct_key(const LinearSet& set, std::int64_t m) const;
  /// An input in that form which the caller has made.
  static Input made_input(const LinearInput& made);
  const NormWeights& weights_of(const Norm& norm);
  /// add_norm() of a delta that the caller knows: `add_norm(weights, target)` does both in one, and
  /// `add()` adds alone.
  template <typename AddNorm, typename Add>
  Input add_norm_by(Matrix& x, const Norm& norm, const LinearSet& set, const AddNorm& add_norm,
                    const Add& add);

 private:
  /// What LowRank adds to n columns of a set's results.
  struct Adapter {
    std::int64_t column = 0;
    DenseView a;
    DenseView b;
    float scale = 1.0f;
  };
  struct Layers {
    std::vector<LinearLayer> parts;
    std::vector<Adapter> adapters;
    std::int64_t n = 0;
    std::int64_t k = 0;
  };
  struct DeviceNorm {
    device::cuda::Buffer weight;
    device::cuda::Buffer bias;
    NormWeights view;
  };
  struct DeviceAttention {
    device::cuda::Buffer q_norm;
    device::cuda::Buffer k_norm;
    device::cuda::Buffer key_centre;
    AttentionLayer view;
  };
  /// What texts of an encoder left, and what the step does with it.
  struct Memories {
    std::unique_ptr<KvPool> pool;
    std::optional<PlanBuffer> plan;
    bool planned = false;  // for this step
    bool splits = false;   // keys of some row
  };

  const Layers& layers_of(const LinearSet& set) const;
  /// Whether all layers of a set make their inputs of the same rows of float32 themselves.
  static bool read_rows(const Layers& layers, std::int64_t m, std::optional<NormKind> norm);
  /// The one order in which all layers of a set read their inputs, or null. Adapters read x as it
  /// is.
  static const std::uint16_t* order_of(const Layers& layers);
  bool read_stream(const LinearSet& set, const Matrix& x) const;
  static bool fuses(const Layers& layers, std::int64_t m, const Epilogue& epilogue);
  const AttentionLayer& layer_of(const AttentionSpec& spec);
  LinearLayer dense_layer(const LinearSet& set, std::size_t first, std::size_t last);
  std::shared_ptr<device::cuda::Buffer> table_of(const core::Tensor& tensor);
  EmbeddingTable embedding(const core::Tensor& table);
  Adapter adapter_of(const LowRank& low_rank, std::int64_t column);
  void prepare_plain(const LinearSet& set, UnitPacker& packer);
  const Matrix& transformed(Input& input, const DeviceTransform* transform);
  Input norm_in_order(const Matrix& x, const NormWeights& weights, const LinearSet& set,
                      const std::uint16_t* order);
  /// What an operator can write that writes each form.
  static bool any_form(const InputKey&) { return true; }
  /// What an operator makes: the input of m rows for layers whose results have that type.
  struct Wanted {
    const LinearSet& set;
    std::int64_t m = 0;
    MatrixType type = MatrixType::kFloat32;
    bool ordered = false;  // the operator writes all in order_of() the layers, which there is
  };
  /// The matrix is float32.
  template <typename ToTarget, typename ToMatrix, typename Writes = decltype(any_form)>
  Input make_input(const Wanted& wanted, const ToTarget& to_target, const ToMatrix& to_matrix,
                   const Writes& writes = any_form);
  MutableMatrixView view(const Matrix& x) const;
  /// As float32.
  Matrix copied(const Matrix& x);
  Matrix norm_into(const Matrix& x, const Norm& norm, MatrixType type);
  Matrix activated(const Matrix& x, MlpActivation activation, MatrixType type);
  Matrix gated_matrix(const Matrix& gate_up, MlpActivation activation);
  Input make_activation(const Matrix& x, MlpActivation activation, const Wanted& wanted);
  Input make_gated(const Matrix& gate_up, MlpActivation activation, const Wanted& wanted);
  static bool writes_halves(const Layers& layers, std::int64_t m);
  Matrix linear_parts(Input& input, const Layers& layers, MatrixType type);
  Matrix linear_floats(Input& input, const LinearSet& set);
  std::optional<ChainedLayer> chained(const Input& input, const Layers& layers) const;
  /// Whether the layers of a set may wait for a row that others write.
  bool reads_chained_row(const LinearSet& set) const;
  /// Such a row.
  Input chained_row(std::int64_t width);
  std::optional<Input> linear_chained(const Input& input, const Layers& layers,
                                      const ActivateInto& into);
  Input linear_activated(Input& input, const LinearSet& set, const ActivateInto& into);
  Input gated_through_bfloat16(Input& input, const LinearLayer& layer, const ActivateInto& into);
  void attend(const Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
              const Batch<KvSequence>& batch, const AttentionOutput& output);
  std::optional<Input> attend_chained(const Matrix& qkv, const AttentionSpec& spec,
                                      std::int64_t layer, const Batch<KvSequence>& batch,
                                      const LinearSet& set);
  Input attend_in_texts(const Matrix& qkv, const AttentionSpec& spec, const LinearSet& set);
  Input attend_in_float(const Matrix& qkv, const AttentionSpec& spec, const LinearSet& set);
  void plan_sequences(const Batch<KvSequence>& batch, std::span<const std::int64_t> windows,
                      std::int64_t group);
  void plan_memories(const Batch<KvSequence>& batch);
  /// Adds to kernels() what a plan's attention takes.
  void note_kernels(const PlanBuffer& plan, bool splits, std::int64_t kv_heads, std::int64_t group);
  const KvPool& pool_of_memories(const AttentionSpec& spec) const;
  void attend_to_memories(const Matrix& q, const AttentionSpec& spec, const AttentionLayer& layer,
                          const std::byte* pages, const AttentionOutput& output);
  /// The plan as a step of m rows has it that are split in several pieces each, or not.
  static DevicePlan plan_of_step(const PlanBuffer& buffer, std::int64_t m, bool splits);
  float* partials_of(const AttentionSpec& spec);

  device::CudaDevice device_;
  StepLimits limits_;
  std::shared_ptr<const Schedules> schedules_;
  Precision precision_;
  device::cuda::Stream stream_;
  mutable PendingLayers pending_;  // what stream() does not have yet
  std::shared_ptr<DevicePool> pool_ = std::make_shared<DevicePool>();
  StepUpload upload_;
  StepInputs step_;
  std::vector<Layers> prepared_;  // by set id
  std::map<const void*, std::shared_ptr<device::cuda::Buffer>> tables_;
  std::shared_ptr<LtProducts> products_ = std::make_shared<LtProducts>();
  std::shared_ptr<WideScratch> wide_scratch_ = std::make_shared<WideScratch>();
  std::map<const Norm*, DeviceNorm> norms_;
  std::map<const AttentionSpec*, DeviceAttention> attentions_;
  std::map<std::vector<float>, device::cuda::Buffer> frequencies_;  // of RoPE: layers share them
  std::unique_ptr<KvPool> kv_;
  std::map<std::int64_t, PlanBuffer> plans_;  // by window
  std::vector<PlannedSequence> planned_;      // the step's
  AttentionPlan plan_;                        // for one window, on its way into its buffer
  Memories memories_;
  TextTiles texts_;
  device::cuda::Buffer partials_;
  std::optional<HadamardSigns> turn_;
  ExpertLists experts_;
  device::cuda::PinnedBuffer router_logits_;
  bool splits_ = false;  // keys of some row
  int kernels_ = 0;
  bool waited_ = false;
  std::function<void()> wait_;  // null: for the stream alone
  RangeFlag range_;
};

}  // namespace nibble::ops::cuda
