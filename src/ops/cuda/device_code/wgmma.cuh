#pragma once

#include <cstdint>

#include <cuda_runtime.h>

/// Matrix products of a warpgroup, four warps (PTX ISA, wgmma; sm_90a only). They run on their own:
/// registers that a product reads or writes may not be touched before wait_products() says that it
/// has ended.
///
/// The left operand is 64 rows by 32 bytes of k in registers: warp w holds rows 16 w .. 16 w + 15
/// as one fragment of mma.m16n8k32 (INT8) or mma.m16n8k16 (float16). The right operand lies in
/// shared memory, as rows (columns of the product) of 128 bytes in the 128-byte swizzle. The
/// product is 64 x kColumns: value 4 j + 2 r + c of lane 4 g + t of warp w is row 16 w + 8 r + g,
/// column 8 j + 2 t + c.
namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Gives each thread of the warpgroup kCount registers, fewer or (if kMore) more than it has.
template <int kCount, bool kMore>
__device__ __forceinline__ void set_registers() {
  if constexpr (kMore) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
  }
}

/// The threads of the warpgroup meet, each warpgroup by itself.
__device__ __forceinline__ void meet_in_warpgroup() {
  asm volatile("bar.sync %0, 128;" ::"r"(static_cast<int>(threadIdx.x) / 128) : "memory");
}

/// Has the compiler compute a value here and not later, between products.
template <typename T>
__device__ __forceinline__ void settle(T& value) {
  asm volatile("" : "+r"(value));
}

__device__ __forceinline__ void settle(float& value) {
  asm volatile("" : "+f"(value));
}

/// After wait_products(): has sums read here and not before.
template <typename Sum, int kCount>
__device__ __forceinline__ void settle_all(Sum (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    settle(sums[i]);
  }
}

/// Before the first product, and after registers of a product were written otherwise.
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Closes a group of products.
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most kPending groups are not yet done.
template <int kPending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Describes a right operand that begins at `address`, a multiple of 1024: eight rows are 1024
/// bytes. 32 bytes further along k, the description is greater by 2.
__device__ __forceinline__ std::uint64_t describe_operand(std::uint32_t address) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightRows = std::uint64_t{1024 / 16} << 32;
  constexpr std::uint64_t kUnused = std::uint64_t{1} << 16;
  return kSwizzle128 | kEightRows | kUnused | ((address & 0x3ffff) >> 4);
}

/// The same without swizzle: 8 rows by 16 bytes that lie together are a matrix of 128 bytes. It is
/// `along_k` bytes to the next one along k, `along_columns` to that of the next eight columns of
/// the product. Where rows of the operand are k (kRowsAreK), a matrix has 8 of them by 8 columns.
__device__ __forceinline__ std::uint64_t describe_matrices(std::uint32_t address, int along_k,
                                                           int along_columns) {
  const auto lead = static_cast<std::uint64_t>(along_k / 16) << 16;
  const auto stride = static_cast<std::uint64_t>(along_columns / 16) << 32;
  return stride | lead | ((address & 0x3ffff) >> 4);
}

/// sums = left x right, plus what sums was where `add`. kRowsAreK: the right operand has rows of k.
__device__ __forceinline__ void multiply(int (&sums)[8], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, {%8, %9, %10, %11}, %12, added; }"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
        "+r"(sums[6]), "+r"(sums[7])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void multiply(float (&sums)[8], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, {%8, %9, %10, %11}, %12, added, 1, 1, 0; }"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void multiply(int (&sums)[16], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, {%16, %17, %18, %19}, %20, added; }"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
        "+r"(sums[6]), "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]),
        "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]), "+r"(sums[15])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void multiply(float (&sums)[16], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, {%16, %17, %18, %19}, %20, added, 1, 1, 0; }"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void multiply(int (&sums)[32], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, added; }"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
        "+r"(sums[6]), "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]),
        "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]),
        "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]), "+r"(sums[21]),
        "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]),
        "+r"(sums[27]), "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

template <bool kRowsAreK = false>
__device__ __forceinline__ void multiply(float (&sums)[32], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, added, 1, 1, %38; }"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]),
        "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),
        "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]),
        "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)), "n"(kRowsAreK ? 1 : 0));
}

__device__ __forceinline__ void multiply(int (&sums)[64], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, added; }"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
        "+r"(sums[6]), "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]),
        "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]),
        "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]), "+r"(sums[21]),
        "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]),
        "+r"(sums[27]), "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31]),
        "+r"(sums[32]), "+r"(sums[33]), "+r"(sums[34]), "+r"(sums[35]), "+r"(sums[36]),
        "+r"(sums[37]), "+r"(sums[38]), "+r"(sums[39]), "+r"(sums[40]), "+r"(sums[41]),
        "+r"(sums[42]), "+r"(sums[43]), "+r"(sums[44]), "+r"(sums[45]), "+r"(sums[46]),
        "+r"(sums[47]), "+r"(sums[48]), "+r"(sums[49]), "+r"(sums[50]), "+r"(sums[51]),
        "+r"(sums[52]), "+r"(sums[53]), "+r"(sums[54]), "+r"(sums[55]), "+r"(sums[56]),
        "+r"(sums[57]), "+r"(sums[58]), "+r"(sums[59]), "+r"(sums[60]), "+r"(sums[61]),
        "+r"(sums[62]), "+r"(sums[63])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

