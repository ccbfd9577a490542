// Selects a mutant of the RTL for the whole run (rtl/mutate.sh).
#include <cstdlib>

extern "C" int nf_mutant() {
  const char* number = std::getenv("NF_MUTANT");
  return number == nullptr ? 0 : std::atoi(number);
}
