#include "formats/scheme.h"

#include <algorithm>

#include "core/error.h"
#include "formats/hadamard.h"
#include "formats/runs.h"
#include "formats/tail.h"

namespace nibble::formats {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::int64_t kMaxGroup = std::int64_t{1} << 30;
constexpr std::int64_t kMaxHadamard = std::int64_t{1} << 30;
constexpr std::int64_t kMxGroup = 32;
constexpr std::int64_t kNvGroup = 16;
constexpr std::int64_t kMinimaUnit = 32;
constexpr std::int64_t kTwoOfFourGroup = 32;
constexpr std::int64_t kMostMinimaGroup = 256;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 16;              // 16-bit indices
constexpr std::int64_t kMostStoredGroups = (std::int64_t{1} << 31) - 1;  // 32-bit ends of rows

bool is_block(std::int64_t group) {
  return group == 8 || group == 16 || group == 32 || group == 64;
}

constexpr std::string_view kInputsInPlace =
    "the inputs of block-sparse rows are neither turned nor reordered";

// Block-sparse rows without codes.
std::string problem_of_float_rows(const Scheme& scheme) {
  const std::int64_t group = scheme.scale.group;
  if (scheme.code.dense != core::DType::kF16 || scheme.sparsity != Sparsity::kGroups ||
      scheme.scale != Scale{.group = group} || !is_block(group)) {
    return "block-sparse rows of floats are float16 in groups of 8, 16, 32 or 64 inputs, each row "
           "with groups of its own (f16-g16-bsr)";
  }
  if (!scheme.activation.is_float()) {
    return "block-sparse rows of floats meet activations that are floats; those that round them "
           "have codes (int4-asym-g16-bsr-a8)";
  }
  return scheme.inputs == Inputs() ? "" : std::string(kInputsInPlace);
}

std::string problem_of_dense(const Scheme& scheme) {
  if (is_block_sparse(scheme)) {
    return problem_of_float_rows(scheme);
  }
  if (scheme.scale != Scale()) {
    return "a dense weight has no scales, and no groups but those of block-sparse rows "
           "(f16-g16-bsr)";
  }
  if (!scheme.activation.is_float()) {
    return "quantized activations need weights with codes (int8-sym-row-a8)";
  }
  if (keeps_two_of_four(scheme) && scheme.code.dense == core::DType::kF32) {
    return "dense weights of which two of four are stored have 16 bits (f16-2of4)";
  }
  return scheme.inputs != Inputs() ? "a dense weight has no Hadamard and no tail" : "";
}

std::string_view problem_of_code(const Scheme& scheme) {
  const Code& code = scheme.code;
  const std::span words = code.type->words;
  const std::span variants = code.type->variants;
  const auto is_word = [&](const CodeWord& word) {
    return word.bits == code.bits && word.dense == code.dense && word.used_bits == code.used_bits;
  };
  const auto is_variant = [&](const CodeVariant& variant) {
    return variant.book == code.book && variant.zero == scheme.zero &&
           code.bits >= variant.least_bits;
  };
  const bool has_word = std::any_of(words.begin(), words.end(), is_word);
  const bool has_variant =
      variants.empty() ? is_variant({}) : std::any_of(variants.begin(), variants.end(), is_variant);
  return has_word && has_variant ? "" : code.type->rule;
}

bool has_e2m1_scales(const Scheme& scheme, std::int64_t group) {
  return scheme.code.book == Book::kE2m1 && scheme.scale.group == group;
}

// What the blocks of GGUF and the groups of MLX have in common.
std::string problem_of_blocks(const Scheme& scheme, bool fits, std::string_view what) {
  return fits && scheme.inputs == Inputs() && scheme.activation.is_float()
             ? ""
             : fmt::format(
                   "{}, and their inputs are neither turned nor reordered and stay in float", what);
}

bool is_of_gguf(std::int64_t group) {
  return group == 16 || group == 32;
}

std::string problem_of_minima(const Scheme& scheme) {
  if (!has_minima(scheme)) {
    return "";
  }
  const ScaleType type = scheme.scale.type;
  const std::int64_t group = scheme.scale.group;
  const bool of_units =
      group >= kMinimaUnit && group % kMinimaUnit == 0 && group <= kMostMinimaGroup;
  if (type == ScaleType::kF16) {
    return problem_of_blocks(scheme, group == 16 || of_units,
                             "real minima are those of groups of 16 or of 32, 64, ... 256 inputs");
  }
  return type == ScaleType::kMultiples
             ? problem_of_blocks(scheme, is_of_gguf(group),
                                 "minima that are multiples are those of groups of 16 or 32 inputs")
             : "minima are stored as scales of 8 or 16 bits are (int4-min-g32, int4-min-g32-s8)";
}

std::string problem_of_used_bits(const Scheme& scheme) {
  if (scheme.code.used_bits == 0) {
    return "";
  }
  const bool fits = !has_zeros(scheme) && scheme.sparsity == Sparsity::kNone &&
                    (scheme.scale.type == ScaleType::kMultiples ||
                     (scheme.scale.type == ScaleType::kF16 && scheme.scale.group == kMinimaUnit));
  return problem_of_blocks(scheme, fits,
                           "codes of 5 and 6 bits are those of GGUF's blocks (int5-sym-g32, "
                           "int5-min-g32, int6-sym-g16-s8)");
}

std::string problem_of_scale_type(const Scheme& scheme) {
  switch (scheme.scale.type) {
    case ScaleType::kNone:
      return "a weight with codes has scales";
    case ScaleType::kF16:
      return "";
    case ScaleType::kUnits:
      return scheme.scale.group > 0 && scheme.inputs.tail == 0
                 ? ""
                 : "scales of 7 bits are those of groups, without a tail";
    case ScaleType::kMultiples:
      return problem_of_blocks(
          scheme, is_of_gguf(scheme.scale.group),
          "scales that are multiples of a float16 are those of groups of 16 or 32 inputs");
    case ScaleType::kE8m0:
      return has_e2m1_scales(scheme, kMxGroup) ? "" : "E8M0 scales stand for 32 E2M1 codes (mxfp4)";
    case ScaleType::kE4m3:
      return has_e2m1_scales(scheme, kNvGroup) ? "" : "E4M3 scales stand for 16 E2M1 codes (nvfp4)";
  }
  return "";
}

std::string problem_of_inputs(const Scheme& scheme) {
  const auto [hadamard, tail, ordered] = scheme.inputs;
  if (hadamard != 0 && hadamard != kWholeRow &&
      (hadamard < 2 || hadamard > kMaxHadamard || !hadamard_exists(hadamard))) {
    return "there is no Hadamard matrix of that size here";
  }
  if (tail < 0 || tail > kMaxGroup) {
    return "the tail is not in [0, 2^30]";
  }
  if (tail != 0 &&
      (!takes_tail(scheme) || scheme.activation.is_float() || scheme.activation.keeps_outliers)) {
    return "a tail stands behind integers of fewer than 8 bits, or values of a fixed book with "
           "scales of 16 bits, whose activations are rounded, all of them "
           "(int4-sym-g128-a4-tail128)";
  }
  return ordered && (hadamard != 0 || tail != 0)
             ? "a stored order alone stands beside neither a Hadamard nor a tail, which has its own"
             : "";
}

std::string problem_of_activation(const Scheme& scheme) {
  const Activation& activation = scheme.activation;
  const std::string_view problem = problem_of(activation);
  if (!problem.empty()) {
    return std::string(problem);
  }
  const CodeType* const type = scheme.code.type;
  if (!activation.is_float() && activation.type->activations != type->activations) {
    return fmt::format("weights that are {} meet activations that are floats or {}, not {}",
                       type->name, type->activations->name, activation.type->name);
  }
  if (activation.stored_scale && scheme.inputs != Inputs()) {
    return "a stored scale of activations is that of inputs which are neither turned nor reordered";
  }
  const std::int64_t weights = scheme.scale.group;
  const std::int64_t inputs = activation.group;
  if (const Runs* const runs = runs_of(scheme)) {
    const bool carries = !activation.symmetric || activation.keeps_outliers;
    return inputs % runs->inputs == 0 && !carries
               ? ""
               : fmt::format(
                     "activations that meet {} are symmetric, keep no outliers, and have "
                     "groups that are multiples of {}",
                     type->name, runs->inputs);
  }
  return inputs == 0 || weights == 0 || inputs % weights == 0 || weights % inputs == 0
             ? ""
             : "the groups of weights and of activations must be multiples of each other";
}

// Activations that are floats, or symmetric integers without outliers in groups of multiples of
// `inputs`.
bool meets_simple_activations(const Scheme& scheme, std::int64_t inputs) {
  const Activation& activation = scheme.activation;
  return activation.is_float() ||
         (activation.symmetric && !activation.keeps_outliers && activation.group % inputs == 0);
}

// Block-sparse rows of entries of a book. A group of zeros is rounded to zeros, and left out, where
// its scale is 0, as with learned books, or the book has a 0.
std::string problem_of_book_rows(const Scheme& scheme) {
  if (scheme.code.book == Book::kIq4) {
    return "block-sparse rows have no IQ4 codes, none of which is 0 (lut4-row-g16-bsr)";
  }
  return scheme.scale.type == ScaleType::kF16 && scheme.sparsity == Sparsity::kGroups
             ? ""
             : "block-sparse rows of entries of a book have scales of 16 bits, and each row groups "
               "of its own (lut4-row-g16-bsr)";
}

std::string problem_of_sparsity(const Scheme& scheme) {
  if (!is_block_sparse(scheme)) {
    return "";
  }
  const ScaleType type = scheme.scale.type;
  if ((!is_integer(scheme) && !has_book(scheme)) || has_minima(scheme) ||
      (type != ScaleType::kF16 && type != ScaleType::kUnits) || !is_block(scheme.scale.group)) {
    return "block-sparse rows are of integers or entries of a book, in groups of 8, 16, 32 or 64 "
           "inputs with scales of 16 bits, or of integers 7 (int4-asym-g16-bsr, "
           "int4-asym-g16-s7-bsr, lut4-row-g16-bsr)";
  }
  if (const std::string problem = has_book(scheme) ? problem_of_book_rows(scheme) : "";
      !problem.empty()) {
    return problem;
  }
  if (scheme.inputs != Inputs()) {
    return std::string(kInputsInPlace);
  }
  return meets_simple_activations(scheme, scheme.scale.group)
             ? ""
             : "block-sparse rows meet activations that are floats, or symmetric integers without "
               "outliers whose groups hold whole groups of weights (int4-asym-g16-bsr-a8)";
}

std::string problem_of_two_of_four(const Scheme& scheme) {
  if (!keeps_two_of_four(scheme)) {
    return "";
  }
  const bool is_stored = is_integer(scheme) && (scheme.code.bits == 4 || scheme.code.bits == 8) &&
                         !has_minima(scheme) && scheme.scale.type == ScaleType::kF16;
  if (!is_stored || scheme.scale.rows != 1 || scheme.scale.group % kTwoOfFourGroup != 0) {
    return "two of four weights are stored of integers of 4 or 8 bits with float16 scales for rows "
           "or groups of 32, 64, 96, ... inputs, or of 16-bit floats (int4-sym-g128-2of4, "
           "f16-2of4)";
  }
  if (scheme.inputs != Inputs()) {
    return "inputs of which two of four weights are stored are neither turned nor reordered";
  }
  return meets_simple_activations(scheme, kTwoOfFourGroup)
             ? ""
             : "weights of which two of four are stored meet activations that are floats, or "
               "symmetric integers without outliers for tokens or groups of 32, 64, 96, ... inputs "
               "(int8-sym-row-2of4-a8)";
}

}  // namespace

