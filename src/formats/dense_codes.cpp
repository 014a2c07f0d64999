#include <array>

#include "formats/code_type.h"

namespace nibble::formats {
namespace {

constexpr std::array<CodeWord, 3> kWords = {{{"f32", 0, core::DType::kF32},
                                             {"f16", 0, core::DType::kF16},
                                             {"bf16", 0, core::DType::kBF16}}};

}  // namespace

constinit const CodeType kDenseCodes = {
    .name = "floats",
    .example = "f16",
    .rule = "dense weights are f32, f16 or bf16, without bits, zero points and code book",
    .words = kWords};

}  // namespace nibble::formats
