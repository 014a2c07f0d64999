#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/threads.h"
#include "formats/format.h"
#include "formats/nv/nv_format.h"
#include "formats/super_blocks.h"

namespace nibble::compress {

/// The parameters of all groups of a layer, chosen before its weights are rounded. A tail is one
/// more group of each row, behind the others.
struct Parameters {
  std::vector<formats::GroupParameters> groups;  // [n, groups of a row]
  std::vector<float> books;                      // learned books only: [n, 2^bits] or [1, 2^bits]
  std::vector<std::uint8_t> units;               // scales of 7 bits only: [n] (row_unit.h)
  std::vector<formats::Super> supers;            // k-quants only: [n, k / 256] (super_blocks.h)
  float global = 0;                              // NVFP4 only (nv_format.h)
};

/// A layer as methods see it: one byte for each code, and the parameters that codes are read with.
struct CodedWeight {
  Parameters parameters;
  std::vector<std::uint8_t> codes;  // [n, k]
};

/// The encoder of each row: one for all rows, or one for each row that has a book or a unit of its
/// own.
class RowFormats {
 public:
  /// Books, units and the global scale of `parameters` are used; without units scales are rounded
  /// to fp16. Throws kUsage when the scheme has learned books and there are none, kFailed when it
  /// is NVFP4 without a global scale.
  RowFormats(const formats::Scheme& scheme, const Parameters& parameters,
             formats::NvRule rule = formats::NvRule::kFourOverSix);

  const formats::Format& of(std::int64_t row) const {
    return *formats_[formats_.size() == 1 ? 0 : static_cast<std::size_t>(row)];
  }
  /// Of the tail of every row; not without one.
  const formats::Format& tail() const { return *tail_; }

 private:
  std::vector<std::unique_ptr<const formats::Format>> formats_;
  std::unique_ptr<const formats::Format> tail_;
};

/// Groups of a row with k inputs, the tail being one of them.
std::int64_t parameter_groups(const formats::Scheme& scheme, std::int64_t k);

/// The inputs of one group of a row.
struct GroupRange {
  std::int64_t begin = 0;
  std::int64_t width = 0;
  bool tail = false;
};
GroupRange group_range(const formats::Scheme& scheme, std::int64_t k, std::int64_t group);

/// What the parameters of all groups are chosen with: the global scale, where the scheme has one.
/// Throws kInvalidModel for weights that are not finite.
Parameters empty_parameters(std::span<const float> weights, const formats::Scheme& scheme,
                            formats::NvRule rule = formats::NvRule::kFourOverSix);

/// Round-to-nearest parameters of each group (Format::fit). Throws kUsage for learned books,
/// kInvalidModel for weights that are not finite.
Parameters fit_parameters(std::span<const float> weights, std::int64_t n, std::int64_t k,
                          const formats::Scheme& scheme, core::ThreadPool& pool,
                          formats::NvRule rule = formats::NvRule::kFourOverSix);

/// Where the scheme wants it, gives each row of parameters its unit or supers and rounds its scales
/// (and minima) to multiples of them. To be called by whatever chooses parameters.
void round_scales(Parameters& parameters, const formats::Scheme& scheme, std::int64_t k);

/// The code nearest to each weight, [n, k].
CodedWeight round_with(std::span<const float> weights, std::int64_t n, std::int64_t k,
                       const formats::Scheme& scheme, Parameters parameters,
                       core::ThreadPool& pool);

/// To and from the stored form.
/// `permutation`: the stored order of inputs where the scheme has a tail. unpack() takes none with
/// a tail.
formats::PackedWeight pack(const CodedWeight& coded, std::int64_t n, std::int64_t k,
                           const formats::Scheme& scheme, core::ThreadPool& pool,
                           std::span<const std::int32_t> permutation = {});
formats::PackedWeight pack(const CodedWeight& coded, std::int64_t n, std::int64_t k,
                           const formats::Scheme& scheme);
CodedWeight unpack(const formats::PackedWeight& weight);

}  // namespace nibble::compress
