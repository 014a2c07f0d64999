#pragma once

/// The operands of the products of a warpgroup (wgmma.cuh), whose registers inline assembly wants
/// one by one: lists for 8 to 128 of them, and macros that make a function for each list.

/// The names of the first registers of a statement.
#define NIBBLE_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NIBBLE_NAMES_16 \
  NIBBLE_NAMES_8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NIBBLE_NAMES_32                      \
  NIBBLE_NAMES_16                            \
  ", %16, %17, %18, %19, %20, %21, %22, %23" \
  ", %24, %25, %26, %27, %28, %29, %30, %31"
#define NIBBLE_NAMES_64                      \
  NIBBLE_NAMES_32                            \
  ", %32, %33, %34, %35, %36, %37, %38, %39" \
  ", %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55" \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define NIBBLE_NAMES_96                      \
  NIBBLE_NAMES_64                            \
  ", %64, %65, %66, %67, %68, %69, %70, %71" \
  ", %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87" \
  ", %88, %89, %90, %91, %92, %93, %94, %95"
#define NIBBLE_NAMES_128                             \
  NIBBLE_NAMES_96                                    \
  ", %96, %97, %98, %99, %100, %101, %102, %103"     \
  ", %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119" \
  ", %120, %121, %122, %123, %124, %125, %126, %127"

/// R(0), R(1), ...: what R makes of the number of each sum.
#define NIBBLE_SUMS_8(R) R(0), R(1), R(2), R(3), R(4), R(5), R(6), R(7)
#define NIBBLE_SUMS_16(R) NIBBLE_SUMS_8(R), R(8), R(9), R(10), R(11), R(12), R(13), R(14), R(15)
#define NIBBLE_SUMS_32(R)                                                                         \
  NIBBLE_SUMS_16(R), R(16), R(17), R(18), R(19), R(20), R(21), R(22), R(23), R(24), R(25), R(26), \
      R(27), R(28), R(29), R(30), R(31)
#define NIBBLE_SUMS_64(R)                                                                         \
  NIBBLE_SUMS_32(R), R(32), R(33), R(34), R(35), R(36), R(37), R(38), R(39), R(40), R(41), R(42), \
      R(43), R(44), R(45), R(46), R(47), R(48), R(49), R(50), R(51), R(52), R(53), R(54), R(55),  \
      R(56), R(57), R(58), R(59), R(60), R(61), R(62), R(63)
#define NIBBLE_SUMS_96(R)                                                                         \
  NIBBLE_SUMS_64(R), R(64), R(65), R(66), R(67), R(68), R(69), R(70), R(71), R(72), R(73), R(74), \
      R(75), R(76), R(77), R(78), R(79), R(80), R(81), R(82), R(83), R(84), R(85), R(86), R(87),  \
      R(88), R(89), R(90), R(91), R(92), R(93), R(94), R(95)
#define NIBBLE_SUMS_128(R)                                                                       \
  NIBBLE_SUMS_96(R), R(96), R(97), R(98), R(99), R(100), R(101), R(102), R(103), R(104), R(105), \
      R(106), R(107), R(108), R(109), R(110), R(111), R(112), R(113), R(114), R(115), R(116),    \
      R(117), R(118), R(119), R(120), R(121), R(122), R(123), R(124), R(125), R(126), R(127)

/// What a product is given behind its sums: registers of the left operand, the description of the
/// right one, and whether it adds.
#define NIBBLE_WGMMA_OPERANDS \
  "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(static_cast<int>(add))

/// The statement: `shape` is of m64, `count` the number of sums, behind which the operands above
/// have the numbers l0 to `added`; `flags` follow.
#define NIBBLE_WGMMA_TEXT(shape, count, l0, l1, l2, l3, right, added, flags) \
  "{ .reg .pred added;\n"                                                    \
  "setp.ne.b32 added, %" #added                                              \
  ", 0;\n"                                                                   \
  "wgmma.mma_async.sync.aligned.m64n" shape " {" NIBBLE_NAMES_##count        \
      "}, {%" #l0 ", %" #l1 ", %" #l2 ", %" #l3 "}, %" #right ", added" flags "; }"

/// The same of a sparse product, whose indices are operand `indices`; `selector` is a literal.
#define NIBBLE_SPARSE_WGMMA_TEXT(shape, count, l0, l1, l2, l3, right, added, indices, selector, \
                                 flags)                                                         \
  "{ .reg .pred added;\n"                                                                       \
  "setp.ne.b32 added, %" #added                                                                 \
  ", 0;\n"                                                                                      \
  "wgmma.mma_async.sp.sync.aligned.m64n" shape " {" NIBBLE_NAMES_##count                        \
      "}, {%" #l0 ", %" #l1 ", %" #l2 ", %" #l3 "}, %" #right ", %" #indices ", " selector      \
      ", added" flags "; }"

/// M(columns, sums of a lane, numbers of the operands behind them and of one more) for each size.
#define NIBBLE_EACH_WGMMA(M)                \
  M(16, 8, 8, 9, 10, 11, 12, 13, 14)        \
  M(32, 16, 16, 17, 18, 19, 20, 21, 22)     \
  M(64, 32, 32, 33, 34, 35, 36, 37, 38)     \
  M(128, 64, 64, 65, 66, 67, 68, 69, 70)    \
  M(192, 96, 96, 97, 98, 99, 100, 101, 102) \
  M(256, 128, 128, 129, 130, 131, 132, 133, 134)
