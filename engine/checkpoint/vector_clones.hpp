// Functions whose loops are compiled once for every machine and once for those with AVX2; the loader picks one.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MUSTER_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define MUSTER_VECTOR_CLONES
#endif
