#include "ops/cuda/small_batch/kernel.cuh"

namespace nibble::ops::cuda {

int max_float_chunks() {
  constexpr int kEnough = 200 * 1024;
  return max_shared_bytes() >= kEnough ? 64 : 0;
}

void launch_small_batch(const SmallBatchArguments& a, CodeKind codes, std::int64_t groups,
                        int digits, const SmallBatchSchedule& schedule, cudaStream_t stream) {
  if (has_planes(codes)) {
    return is_book(codes) ? launch_plane_books(a, codes, groups, schedule, stream)
                          : launch_plane_integers(a, codes, groups, schedule, stream);
  }
  const auto with_groups = [&]<typename Decoder, CodeKind kCodes, int kGroups>() {
    if constexpr (max_small_batch_columns(kCodes, kGroups, 1) > 0) {
      if (digits == 1) {
        return launch_decoder<Decoder, kCodes, kGroups, 1>(a, schedule, stream);
      }
    }
    launch_decoder<Decoder, kCodes, kGroups, 2>(a, schedule, stream);
  };
  const auto with = [&]<typename Decoder, CodeKind kCodes>() {
    groups == 1   ? with_groups.template operator()<Decoder, kCodes, 1>()
    : groups == 4 ? with_groups.template operator()<Decoder, kCodes, 4>()
                  : with_groups.template operator()<Decoder, kCodes, 8>();
  };
  switch (codes) {
    case CodeKind::kInt4:
      return with.template operator()<Int4Decoder, CodeKind::kInt4>();
    case CodeKind::kInt4WithZeros:
      return with.template operator()<Int4Decoder, CodeKind::kInt4WithZeros>();
    case CodeKind::kInt8:
      return with.template operator()<Int8Decoder, CodeKind::kInt8>();
    case CodeKind::kInt8WithZeros:
      return with.template operator()<Int8Decoder, CodeKind::kInt8WithZeros>();
    case CodeKind::kInt4WithShifts:
      return with.template operator()<Int4Decoder, CodeKind::kInt4WithShifts>();
    case CodeKind::kInt8WithShifts:
      return with.template operator()<Int8Decoder, CodeKind::kInt8WithShifts>();
    case CodeKind::kBook:
      return with.template operator()<BookDecoder, CodeKind::kBook>();
    default:
      break;  // small_batch() has refused codes without a decoder
  }
}

}  // namespace nibble::ops::cuda
