#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/wgmma.cuh"

/// Products of a warpgroup (wgmma.cuh) of E4M3 numbers. They are summed in float32, of which the
/// hardware keeps about 14 bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.2).
namespace nibble::ops::cuda {

/// A sum of such products: which type sums have says what is multiplied.
struct E4m3Sum {
  float value;
  __device__ explicit operator float() const { return value; }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ void multiply(E4m3Sum (&sums)[16], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, {%16, %17, %18, %19}, %20, added, 1, 1; }"
      : "+f"(sums[0].value), "+f"(sums[1].value), "+f"(sums[2].value), "+f"(sums[3].value),
        "+f"(sums[4].value), "+f"(sums[5].value), "+f"(sums[6].value), "+f"(sums[7].value),
        "+f"(sums[8].value), "+f"(sums[9].value), "+f"(sums[10].value), "+f"(sums[11].value),
        "+f"(sums[12].value), "+f"(sums[13].value), "+f"(sums[14].value), "+f"(sums[15].value)
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void multiply(E4m3Sum (&sums)[32], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, added, 1, 1; }"
      : "+f"(sums[0].value), "+f"(sums[1].value), "+f"(sums[2].value), "+f"(sums[3].value),
        "+f"(sums[4].value), "+f"(sums[5].value), "+f"(sums[6].value), "+f"(sums[7].value),
        "+f"(sums[8].value), "+f"(sums[9].value), "+f"(sums[10].value), "+f"(sums[11].value),
        "+f"(sums[12].value), "+f"(sums[13].value), "+f"(sums[14].value), "+f"(sums[15].value),
        "+f"(sums[16].value), "+f"(sums[17].value), "+f"(sums[18].value), "+f"(sums[19].value),
        "+f"(sums[20].value), "+f"(sums[21].value), "+f"(sums[22].value), "+f"(sums[23].value),
        "+f"(sums[24].value), "+f"(sums[25].value), "+f"(sums[26].value), "+f"(sums[27].value),
        "+f"(sums[28].value), "+f"(sums[29].value), "+f"(sums[30].value), "+f"(sums[31].value)
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void multiply(E4m3Sum (&sums)[64], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, added, 1, 1; }"
      : "+f"(sums[0].value), "+f"(sums[1].value), "+f"(sums[2].value), "+f"(sums[3].value),
        "+f"(sums[4].value), "+f"(sums[5].value), "+f"(sums[6].value), "+f"(sums[7].value),
        "+f"(sums[8].value), "+f"(sums[9].value), "+f"(sums[10].value), "+f"(sums[11].value),
        "+f"(sums[12].value), "+f"(sums[13].value), "+f"(sums[14].value), "+f"(sums[15].value),
        "+f"(sums[16].value), "+f"(sums[17].value), "+f"(sums[18].value), "+f"(sums[19].value),
        "+f"(sums[20].value), "+f"(sums[21].value), "+f"(sums[22].value), "+f"(sums[23].value),
        "+f"(sums[24].value), "+f"(sums[25].value), "+f"(sums[26].value), "+f"(sums[27].value),
        "+f"(sums[28].value), "+f"(sums[29].value), "+f"(sums[30].value), "+f"(sums[31].value),
        "+f"(sums[32].value), "+f"(sums[33].value), "+f"(sums[34].value), "+f"(sums[35].value),
        "+f"(sums[36].value), "+f"(sums[37].value), "+f"(sums[38].value), "+f"(sums[39].value),
        "+f"(sums[40].value), "+f"(sums[41].value), "+f"(sums[42].value), "+f"(sums[43].value),
        "+f"(sums[44].value), "+f"(sums[45].value), "+f"(sums[46].value), "+f"(sums[47].value),
        "+f"(sums[48].value), "+f"(sums[49].value), "+f"(sums[50].value), "+f"(sums[51].value),
        "+f"(sums[52].value), "+f"(sums[53].value), "+f"(sums[54].value), "+f"(sums[55].value),
        "+f"(sums[56].value), "+f"(sums[57].value), "+f"(sums[58].value), "+f"(sums[59].value),
        "+f"(sums[60].value), "+f"(sums[61].value), "+f"(sums[62].value), "+f"(sums[63].value)
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

__device__ __forceinline__ void multiply(E4m3Sum (&sums)[128], const std::uint32_t (&left)[4],
                                         std::uint64_t right, bool add) {
  asm volatile(
      "{ .reg .pred added;\n"
      "setp.ne.b32 added, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
      "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, "
      "%87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, "
      "%103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, "
      "%117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, {%128, %129, %130, %131}, %132, added, 1, 1; }"
      : "+f"(sums[0].value), "+f"(sums[1].value), "+f"(sums[2].value), "+f"(sums[3].value),
        "+f"(sums[4].value), "+f"(sums[5].value), "+f"(sums[6].value), "+f"(sums[7].value),
        "+f"(sums[8].value), "+f"(sums[9].value), "+f"(sums[10].value), "+f"(sums[11].value),
        "+f"(sums[12].value), "+f"(sums[13].value), "+f"(sums[14].value), "+f"(sums[15].value),
        "+f"(sums[16].value), "+f"(sums[17].value), "+f"(sums[18].value), "+f"(sums[19].value),
        "+f"(sums[20].value), "+f"(sums[21].value), "+f"(sums[22].value), "+f"(sums[23].value),
        "+f"(sums[24].value), "+f"(sums[25].value), "+f"(sums[26].value), "+f"(sums[27].value),
        "+f"(sums[28].value), "+f"(sums[29].value), "+f"(sums[30].value), "+f"(sums[31].value),
        "+f"(sums[32].value), "+f"(sums[33].value), "+f"(sums[34].value), "+f"(sums[35].value),
        "+f"(sums[36].value), "+f"(sums[37].value), "+f"(sums[38].value), "+f"(sums[39].value),
        "+f"(sums[40].value), "+f"(sums[41].value), "+f"(sums[42].value), "+f"(sums[43].value),
        "+f"(sums[44].value), "+f"(sums[45].value), "+f"(sums[46].value), "+f"(sums[47].value),
        "+f"(sums[48].value), "+f"(sums[49].value), "+f"(sums[50].value), "+f"(sums[51].value),
        "+f"(sums[52].value), "+f"(sums[53].value), "+f"(sums[54].value), "+f"(sums[55].value),
        "+f"(sums[56].value), "+f"(sums[57].value), "+f"(sums[58].value), "+f"(sums[59].value),
        "+f"(sums[60].value), "+f"(sums[61].value), "+f"(sums[62].value), "+f"(sums[63].value),
        "+f"(sums[64].value), "+f"(sums[65].value), "+f"(sums[66].value), "+f"(sums[67].value),
        "+f"(sums[68].value), "+f"(sums[69].value), "+f"(sums[70].value), "+f"(sums[71].value),
        "+f"(sums[72].value), "+f"(sums[73].value), "+f"(sums[74].value), "+f"(sums[75].value),
        "+f"(sums[76].value), "+f"(sums[77].value), "+f"(sums[78].value), "+f"(sums[79].value),
        "+f"(sums[80].value), "+f"(sums[81].value), "+f"(sums[82].value), "+f"(sums[83].value),
        "+f"(sums[84].value), "+f"(sums[85].value), "+f"(sums[86].value), "+f"(sums[87].value),
        "+f"(sums[88].value), "+f"(sums[89].value), "+f"(sums[90].value), "+f"(sums[91].value),
        "+f"(sums[92].value), "+f"(sums[93].value), "+f"(sums[94].value), "+f"(sums[95].value),
        "+f"(sums[96].value), "+f"(sums[97].value), "+f"(sums[98].value), "+f"(sums[99].value),
        "+f"(sums[100].value), "+f"(sums[101].value), "+f"(sums[102].value), "+f"(sums[103].value),
        "+f"(sums[104].value), "+f"(sums[105].value), "+f"(sums[106].value), "+f"(sums[107].value),
        "+f"(sums[108].value), "+f"(sums[109].value), "+f"(sums[110].value), "+f"(sums[111].value),
        "+f"(sums[112].value), "+f"(sums[113].value), "+f"(sums[114].value), "+f"(sums[115].value),
        "+f"(sums[116].value), "+f"(sums[117].value), "+f"(sums[118].value), "+f"(sums[119].value),
        "+f"(sums[120].value), "+f"(sums[121].value), "+f"(sums[122].value), "+f"(sums[123].value),
        "+f"(sums[124].value), "+f"(sums[125].value), "+f"(sums[126].value), "+f"(sums[127].value)
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
        "r"(static_cast<int>(add)));
}

#endif

}  // namespace nibble::ops::cuda