bool takes_tail(const Scheme& scheme) {
  const bool fixed_book = has_book(scheme) && !has_learned_book(scheme);
  return scheme.code.bits < 8 &&
         (is_integer(scheme) || (fixed_book && scheme.scale.type == ScaleType::kF16));
}

std::string problem_of(const Scheme& scheme) {
  if (const std::string_view problem = problem_of_code(scheme); !problem.empty()) {
    return std::string(problem);
  }
  if (!has_codes(scheme)) {
    return problem_of_dense(scheme);
  }
  for (const auto rule :
       {problem_of_granularity, problem_of_scale_type, problem_of_minima, problem_of_used_bits,
        problem_of_activation, problem_of_inputs, problem_of_sparsity, problem_of_two_of_four}) {
    if (std::string problem = rule(scheme); !problem.empty()) {
      return problem;
    }
  }
  return "";
}

void validate(const Scheme& scheme) {
  const std::string problem = problem_of(scheme);
  require(problem.empty(), ErrorKind::kInvalidModel, "scheme '{}': {}", scheme, problem);
}

std::int64_t head_inputs(const Scheme& scheme, std::int64_t k) {
  return k - scheme.inputs.tail;
}

Scheme tail_scheme() {
  Scheme scheme;
  scheme.code = {.type = &kIntegerCodes, .bits = 8};
  scheme.scale.type = ScaleType::kF16;
  scheme.activation.bits = 8;
  return scheme;
}

