// The format: "\x93NUMPY", two bytes of version, the header length in two bytes (1.0) or four
// (2.0), the header, the values. The header is a Python dictionary on one line:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (8, 1000), }
#include "nf/support/npy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "nf/support/table.h"

namespace nf::cli {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are mapped from the file without conversion");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeaderBytes = 1 << 20;

Status bad(std::string message) { return {ErrorCode::kBadConfig, std::move(message)}; }

struct Mapping {
  std::shared_ptr<const std::byte> bytes;
  std::size_t size = 0;
};

Expected<Mapping> map_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return bad(fmt::format("cannot open the file: {}", std::strerror(errno)));
  struct stat status {};
  void* address = MAP_FAILED;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    address =
        mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  }
  const int reason = errno;
  ::close(file);
  if (!S_ISREG(status.st_mode)) return bad("not a regular file");
  if (status.st_size == 0) return bad("the file is empty");
  if (address == MAP_FAILED) {
    return bad(fmt::format("cannot map the file: {}", std::strerror(reason)));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  const auto unmap = [size](const std::byte* bytes) {
    munmap(const_cast<std::byte*>(bytes), size);
  };
  return Mapping{{static_cast<const std::byte*>(address), unmap}, size};
}

struct Header {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::size_t>> shape;
};

// Parses the dictionary from left to right. Every method returns false if the text does not match;
// the remaining text is then undefined.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  bool read(Header& header) {
    if (!take("{")) return false;
    while (!take("}")) {
      if (!entry(header)) return false;
      if (!take(",") && !ends_with_brace()) return false;
    }
    skip_spaces();
    return rest_.empty() && !header.descr.empty() && header.fortran_order && header.shape;
  }

 private:
  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
  }

  bool take(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  bool ends_with_brace() {
    skip_spaces();
    return rest_.starts_with('}');
  }

  bool entry(Header& header) {
    std::string key;
    if (!quoted(key) || !take(":")) return false;
    if (key == "descr") return header.descr.empty() && quoted(header.descr);
    if (key == "fortran_order") return !header.fortran_order && boolean(header.fortran_order);
    if (key == "shape") return !header.shape && tuple(header.shape.emplace());
    return false;
  }

  bool quoted(std::string& text) {
    if (!take("'")) return false;
    const std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos) return false;
    text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }

  bool boolean(std::optional<bool>& value) {
    if (take("True")) {
      value = true;
    } else if (take("False")) {
      value = false;
    }
    return value.has_value();
  }

  bool tuple(std::vector<std::size_t>& sizes) {
    if (!take("(")) return false;
    while (!take(")")) {
      skip_spaces();
      std::size_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc()) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      sizes.push_back(size);
      skip_spaces();
      if (!take(",") && !rest_.starts_with(')')) return false;
    }
    return true;
  }

  std::string_view rest_;
};

std::string shape_text(const std::vector<std::size_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

struct Layout {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t start = 0;  // offset of the values
};

Status check(const Header& header) {
  if (header.descr != "<f4") {
    return bad(fmt::format("the values are '{}'; expected '<f4' (little-endian float32)",
                           printable(header.descr)));
  }
  if (*header.fortran_order) {
    return bad("Fortran order is not supported; save numpy.ascontiguousarray(array)");
  }
  if (header.shape->size() != 2) {
    return bad(
        fmt::format("the shape is {}; expected (ranks, elements)", shape_text(*header.shape)));
  }
  return {};
}

Expected<Layout> parse(std::string_view file) {
  if (!file.starts_with(kMagic) || file.size() < kMagic.size() + 4) {
    return bad("not a .npy file");
  }
  const auto byte = [&](std::size_t at) {
    return std::size_t{static_cast<unsigned char>(file[kMagic.size() + at])};
  };
  if (byte(1) != 0 || (byte(0) != 1 && byte(0) != 2)) {
    return bad(
        fmt::format(".npy version {}.{} is not supported; expected 1.0 or 2.0", byte(0), byte(1)));
  }
  const std::size_t length_bytes = byte(0) == 1 ? 2 : 4;
  const std::size_t text_at = kMagic.size() + 2 + length_bytes;
  if (file.size() < text_at) return bad("the header is truncated");
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= byte(2 + i) << 8 * i;
  if (length > kMaxHeaderBytes) {
    return bad(
        fmt::format("the header has {} bytes; at most {} are supported", length, kMaxHeaderBytes));
  }
  if (file.size() - text_at < length) return bad("the header is truncated");
  const std::string_view text = file.substr(text_at, length);
  Header header;
  if (!HeaderReader(text).read(header)) {
    return bad(fmt::format("malformed header {}", printable(std::string(text.substr(0, 200)))));
  }
  NF_RETURN_IF_ERROR(check(header));
  const Layout layout{(*header.shape)[0], (*header.shape)[1], text_at + length};
  if (layout.start % alignof(float) != 0) {
    return bad(
        fmt::format("the values start at byte {}, which is not a multiple of 4", layout.start));
  }
  const std::size_t held = (file.size() - layout.start) / sizeof(float);
  const std::size_t rest = (file.size() - layout.start) % sizeof(float);
  const bool overflows =
      layout.columns != 0 &&
      layout.rows > std::numeric_limits<std::size_t>::max() / sizeof(float) / layout.columns;
  if (overflows || held != layout.rows * layout.columns || rest != 0) {
    return bad(fmt::format("the shape is {}, but the file has {} bytes of values",
                           shape_text(*header.shape), file.size() - layout.start));
  }
  return layout;
}

}  // namespace

Expected<NpyArray> NpyArray::open(const std::string& path) {
  const auto in_file = [&](const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", path, status.message()));
  };
  Expected<Mapping> file = map_file(path);
  if (!file) return in_file(file.status());
  const Expected<Layout> layout =
      parse({reinterpret_cast<const char*>(file->bytes.get()), file->size});
  if (!layout) return in_file(layout.status());
  NpyArray array;
  array.values_ = reinterpret_cast<const float*>(file->bytes.get() + layout->start);
  array.rows_ = layout->rows;
  array.columns_ = layout->columns;
  array.file_ = std::move(file->bytes);
  return array;
}

}  // namespace nf::cli
