#include "runtime/text_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace nf {

Expected<std::string> read_text_file(const std::string& path, std::size_t most_bytes) {
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  // Until there is no more, or one byte too many.
  while (file && text.size() <= most_bytes) {
    const std::size_t held = text.size();
    text.resize(held + kPiece);
    file.read(text.data() + held, static_cast<std::streamsize>(kPiece));
    text.resize(held + static_cast<std::size_t>(file.gcount()));
  }
  if (text.size() > most_bytes) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("{}: larger than {} MiB", path, most_bytes >> 20));
  }
  if (!file.eof()) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("{}: cannot read it: {}", path, std::strerror(errno)));
  }
  return text;
}

}  // namespace nf
