// Patterns for names: `*` matches any text including dots, `?` any single byte, all else itself.
#pragma once

#include <string_view>

namespace nf {

// Whether the pattern matches the whole name. Takes at most pattern.size() * name.size() steps for
// any pattern.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace nf
