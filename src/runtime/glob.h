// Patterns on names: `*` is any text, dots too, `?` any one byte, and everything else is itself.
#pragma once

#include <string_view>

namespace nf {

// Whether the pattern matches the whole name. Takes at most pattern.size() * name.size() steps,
// whatever the pattern.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace nf
