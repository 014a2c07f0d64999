#include <algorithm>
#include <optional>
#include <utility>

#include "compress/coding/cuda/coder.h"
#include "core/json.h"
#include "device/cuda/memory.h"
#include "models/forward.h"
#include "tune/cuda/device_adamw.h"
#include "tune/cuda/loss_kernels.h"
#include "tune/cuda/student_kernels.h"
#include "tune/cuda/training_gpu.h"
#include "tune/cuda/weight_kernels.h"
#include "tune/qat/student_batch.h"
#include "tune/qat/student_trainer.h"
#include "tune/training_state.h"

namespace nibble::tune::cuda {
namespace {

using device::cuda::Buffer;

// Of one layer: what a forward pass reads, from the weight that is trained.
class DeviceStudentWeight {
 public:
  DeviceStudentWeight(const Student::Weight& weight, const DeviceAdamW& optimizer, core::DType type,
                      cudaStream_t stream)
      : scheme_(weight.scheme),
        n_(weight.layer->weight.n),
        k_(weight.layer->weight.k),
        trained_(optimizer.values(weight.parameter)),
        type_(type),
        stream_(stream),
        values_(n_ * k_ * core::size_of(type)) {}

  const void* values() const { return values_.data(); }

  void update() {
    if (!formats::has_codes(scheme_)) {
      return round_floats(scheme_.code.dense, trained_, n_ * k_, values_.data(), type_, stream_);
    }
    compress::cuda::CoderView coder;
    coder.bits = scheme_.code.bits;
    coder.symmetric = !formats::has_zeros(scheme_);
    round_to_nearest(coder, trained_, n_, k_, formats::group_size(scheme_, k_), values_.data(),
                     type_, stream_);
  }

 private:
  formats::Scheme scheme_;
  std::int64_t n_;
  std::int64_t k_;
  const float* trained_;
  core::DType type_;
  cudaStream_t stream_;
  Buffer values_;
};

// What a network made of a batch.
struct Pass {
  std::vector<DeviceVariable> hidden;  // behind each block
  DeviceVariable logits;
};

class CudaStudentTrainer final : public StudentTrainer {
 public:
  CudaStudentTrainer(const StudentTask& task, int gpu, ops::gradient::ProductPrecision precision)
      : task_(task),
        student_(task.student),
        gpu_(gpu, precision, task.student_ops),
        optimizer_(student_.parameters(), task.optimizer, gpu_.stream()),
        tape_(gpu_.operators()),
        sums_(kPartialSums * static_cast<std::int64_t>(sizeof(double))) {
    place_student();
    gpu_.load_ends(student_.network());
    if (task.loss.needs_teacher()) {
      gpu_.load_blocks(task.teacher);
      gpu_.load_ends(task.teacher);
    }
    update();
  }
  ~CudaStudentTrainer() override { gpu_.operators().release(); }

  LossTerms pass_back(std::span<const LabelledText* const> texts,
                      const BatchShare& share) override {
    const StudentBatch batch(student_.network(), texts);
    std::optional<Pass> teacher;
    if (task_.loss.needs_teacher()) {
      teacher = run(task_.teacher, batch);
      tape_.forget();
    }
    const Pass student = run(student_.network(), batch);
    tape_.set_parameters(&gradients_);
    LossTerms terms;
    add_answers(student, teacher, batch, share, terms);
    if (task_.loss.hidden > 0) {
      for (std::size_t i = 0; i < student.hidden.size(); ++i) {
        const std::size_t other =
            task_.layers.empty() ? i : static_cast<std::size_t>(task_.layers[i]);
        terms.hidden += add_difference(student.hidden[i], teacher->hidden[other], share.written);
      }
    }
    tape_.backward();
    return terms;
  }

  double step(double loss, double learning_rate) override {
    const double norm = optimizer_.step(loss, learning_rate);
    update();
    return norm;
  }
  std::int64_t steps() const override { return optimizer_.steps(); }

  void settle() override {
    give_back();
    student_.round();
  }

  void save(const std::filesystem::path& state) override {
    save_training(state, student_.parameters(), give_back(), core::Json::object());
  }
  bool load(const std::filesystem::path& state, std::int64_t most_steps) override {
    AdamW host = host_optimizer();
    if (!load_training(state, most_steps, student_.parameters(), host)) {
      return false;
    }
    optimizer_.take(host);
    update();
    student_.round();
    return true;
  }

  std::int64_t bytes_per_value() const override {
    return DeviceAdamW::kBytesPerValue + core::size_of(gpu_.operators().product_type());
  }

 private:
  AdamW host_optimizer() { return {student_.parameters(), {}, task_.student_ops.pool()}; }

