#include "compress/coding/coded_weight.h"

#include <algorithm>
#include <cmath>

#include "formats/row_unit.h"
#include "formats/row_unit_format.h"

namespace nibble::compress {
namespace {

using formats::Scheme;

constexpr std::int64_t kRows = 16;  // rows of one task

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Rounds the scales of a row to multiples of a unit, which it returns.
std::uint8_t round_to_unit(std::span<formats::GroupParameters> row) {
  float largest = 0;
  for (const formats::GroupParameters& group : row) {
    largest = std::max(largest, std::abs(group.scale));
  }
  const std::uint8_t byte = formats::unit_for(largest);
  const float unit = formats::unit_value(byte);
  for (formats::GroupParameters& group : row) {
    group.scale = formats::scale_of_units(formats::units_of(group.scale, unit), unit);
  }
  return byte;
}

}  // namespace

RowFormats::RowFormats(const Scheme& scheme, const Parameters& parameters, formats::NvRule rule) {
  if (scheme.scale.type == formats::ScaleType::kE4m3) {
    core::require(parameters.global > 0, core::ErrorKind::kFailed,
                  "{} needs its global scale before codes are chosen", scheme);
    formats_.push_back(formats::make_nv_format(scheme, parameters.global, rule));
    return;
  }
  const std::span books(parameters.books);
  const auto size = index(formats::book_size(scheme));
  const std::size_t count = books.size() / size;
  for (std::size_t i = 0; i < std::max({std::size_t{1}, count, parameters.units.size()}); ++i) {
    auto format = formats::make_format(
        scheme, books.empty() ? books : books.subspan(count == 1 ? 0 : i * size, size));
    formats_.push_back(parameters.units.empty()
                           ? std::move(format)
                           : formats::make_row_unit_format(std::move(format), parameters.units[i]));
  }
  if (scheme.inputs.tail != 0) {
    tail_ = formats::make_format(formats::tail_scheme());
  }
}

std::int64_t parameter_groups(const Scheme& scheme, std::int64_t k) {
  return formats::groups_per_row(scheme, k) + (scheme.inputs.tail != 0 ? 1 : 0);
}

GroupRange group_range(const Scheme& scheme, std::int64_t k, std::int64_t group) {
  const std::int64_t size = formats::group_size(scheme, k);
  const std::int64_t head = formats::head_inputs(scheme, k);
  if (group == formats::groups_per_row(scheme, k)) {
    return {head, scheme.inputs.tail, true};
  }
  return {group * size, std::min(size, head - group * size), false};
}

Parameters empty_parameters(std::span<const float> weights, const Scheme& scheme,
                            formats::NvRule rule) {
  Parameters parameters;
  if (scheme.scale.type == formats::ScaleType::kE4m3) {
    parameters.global = formats::nv_global(weights, rule);
  }
  return parameters;
}

Parameters fit_parameters(std::span<const float> weights, std::int64_t n, std::int64_t k,
                          const Scheme& scheme, core::ThreadPool& pool, formats::NvRule rule) {
  Parameters parameters = empty_parameters(weights, scheme, rule);
  const RowFormats row_formats(scheme, parameters, rule);
  const std::int64_t groups = parameter_groups(scheme, k);
  // Rows that share their scales share those of their whole length, which lie side by side.
  const std::int64_t rows = formats::rows_per_scale(scheme, n);
  parameters.groups.resize(index(n * groups));
  pool.parallel_for(n / rows, kRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * groups; at < end * groups; ++at) {
      const std::int64_t row = at / groups * rows;
      const GroupRange range = group_range(scheme, k, at % groups);
      const formats::GroupParameters fitted =
          (range.tail ? row_formats.tail() : row_formats.of(0))
              .fit(weights.subspan(index(row * k + range.begin),
                                   index((rows - 1) * k + range.width)));
      for (std::int64_t i = row; i < row + rows; ++i) {
        parameters.groups[index(i * groups + at % groups)] = fitted;
      }
    }
  });
  round_scales(parameters, scheme, k);
  return parameters;
}

void round_scales(Parameters& parameters, const Scheme& scheme, std::int64_t k) {
  const auto groups = index(formats::groups_per_row(scheme, k));
  for (std::size_t first = 0; first < parameters.groups.size(); first += groups) {
    const std::span row = std::span(parameters.groups).subspan(first, groups);
    if (scheme.scale.type == formats::ScaleType::kUnits) {
      parameters.units.push_back(round_to_unit(row));
    } else if (formats::has_supers(scheme)) {
      const std::vector<formats::Super> supers = formats::round_to_supers(scheme, row);
      parameters.supers.insert(parameters.supers.end(), supers.begin(), supers.end());
    } else {
      return;
    }
  }
}

