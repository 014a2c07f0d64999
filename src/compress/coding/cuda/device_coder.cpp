#include "compress/coding/cuda/device_coder.h"

#include "compress/coding/cuda/book_tables.h"
#include "formats/codebooks.h"

namespace nibble::compress::cuda {

DeviceCoder::DeviceCoder(const CudaContext& context, const formats::Scheme& scheme,
                         const Parameters& parameters) {
  view_.bits = scheme.code.bits;
  view_.symmetric = !formats::has_zeros(scheme);
  if (!formats::has_book(scheme)) {
    return;
  }
  const bool learned = formats::has_learned_book(scheme);
  const std::span<const float> values =
      learned ? std::span<const float>(parameters.books)
              : formats::fixed_book(scheme.code.book, scheme.scale.group);
  const std::int64_t size = formats::book_size(scheme);
  const std::int64_t count = std::ssize(values) / size;
  books_ = context.copy_of(values);
  tables_ = CudaContext::room<BookTable>(count);
  make_tables(books_.as<float>(), count, static_cast<int>(size), tables_.as<BookTable>(),
              context.stream());
  view_.books = tables_.as<BookTable>();
  view_.book_of_row = scheme.code.book == formats::Book::kPerRow;
  view_.learned = learned;
}

device::cuda::Buffer device_groups(const CudaContext& context, const Parameters& parameters) {
  std::vector<GroupValues> groups;
  groups.reserve(parameters.groups.size());
  for (const formats::GroupParameters& group : parameters.groups) {
    groups.push_back({group.scale, group.zero});
  }
  return context.copy_of(std::span<const GroupValues>(groups));
}

}  // namespace nibble::compress::cuda
