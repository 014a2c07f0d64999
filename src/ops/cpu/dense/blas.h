#pragma once

#include <type_traits>

#include <cblas.h>

namespace nibble::ops::cpu {

/// The routines of OpenBLAS that Nibble calls. Each runs in the calling thread: it is one worker's
/// part of a loop of the pool. Matrices of the LAPACK routines are column-major and everything is
/// passed by address; OpenBLAS reads one character of `uplo` and no hidden length of it.
struct Blas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_ssymm) ssymm;
  decltype(&cblas_sgemv) sgemv;
  decltype(&cblas_saxpy) saxpy;

  /// a [n, n], symmetric positive definite, becomes its Cholesky factor. info > 0: it is not
  /// positive definite.
  void (*dpotrf)(const char* uplo, const int* n, double* a, const int* lda, int* info);
  /// a, a Cholesky factor, becomes the inverse of the matrix that it is a factor of.
  void (*dpotri)(const char* uplo, const int* n, double* a, const int* lda, int* info);
  /// b [n, nrhs] becomes A^-1 b, a being the Cholesky factor of A.
  void (*dpotrs)(const char* uplo, const int* n, const int* nrhs, const double* a, const int* lda,
                 double* b, const int* ldb, int* info);

  decltype(&openblas_get_corename) corename;
};

static_assert(std::is_same_v<blasint, int>,
              "this OpenBLAS takes integers of 64 bits (ILP64); build with the LP64 one");

/// OpenBLAS, opened when it is first wanted: no other command waits for it or gives it memory, and
/// it starts no threads of its own. Puts right its choice of kernels: an OpenBLAS that is older
/// than the CPU takes it for one without AVX and runs ten times slower; OPENBLAS_CORETYPE in the
/// environment keeps its say. Throws kFailed where it is not installed, and kOutOfMemory.
const Blas& blas();

/// Takes the memory in which so many calls work side by side; later calls find it. Without, a call
/// that gets none asks for it in an endless loop. While no other thread is in a call. Throws
/// kOutOfMemory.
void reserve_blas_memory(int threads);

}  // namespace nibble::ops::cpu