std::int64_t groups_per_row(const Scheme& scheme, std::int64_t k) {
  const std::int64_t head = head_inputs(scheme, k);
  if (scheme.scale.group == 0) {
    return has_codes(scheme) ? 1 : 0;
  }
  return head / scheme.scale.group + (head % scheme.scale.group != 0 ? 1 : 0);
}

std::int64_t stored_weights_per_row(const Scheme& scheme, std::int64_t k) {
  return keeps_two_of_four(scheme) ? k / 2 : head_inputs(scheme, k);
}

std::int64_t rows_per_scale(const Scheme& scheme, std::int64_t n) {
  return scheme.scale.rows == kAllRows ? n : scheme.scale.rows;
}

ScaleShape scale_shape(const Scheme& scheme, std::int64_t n, std::int64_t k) {
  return {n / rows_per_scale(scheme, n), groups_per_row(scheme, k)};
}

std::int64_t hadamard_size(const Scheme& scheme, std::int64_t k) {
  return scheme.inputs.hadamard == kWholeRow ? head_inputs(scheme, k) : scheme.inputs.hadamard;
}

namespace {

// Rows of a scheme whose last group must be a whole one.
std::int64_t inputs_multiple(const Scheme& scheme) {
  if (has_supers(scheme)) {
    return kSuperGroup;
  }
  if (keeps_two_of_four(scheme)) {
    return kFour;
  }
  const ScaleType type = scheme.scale.type;
  const bool whole = type == ScaleType::kE8m0 || type == ScaleType::kE4m3 || has_minima(scheme) ||
                     is_block_sparse(scheme);
  return whole ? scheme.scale.group : 1;
}

}  // namespace

