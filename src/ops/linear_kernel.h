#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

/// How each device chooses the kernel of a linear layer. A device has one table of kernels. Each of
/// them says why it does not take a problem, and the first that does not refuse computes it.
namespace nibble::ops {

/// Why a kernel does not take a problem: words and what they speak of. They are put together only
/// for those who read them, so that a refusal costs nothing while a model runs.
class Reason {
 public:
  /// Numbers, and texts that outlive the reason.
  template <typename... Args>
  explicit Reason(fmt::format_string<const std::type_identity_t<Args>&...> words, Args... args)
      : words_(words), values_{Value(args)...}, count_(sizeof...(Args)) {}

  std::string text() const;

 private:
  struct Value {
    Value() = default;
    explicit Value(std::int64_t value) : number(value) {}
    explicit Value(std::string_view value) : text(value) {}
    std::int64_t number = 0;
    std::string_view text = {};  // in the place of the number, where it is not empty
  };

  fmt::string_view words_;
  std::array<Value, 3> values_;
  std::size_t count_;
};

/// None: the kernel takes it.
using Refusal = std::optional<Reason>;

/// What a kernel of a table answered.
struct KernelAnswer {
  std::string_view kernel;
  Refusal refusal;
};

/// "dense: weights are compressed; packed-avx2: this machine lacks AVX2"
std::string to_string(std::span<const KernelAnswer> answers);

/// Throws kUsage: no kernel takes a layer, for these reasons.
[[noreturn]] void refuse_layer(std::span<const KernelAnswer> answers);

/// What each kernel of a table says of a problem.
template <typename Kernel, typename Problem>
std::vector<KernelAnswer> answers_of(std::span<const Kernel> table, const Problem& problem) {
  std::vector<KernelAnswer> answers;
  for (const Kernel& kernel : table) {
    answers.push_back({kernel.name, kernel.refusal(problem)});
  }
  return answers;
}

/// The first kernel of a table that does not refuse; as refuse_layer() where all do.
template <typename Kernel, typename Problem>
const Kernel& choose_kernel(std::span<const Kernel> table, const Problem& problem) {
  for (const Kernel& kernel : table) {
    if (!kernel.refusal(problem)) {
      return kernel;
    }
  }
  refuse_layer(answers_of(table, problem));
}

}  // namespace nibble::ops