CodedWeight round_with(std::span<const float> weights, std::int64_t n, std::int64_t k,
                       const Scheme& scheme, Parameters parameters, core::ThreadPool& pool) {
  const RowFormats row_formats(scheme, parameters);
  const std::int64_t groups = parameter_groups(scheme, k);
  CodedWeight coded{std::move(parameters), std::vector<std::uint8_t>(weights.size())};
  pool.parallel_for(n, kRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * groups; at < end * groups; ++at) {
      const GroupRange range = group_range(scheme, k, at % groups);
      const std::size_t first = index(at / groups * k + range.begin);
      (range.tail ? row_formats.tail() : row_formats.of(at / groups))
          .encode_group(weights.subspan(first, index(range.width)),
                        coded.parameters.groups[index(at)],
                        std::span(coded.codes).subspan(first, index(range.width)));
    }
  });
  return coded;
}

formats::PackedWeight pack(const CodedWeight& coded, std::int64_t n, std::int64_t k,
                           const Scheme& scheme, core::ThreadPool& pool,
                           std::span<const std::int32_t> permutation) {
  const std::int64_t groups = parameter_groups(scheme, k);
  formats::PackedWeightBuilder builder(scheme, n, k);
  if (scheme.inputs.tail != 0) {
    builder.set_permutation(permutation);
  }
  const std::span books(coded.parameters.books);
  const auto book_size = index(formats::book_size(scheme));
  for (std::size_t i = 0; i < books.size() / book_size; ++i) {
    builder.set_book(static_cast<std::int64_t>(i), books.subspan(i * book_size, book_size));
  }
  if (scheme.scale.type == formats::ScaleType::kE4m3) {
    builder.set_global(coded.parameters.global);
  }
  pool.parallel_for(n, kRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (!coded.parameters.units.empty()) {
        builder.set_unit(row, coded.parameters.units[index(row)]);
      }
      if (const std::span supers(coded.parameters.supers); !supers.empty()) {
        const std::size_t count = supers.size() / index(n);
        builder.set_supers(row, supers.subspan(index(row) * count, count));
      }
      for (std::int64_t group = 0; group < groups; ++group) {
        builder.set_group(row, group, coded.parameters.groups[index(row * groups + group)]);
      }
      builder.set_codes(row, std::span(coded.codes).subspan(index(row * k), index(k)));
    }
  });
  return builder.finish();
}

formats::PackedWeight pack(const CodedWeight& coded, std::int64_t n, std::int64_t k,
                           const Scheme& scheme) {
  core::ThreadPool alone(1);
  return pack(coded, n, k, scheme, alone);
}

CodedWeight unpack(const formats::PackedWeight& weight) {
  const std::int64_t groups = formats::groups_per_row(weight.scheme, weight.k);
  CodedWeight coded;
  coded.codes.resize(index(weight.n * weight.k));
  coded.parameters.groups.resize(index(weight.n * groups));
  std::vector<float> scales(index(groups));
  std::vector<float> minima(index(groups));
  std::vector<std::uint8_t> zeros(index(groups));
  for (std::int64_t row = 0; row < weight.n; ++row) {
    formats::unpack_codes(weight, row,
                          std::span(coded.codes).subspan(index(row * weight.k), index(weight.k)));
    formats::unpack_scales(weight, row, scales);
    formats::unpack_zeros(weight, row, zeros);
    formats::unpack_minima(weight, row, minima);
    for (std::int64_t group = 0; group < groups; ++group) {
      coded.parameters.groups[index(row * groups + group)] = {
          scales[index(group)], zeros[index(group)], minima[index(group)]};
    }
  }
  if (formats::has_learned_book(weight.scheme)) {
    for (std::int64_t row = 0; row < weight.book.dim(0); ++row) {
      const formats::BookValues book = formats::book_of(weight, row);
      coded.parameters.books.insert(coded.parameters.books.end(), book.begin(), book.end());
    }
  }
  if (!weight.units.empty()) {
    const auto units = weight.units.data<std::uint8_t>();
    coded.parameters.units.assign(units.begin(), units.end());
  }
  for (std::int64_t i = 0; i < weight.supers.elements(); ++i) {
    coded.parameters.supers.push_back({weight.supers.data<core::Fp16>()[index(i)],
                                       formats::has_minima(weight.scheme)
                                           ? weight.min_supers.data<core::Fp16>()[index(i)]
                                           : core::Fp16{}});
  }
  if (!weight.global.empty()) {
    coded.parameters.global = weight.global.data<float>()[0];
  }
  return coded;
}

}  // namespace nibble::compress