void require_shape(const Scheme& scheme, std::int64_t n, std::int64_t k) {
  const std::int64_t multiple = inputs_multiple(scheme);
  require(k % multiple == 0, ErrorKind::kInvalidModel,
          "{} needs inputs in multiples of {}, the layer is [{}, {}]; choose another scheme for it",
          scheme, multiple, n, k);
  if (const Runs* const runs = runs_of(scheme)) {
    require(n % runs->rows == 0 && k % runs->inputs == 0, ErrorKind::kInvalidModel,
            "{} codes {} outputs and {} inputs together, which must divide those of a layer, [{}, "
            "{}]; choose another scheme for it",
            scheme, runs->rows, runs->inputs, n, k);
  }
  require(n % pattern_rows(scheme) == 0, ErrorKind::kInvalidModel,
          "{}: {} rows keep the same groups, which must divide the outputs of a layer, [{}, {}]; "
          "choose another scheme for it",
          scheme, pattern_rows(scheme), n, k);
  require(scheme.inputs.tail < k, ErrorKind::kInvalidModel,
          "{}: a tail of {} inputs leaves nothing of a layer [{}, {}]", scheme, scheme.inputs.tail,
          n, k);
  require(!is_block_sparse(scheme) || (groups_per_row(scheme, k) <= kMostBlocks &&
                                       n <= kMostStoredGroups / groups_per_row(scheme, k)),
          ErrorKind::kInvalidModel,
          "{}: block-sparse rows have at most {} groups, and a matrix 2^31 - 1; the layer is [{}, "
          "{}]",
          scheme, kMostBlocks, n, k);
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