template <bool kRowsAreK = false>
__device__ __forceinline__ void multiply(float (&sums)[64], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, added, 1, 1, %70; }"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]),
        "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),
        "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]),
        "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]),
        "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]),
        "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
        "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]),
        "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]),
        "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]),
        "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]),
        "+f"(sums[62]), "+f"(sums[63])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)), "n"(kRowsAreK ? 1 : 0));
}

__device__ __forceinline__ void multiply(int (&sums)[128], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
      "%127"
      "}, {%128, %129, %130, %131}, %132, added; }"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]),
        "+r"(sums[6]), "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]),
        "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]), "+r"(sums[15]), "+r"(sums[16]),
        "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]), "+r"(sums[21]),
        "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]),
        "+r"(sums[27]), "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31]),
        "+r"(sums[32]), "+r"(sums[33]), "+r"(sums[34]), "+r"(sums[35]), "+r"(sums[36]),
        "+r"(sums[37]), "+r"(sums[38]), "+r"(sums[39]), "+r"(sums[40]), "+r"(sums[41]),
        "+r"(sums[42]), "+r"(sums[43]), "+r"(sums[44]), "+r"(sums[45]), "+r"(sums[46]),
        "+r"(sums[47]), "+r"(sums[48]), "+r"(sums[49]), "+r"(sums[50]), "+r"(sums[51]),
        "+r"(sums[52]), "+r"(sums[53]), "+r"(sums[54]), "+r"(sums[55]), "+r"(sums[56]),
        "+r"(sums[57]), "+r"(sums[58]), "+r"(sums[59]), "+r"(sums[60]), "+r"(sums[61]),
        "+r"(sums[62]), "+r"(sums[63]), "+r"(sums[64]), "+r"(sums[65]), "+r"(sums[66]),
        "+r"(sums[67]), "+r"(sums[68]), "+r"(sums[69]), "+r"(sums[70]), "+r"(sums[71]),
        "+r"(sums[72]), "+r"(sums[73]), "+r"(sums[74]), "+r"(sums[75]), "+r"(sums[76]),
        "+r"(sums[77]), "+r"(sums[78]), "+r"(sums[79]), "+r"(sums[80]), "+r"(sums[81]),
        "+r"(sums[82]), "+r"(sums[83]), "+r"(sums[84]), "+r"(sums[85]), "+r"(sums[86]),
        "+r"(sums[87]), "+r"(sums[88]), "+r"(sums[89]), "+r"(sums[90]), "+r"(sums[91]),
        "+r"(sums[92]), "+r"(sums[93]), "+r"(sums[94]), "+r"(sums[95]), "+r"(sums[96]),
        "+r"(sums[97]), "+r"(sums[98]), "+r"(sums[99]), "+r"(sums[100]), "+r"(sums[101]),
        "+r"(sums[102]), "+r"(sums[103]), "+r"(sums[104]), "+r"(sums[105]), "+r"(sums[106]),
        "+r"(sums[107]), "+r"(sums[108]), "+r"(sums[109]), "+r"(sums[110]), "+r"(sums[111]),
        "+r"(sums[112]), "+r"(sums[113]), "+r"(sums[114]), "+r"(sums[115]), "+r"(sums[116]),
        "+r"(sums[117]), "+r"(sums[118]), "+r"(sums[119]), "+r"(sums[120]), "+r"(sums[121]),
        "+r"(sums[122]), "+r"(sums[123]), "+r"(sums[124]), "+r"(sums[125]), "+r"(sums[126]),
        "+r"(sums[127])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void multiply(float (&sums)[128], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
      "%127"
      "}, {%128, %129, %130, %131}, %132, added, 1, 1, 0; }"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]),
        "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),
        "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]),
        "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]),
        "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]),
        "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
        "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]),
        "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]),
        "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]),
        "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]),
        "+f"(sums[62]), "+f"(sums[63]), "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]),
        "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71]),
        "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), "+f"(sums[76]),
        "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79]), "+f"(sums[80]), "+f"(sums[81]),
        "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]),
        "+f"(sums[87]), "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]),
        "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95]), "+f"(sums[96]),
        "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99]), "+f"(sums[100]), "+f"(sums[101]),
        "+f"(sums[102]), "+f"(sums[103]), "+f"(sums[104]), "+f"(sums[105]), "+f"(sums[106]),
        "+f"(sums[107]), "+f"(sums[108]), "+f"(sums[109]), "+f"(sums[110]), "+f"(sums[111]),
        "+f"(sums[112]), "+f"(sums[113]), "+f"(sums[114]), "+f"(sums[115]), "+f"(sums[116]),
        "+f"(sums[117]), "+f"(sums[118]), "+f"(sums[119]), "+f"(sums[120]), "+f"(sums[121]),
        "+f"(sums[122]), "+f"(sums[123]), "+f"(sums[124]), "+f"(sums[125]), "+f"(sums[126]),
        "+f"(sums[127])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

#endif

}  // namespace nibble::ops::cuda
