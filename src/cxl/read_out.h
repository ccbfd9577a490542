// Converts between the messages of the sign codecs and the lines of the reducer. The host does this
// before it writes and after it reads (docs/cxl.md#modes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/sign/sign_format.h"
#include "cxl/line.h"
#include "cxl/mode.h"

namespace nf::cxl {

// Bytes of the digits of one contribution, or of the codes of a sum, in a g_binary or g_ternary
// message of `count` values. They start at sign_codes_at(count).
std::size_t code_bytes(Mode mode, std::size_t count, std::uint32_t contributions);

// Gradient lines for the digits of `count` values.
std::size_t gradient_lines(Mode mode, std::size_t count);

// Gradient line `line` of the digits of one contribution. The last line is padded as the mode
// requires.
Line gradient_line(Mode mode, std::span<const std::byte> digits, std::size_t line);

// Converts the planes of gradient line `line` of a sum over `workers` to codes, and writes them to
// their place in `codes`, which has code_bytes() for `count` values. Values beyond `count` are left
// out. Precondition: at most eight planes.
void put_codes(Mode mode, std::uint32_t workers, std::span<const Line> planes, std::size_t line,
               std::size_t count, std::span<std::byte> codes);

}  // namespace nf::cxl
