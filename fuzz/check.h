// Reports a finding: prints the failed condition and aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

#define NF_FUZZ_CHECK(condition, ...)                                      \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, __VA_ARGS__);                                   \
      std::fputc('\n', stderr);                                            \
      std::abort();                                                        \
    }                                                                      \
  } while (false)
