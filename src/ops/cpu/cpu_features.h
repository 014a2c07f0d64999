#pragma once

/// What the CPU can do and the operating system saves on a context switch (CPUID and XGETBV).
namespace nibble::ops::cpu {

struct CpuFeatures {
  bool avx2 = false;        // with FMA and F16C
  bool avxvnni = false;     // 256-bit VNNI in VEX encoding, with all of avx2
  bool avx512 = false;      // F, BW, DQ, VL, with all of avx2
  bool avx512vnni = false;  // with all of avx512
};

/// Asked once; all false on other architectures.
const CpuFeatures& cpu_features();

}  // namespace nibble::ops::cpu
