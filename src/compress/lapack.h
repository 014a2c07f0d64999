#pragma once

#include <type_traits>

#include <cblas.h>

/// The routines of LAPACK that passes call, as OpenBLAS provides them; nothing else declares any.
/// Matrices are column-major, names and arguments those of Fortran: everything by address, integers
/// 32 bits wide. OpenBLAS reads one character of `uplo` and no hidden length of it.
static_assert(std::is_same_v<blasint, int>,
              "this OpenBLAS takes integers of 64 bits (ILP64); build with the LP64 one");

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
/// a [n, n], symmetric positive definite, becomes its Cholesky factor. info > 0: it is not positive
/// definite.
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);

/// a, a Cholesky factor, becomes the inverse of the matrix that it is a factor of.
void dpotri_(const char* uplo, const int* n, double* a, const int* lda, int* info);

/// b [n, nrhs] becomes A^-1 b, a being the Cholesky factor of A.
void dpotrs_(const char* uplo, const int* n, const int* nrhs, const double* a, const int* lda,
             double* b, const int* ldb, int* info);
}
// NOLINTEND(readability-identifier-naming)
