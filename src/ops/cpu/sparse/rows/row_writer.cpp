#include "ops/cpu/sparse/rows/row_writer.h"

#include <cstring>

#include "formats/block_sparse.h"
#include "ops/cpu/sparse/held_codes.h"

namespace nibble::ops::cpu {
namespace {

void write_table(const Int8Table& table, std::uint8_t* stream) {
  static_assert(sizeof(table.entries) == kTableBytes);
  std::memcpy(stream, table.entries.data(), kTableBytes);
  std::memcpy(stream + kTableBytes, &table.unit, sizeof(table.unit));
}

}  // namespace

RowWriter::RowWriter(const formats::PackedWeight& weight, int held_bits)
    : weight_(weight), entries_(weight), layout_(weight, held_bits), held_bits_(held_bits) {
  if (formats::has_book(weight.scheme) && weight.scheme.code.book != formats::Book::kPerRow) {
    table_ = int8_table(formats::book_of(weight, 0));
  }
}

void RowWriter::write(std::int64_t row, std::uint8_t* stream) const {
  if (formats::has_book(weight_.scheme)) {
    write_table(table_ ? *table_ : int8_table(formats::book_of(weight_, row)), stream);
  }
  std::uint8_t* const masks = stream + layout_.masks();
  std::uint8_t* to = stream + layout_.first_window();
  layout_.for_windows(row, [&](std::int64_t window, std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t first = formats::stored_group(weight_, at) * layout_.shared();
      for (std::int64_t piece = first; piece < first + layout_.shared(); ++piece) {
        const std::int64_t lane = piece % kSparseWindow;
        masks[2 * window + lane / 8] |= static_cast<std::uint8_t>(1 << lane % 8);
      }
      write_group(row, at, at - begin, end - begin, to);
    }
    to += layout_.bytes(end - begin);
  });
}

void RowWriter::write_group(std::int64_t row, std::int64_t at, std::int64_t entry,
                            std::int64_t count, std::uint8_t* window) const {
  const core::Fp16 scale = formats::stored_scale(weight_, at, row);
  std::memcpy(window + 2 * entry, &scale, sizeof(scale));
  if (!formats::has_book(weight_.scheme)) {
    set_held(window + layout_.zeros(count), held_bits_, entry, entry / 2, entry % 2,
             entries_.zero(at));
  }
  const int piece = layout_.piece();
  const std::int64_t line = kSparseQuad * count * layout_.shared();  // bytes
  for (std::int64_t i = 0; i < weight_.scheme.scale.group; ++i) {
    const std::int64_t quad = i % piece / kSparseQuad;
    const std::int64_t byte =
        (entry * layout_.shared() + i / piece) * kSparseQuad + i % kSparseQuad;
    set_held(window + layout_.codes(count), held_bits_, quad * line + byte, quad / 2 * line + byte,
             quad % 2, entries_.code(at, i));
  }
}

}  // namespace nibble::ops::cpu
