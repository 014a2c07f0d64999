#include "formats/scheme.h"

#include "core/error.h"
#include "formats/hadamard.h"

namespace nibble::formats {
namespace {

using core::DType;
using core::ErrorKind;
using core::require;

constexpr std::int64_t kMaxGroup = std::int64_t{1} << 30;
constexpr std::int64_t kMaxHadamard = std::int64_t{1} << 30;
constexpr std::int64_t kMxGroup = 32;
constexpr std::int64_t kNvGroup = 16;

void require_only(bool condition, const Scheme& scheme, std::string_view problem) {
  require(condition, ErrorKind::kInvalidModel, "scheme '{}': {}", scheme, problem);
}

void validate_dense(const Scheme& scheme) {
  const DType type = scheme.code.dense;
  require_only(type == DType::kF32 || type == DType::kF16 || type == DType::kBF16, scheme,
               "dense weights are f32, f16 or bf16");
  require_only(scheme.code.bits == 0 && scheme.code.book == Book::kNone &&
                   scheme.scale == Scale() && scheme.zero == Zero::kNone,
               scheme, "a dense weight has no bits, scales, zero points or code book");
  require_only(scheme.activation.is_float(), scheme,
               "quantized activations need weights with codes (int8-sym-row-a8)");
  require_only(scheme.inputs == Inputs(), scheme, "a dense weight has no Hadamard and no tail");
}

void validate_code(const Scheme& scheme) {
  const auto [type, bits, book, dense] = scheme.code;
  require_only(dense == DType::kF32, scheme, "a weight with codes has no dense type");
  if (type == CodeType::kInteger) {
    require_only(bits == 2 || bits == 3 || bits == 4 || bits == 8, scheme,
                 "integers have 2, 3, 4 or 8 bits");
    require_only(book == Book::kNone, scheme, "integers have no code book");
    return;
  }
  if (type == CodeType::kFloat) {
    require_only(bits == 8 && book == Book::kNone && scheme.zero == Zero::kNone, scheme,
                 "E4M3 codes have 8 bits, no zero points and no code book");
    return;
  }
  require_only(book != Book::kNone, scheme, "lut4 needs a code book");
  require_only(bits == 4 || ((bits == 2 || bits == 3) && has_learned_book(scheme)), scheme,
               "codes of books have 4 bits, those of learned books (row, matrix) 2, 3 or 4");
  require_only(scheme.zero == Zero::kNone, scheme, "only integers have zero points");
}

void validate_scale(const Scheme& scheme) {
  const auto [type, group, per_tensor] = scheme.scale;
  require_only(group >= 0 && group <= kMaxGroup, scheme, "the group is not in [0, 2^30]");
  require_only(!per_tensor || (group == 0 && type == ScaleType::kF16 && !has_book(scheme) &&
                               !has_zeros(scheme) && scheme.inputs.tail == 0),
               scheme,
               "one scale for the whole matrix is for symmetric integers and E4M3 codes, without "
               "a tail (int8-sym-tensor, fp8-tensor)");
  require_only(!has_float_codes(scheme) || (group == 0 && type == ScaleType::kF16), scheme,
               "E4M3 codes have a float16 scale for each row, or one for the matrix");
  switch (type) {
    case ScaleType::kNone:
      require_only(false, scheme, "a weight with codes has scales");
      return;
    case ScaleType::kF16:
      return;
    case ScaleType::kUnits:
      require_only(group > 0 && scheme.inputs.tail == 0, scheme,
                   "scales of 7 bits are those of groups, without a tail");
      return;
    case ScaleType::kE8m0:
      require_only(scheme.code.book == Book::kE2m1 && group == kMxGroup, scheme,
                   "E8M0 scales stand for 32 E2M1 codes (mxfp4)");
      return;
    case ScaleType::kE4m3:
      require_only(scheme.code.book == Book::kE2m1 && group == kNvGroup, scheme,
                   "E4M3 scales stand for 16 E2M1 codes (nvfp4)");
      return;
  }
}

void validate_inputs(const Scheme& scheme) {
  const auto [hadamard, tail] = scheme.inputs;
  require_only(hadamard == 0 || hadamard == kWholeRow ||
                   (hadamard >= 2 && hadamard <= kMaxHadamard && hadamard_exists(hadamard)),
               scheme, "there is no Hadamard matrix of that size here");
  require_only(tail >= 0 && tail <= kMaxGroup, scheme, "the tail is not in [0, 2^30]");
  require_only(tail == 0 || (is_integer(scheme) && scheme.code.bits < 8 &&
                             !scheme.activation.is_float() && !scheme.activation.keeps_outliers),
               scheme,
               "a tail stands behind integers of fewer than 8 bits whose activations are rounded, "
               "all of them (int4-sym-g128-a4-tail128)");
}

void validate_activation(const Scheme& scheme) {
  const std::string_view problem = problem_of(scheme.activation);
  require_only(problem.empty(), scheme, problem);
  require_only(scheme.activation.is_float() ||
                   has_float_codes(scheme) == (scheme.activation.type == ActivationType::kE4m3),
               scheme,
               "E4M3 weights meet float or E4M3 activations (fp8-row-afp8), and only they meet "
               "E4M3 activations");
  const std::int64_t weights = scheme.scale.group;
  const std::int64_t inputs = scheme.activation.group;
  require_only(inputs == 0 || weights == 0 || inputs % weights == 0 || weights % inputs == 0,
               scheme, "the groups of weights and of activations must be multiples of each other");
}

}  // namespace

void validate(const Scheme& scheme) {
  if (is_dense(scheme)) {
    validate_dense(scheme);
    return;
  }
  validate_code(scheme);
  validate_scale(scheme);
  validate_activation(scheme);
  validate_inputs(scheme);
}

std::int64_t head_inputs(const Scheme& scheme, std::int64_t k) {
  return k - scheme.inputs.tail;
}

Scheme tail_scheme() {
  Scheme scheme;
  scheme.code = {.type = CodeType::kInteger, .bits = 8};
  scheme.scale.type = ScaleType::kF16;
  scheme.activation.bits = 8;
  return scheme;
}

std::int64_t groups_per_row(const Scheme& scheme, std::int64_t k) {
  const std::int64_t head = head_inputs(scheme, k);
  if (is_dense(scheme)) {
    return 0;
  }
  if (scheme.scale.group == 0) {
    return 1;
  }
  return head / scheme.scale.group + (head % scheme.scale.group != 0 ? 1 : 0);
}

std::int64_t hadamard_size(const Scheme& scheme, std::int64_t k) {
  return scheme.inputs.hadamard == kWholeRow ? head_inputs(scheme, k) : scheme.inputs.hadamard;
}

void require_shape(const Scheme& scheme, std::int64_t n, std::int64_t k) {
  const bool whole_groups =
      scheme.scale.type == ScaleType::kE8m0 || scheme.scale.type == ScaleType::kE4m3;
  require(!whole_groups || k % scheme.scale.group == 0, ErrorKind::kInvalidModel,
          "{} needs inputs in multiples of {}, the layer is [{}, {}]; choose another scheme for it",
          scheme, scheme.scale.group, n, k);
  require(scheme.inputs.tail < k, ErrorKind::kInvalidModel,
          "{}: a tail of {} inputs leaves nothing of a layer [{}, {}]", scheme, scheme.inputs.tail,
          n, k);
  if (scheme.inputs.hadamard == 0) {
    return;
  }
  const std::int64_t head = head_inputs(scheme, k);
  const std::int64_t size = hadamard_size(scheme, k);
  const std::int64_t last = head % size;
  require(hadamard_exists(size) && (last == 0 || hadamard_exists(last)), ErrorKind::kInvalidModel,
          "{}: there is no Hadamard matrix for {} inputs at the end of a layer [{}, {}] here; take "
          "blocks of another size (h64)",
          scheme, last == 0 ? size : last, n, k);
}

std::int64_t group_size(const Scheme& scheme, std::int64_t k) {
  return scheme.scale.group == 0 ? head_inputs(scheme, k) : scheme.scale.group;
}

}  // namespace nibble::formats
