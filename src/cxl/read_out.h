// Between the messages of the sign codecs and the lines of the reducer: what a host does before it
// writes and after it has read (docs/cxl.md#modes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/sign/sign_format.h"
#include "cxl/line.h"
#include "cxl/mode.h"

namespace nf::cxl {

// Bytes of the digits of one contribution, or of the codes of a sum, in a g_binary or g_ternary
// message of `count` values. They begin at sign_codes_at(count).
std::size_t code_bytes(Mode mode, std::size_t count, std::uint32_t contributions);

// Gradient lines that the digits of so many values take.
std::size_t gradient_lines(Mode mode, std::size_t count);

// Gradient line `line` of the digits of one contribution; what is missing in the last line is as
// the mode wants it.
Line gradient_line(Mode mode, std::span<const std::byte> digits, std::size_t line);

// The codes of gradient line `line` of a sum of `workers`, from its planes, written to their place
// among `codes`, which has code_bytes() for `count` values. Values beyond the count are left out.
// Precondition: at most eight planes.
void put_codes(Mode mode, std::uint32_t workers, std::span<const Line> planes, std::size_t line,
               std::size_t count, std::span<std::byte> codes);

}  // namespace nf::cxl