  // Parameters, and the state of their optimizer, to the host.
  AdamW give_back() {
    AdamW host = host_optimizer();
    optimizer_.give(host);
    return host;
  }

  void place_student() {
    const core::DType type = gpu_.operators().product_type();
    for (const Student::Weight& weight : student_.weights()) {
      weights_.push_back(
          std::make_unique<DeviceStudentWeight>(weight, optimizer_, type, gpu_.stream()));
      gpu_.operators().place(weight.layer->weight, weights_.back()->values());
      gradients_.add(weight.layer->weight, gradient_of(weight.parameter));
    }
    for (const Student::Vector& vector : student_.vectors()) {
      gpu_.operators().place(*vector.values, optimizer_.values(vector.parameter));
      gradients_.add(*vector.values, gradient_of(vector.parameter));
    }
  }

  std::span<float> gradient_of(const Parameter* parameter) const {
    return {optimizer_.gradient(parameter), parameter->values.size()};
  }

  void update() {
    for (const auto& weight : weights_) {
      weight->update();
    }
  }

  Pass run(const models::Network& network, const StudentBatch& texts) {
    std::vector<ops::SequenceSlice<ops::cpu::KvCache>> slices;
    for (const ops::gradient::TextRows& text : texts.written_rows) {
      slices.push_back({nullptr, 0, text.own.row, text.own.rows});
    }
    const models::Batch<CudaGradientOps> batch{texts.written.tokens(), texts.written.positions(),
                                               slices};
    Pass pass;
    DeviceVariable x = models::embed(tape_, network, batch);
    const models::Stack& stack = network.decoder;
    for (std::size_t layer = 0; layer < stack.blocks.size(); ++layer) {
      models::move_through(tape_, network.config, stack.norms, stack.blocks[layer],
                           static_cast<std::int64_t>(layer), batch, x);
      pass.hidden.push_back(x);
    }
    pass.logits = models::logits(tape_, network, x);
    return pass;
  }

  void add_answers(const Pass& student, const std::optional<Pass>& teacher,
                   const StudentBatch& batch, const BatchShare& share, LossTerms& terms) {
    std::vector<std::int32_t> labels;
    for (const Label& label : batch.labels) {
      labels.push_back(label.output);
    }
    const Buffer device_labels = Buffer::of(std::span<const std::int32_t>(labels));
    const auto add = [&](const LogitShares& shares, double weight) {
      const DeviceMatrix& logits = student.logits.value();
      const double mean = share.answers / static_cast<double>(logits.rows());
      DeviceMatrix slopes = gpu_.operators().copy(logits);
      const Buffer losses(logits.rows() * static_cast<std::int64_t>(sizeof(double)));
      logit_loss(shares, slopes.data(), teacher ? teacher->logits.value().data() : nullptr,
                 device_labels.as<std::int32_t>(), static_cast<float>(weight * mean), slopes.rows(),
                 slopes.columns(), losses.as<double>(), gpu_.stream());
      tape_.add_gradient(student.logits, slopes);
      return mean * sum_of(losses.as<double>(), slopes.rows(), gpu_.stream());
    };
    if (task_.loss.labels > 0) {
      terms.labels = add({1.0f, 0.0f}, task_.loss.labels);
    }
    if (task_.loss.logits > 0) {
      terms.logits = add({0.0f, 1.0f}, task_.loss.logits);
    }
  }

  // add_squared_difference() of the states behind a block.
  double add_difference(const DeviceVariable& own, const DeviceVariable& other, double share) {
    DeviceMatrix slopes = gpu_.operators().copy(own.value());
    const double mean = share / static_cast<double>(slopes.count());
    square_loss(slopes.data(), other.value().data(), slopes.count(),
                static_cast<float>(2.0 * task_.loss.hidden * mean), sums_.as<double>(),
                gpu_.stream());
    tape_.add_gradient(own, slopes);
    return mean * sum_of(sums_.as<double>(), kPartialSums, gpu_.stream());
  }

  StudentTask task_;
  Student& student_;
  TrainingGpu gpu_;
  DeviceAdamW optimizer_;
  std::vector<std::unique_ptr<DeviceStudentWeight>> weights_;
  ops::gradient::ParameterGradients gradients_;
  CudaGradientOps tape_;
  Buffer sums_;
};

}  // namespace

std::unique_ptr<StudentTrainer> make_cuda_student_trainer(
    const StudentTask& task, int gpu, ops::gradient::ProductPrecision precision) {
  return std::make_unique<CudaStudentTrainer>(task, gpu, precision);
}

}  // namespace nibble::tune::cuda
