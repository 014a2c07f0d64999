#pragma once

/// What the CPU can do and the operating system has enabled (x86-64: CPUID and XGETBV; 64-bit ARM:
/// the auxiliary vector).
namespace nibble::ops::cpu {

struct CpuFeatures {
  // x86-64
  bool avx2 = false;        // with FMA and F16C
  bool avxvnni = false;     // 256-bit VNNI in VEX encoding, with all of avx2
  bool avx512 = false;      // F, BW, DQ, VL, with all of avx2
  bool avx512vnni = false;  // with all of avx512
  bool avx512vbmi = false;  // byte permutations of whole vectors, with all of avx512vnni
  bool amxint8 = false;    // tiles and their 8-bit products, with all of avx512vbmi; a program must
                           // still ask Linux for the registers
  bool amxbf16 = false;    // products of BF16 in tiles, with all of amxint8
  bool halves512 = false;  // takes two turns for a vector of avx512 (Zen 4)

  // 64-bit ARM
  bool dotprod = false;  // SDOT and UDOT of vectors (FEAT_DotProd)
  bool i8mm = false;     // USDOT, USMMLA and their like (FEAT_I8MM), which implies nothing else
};

/// Asked once; those of other processor families are false.
const CpuFeatures& cpu_features();

}  // namespace nibble::ops::cpu
