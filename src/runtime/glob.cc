#include "runtime/glob.h"

namespace nf {

bool matches(std::string_view pattern, std::string_view name) {
  // After a mismatch, continue behind the last star and let it match one more byte. Earlier stars
  // never need to match more, because the last one can match it instead.
  std::size_t past_star = std::string_view::npos;
  std::size_t retry = 0;
  std::size_t p = 0;
  std::size_t n = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      past_star = ++p;
      retry = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (past_star != std::string_view::npos) {
      p = past_star;
      n = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace nf
