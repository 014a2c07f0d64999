#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/any4/book_steps.h"
#include "compress/block_runner.h"
#include "compress/block_work.h"
#include "compress/coded_weight.h"
#include "compress/gptq/cholesky.h"
#include "core/threads.h"
#include "device/place.h"
#include "formats/scheme.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// The heavy parts of passes, as a user hears of them.
enum class Task {
  kGptq,   // GPTQ's sweep over the inputs
  kAwq,    // AWQ's search of scales and clips
  kBooks,  // code books by k-means, with the scales of their groups
};

/// The heavy arithmetic of compression, which passes ask for without knowing where it runs. Data
/// come from the host's memory and return there. A pass's algorithm is written once, over this;
/// results of two devices agree within the rounding of sums in another order.
class Arithmetic {
 public:
  explicit Arithmetic(core::ThreadPool& pool) : pool_(pool) {}
  virtual ~Arithmetic() = default;
  Arithmetic(const Arithmetic&) = delete;
  Arithmetic& operator=(const Arithmetic&) = delete;

  /// For what has no other form, and for what is too little to be worth one.
  core::ThreadPool& pool() const { return pool_; }

  virtual bool has_gpu() const = 0;

  /// Whether the task runs on a GPU for layers of the scheme.
  virtual bool on_gpu(Task task, const formats::Scheme& scheme) const = 0;

  /// What runs the calibration windows through the blocks; see BlockRunner. Throws kUsage for
  /// layers of `schemes` that cannot run there, kOutOfMemory where the windows do not fit.
  virtual std::unique_ptr<BlockRunner> make_runner(
      const models::Decoder& decoder, const CalibrationWindows& windows, ops::cpu::CpuOps& ops,
      bool keeps_original, const std::optional<std::filesystem::path>& spill,
      const std::map<std::string, formats::Scheme>& schemes) = 0;

  /// See upper_factor().
  virtual std::optional<std::vector<float>> factor(const OrderedHessian& hessian) = 0;

  /// See gptq().
  virtual CodedWeight gptq(std::span<const float> weights, std::int64_t n, std::int64_t k,
                           const formats::Scheme& scheme, Parameters parameters,
                           const InverseFactor& inverse, std::span<const std::uint8_t> kept) = 0;

  /// See scale_errors().
  virtual std::vector<double> errors_of_scales(const SetWork& set,
                                               std::span<const std::vector<float>> scales) = 0;

  /// See clip_groups(); all layers of the set that are not dense.
  virtual void clip(SetWork& set) = 0;

  /// See BookSteps. What is given must outlive the result.
  virtual std::unique_ptr<BookSteps> book_steps(const BookProblem& problem) = 0;

 private:
  core::ThreadPool& pool_;
};

/// On the CPU's threads.
class CpuArithmetic final : public Arithmetic {
 public:
  using Arithmetic::Arithmetic;
  bool has_gpu() const override { return false; }
  bool on_gpu(Task, const formats::Scheme&) const override { return false; }
  std::unique_ptr<BlockRunner> make_runner(
      const models::Decoder& decoder, const CalibrationWindows& windows, ops::cpu::CpuOps& ops,
      bool keeps_original, const std::optional<std::filesystem::path>& spill,
      const std::map<std::string, formats::Scheme>& schemes) override;
  std::optional<std::vector<float>> factor(const OrderedHessian& hessian) override;
  CodedWeight gptq(std::span<const float> weights, std::int64_t n, std::int64_t k,
                   const formats::Scheme& scheme, Parameters parameters,
                   const InverseFactor& inverse, std::span<const std::uint8_t> kept) override;
  std::vector<double> errors_of_scales(const SetWork& set,
                                       std::span<const std::vector<float>> scales) override;
  void clip(SetWork& set) override;
  std::unique_ptr<BookSteps> book_steps(const BookProblem& problem) override;
};

/// On the GPU of that number, and on the CPU what on_gpu() denies. Throws kUsage where this build
/// has no CUDA back end, there is no such GPU, or CUDA's cuBLAS and cuSOLVER are not installed.
std::unique_ptr<Arithmetic> make_cuda_arithmetic(int gpu, core::ThreadPool& pool);

std::unique_ptr<Arithmetic> make_arithmetic(const device::Place& place, core::ThreadPool& pool);

}  // namespace nibble::compress
