#include "runtime/text_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace nf {

Expected<std::string> read_text_file(const std::string& path, std::size_t max_bytes) {
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  // Until the end of the file or the limit.
  while (file && text.size() <= max_bytes) {
    const std::size_t held = text.size();
    text.resize(held + kPiece);
    file.read(text.data() + held, static_cast<std::streamsize>(kPiece));
    text.resize(held + static_cast<std::size_t>(file.gcount()));
  }
  if (text.size() > max_bytes) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("{}: larger than {} MiB", path, max_bytes >> 20));
  }
  if (!file.eof()) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("{}: cannot read the file: {}", path, std::strerror(errno)));
  }
  return text;
}

}  // namespace nf
