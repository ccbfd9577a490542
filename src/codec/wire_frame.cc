#include "neuron_fabric/wire_frame.h"

#include <fmt/format.h>

#include <cstring>

#include "base/checksum.h"

namespace nf {
namespace {

// The header, little-endian, by byte offset:
//   0  u16 magic, 2 u8 version, 3 u8 flags, 4 u32 codec, 8 u64 epoch, 16 u64 length,
//   24 u32 checksum of the payload (0 if not checksummed), 28 u32 checksum of bytes 0 to 27
constexpr std::uint16_t kMagic = 0x464e;  // "NF"
constexpr std::uint8_t kFormatVersion = 1;
constexpr std::uint8_t kChecksummed = 1;
constexpr std::size_t kPayloadChecksumAt = 24;
constexpr std::size_t kHeaderChecksumAt = 28;

template <typename T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(bytes[at + i]) << (8 * i)));
  }
  return value;
}

template <typename T>
void put(T value, std::span<std::byte> bytes, std::size_t at) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

std::uint32_t short_checksum(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(checksum(bytes));
}

Status corrupt(std::string message) { return {ErrorCode::kCorruptFrame, std::move(message)}; }

}  // namespace

std::uint32_t codec_fingerprint(std::string_view spelling) {
  const std::uint64_t hash = checksum(spelling);
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

void write_frame_header(FrameHeader header, std::span<const std::byte> payload,
                        std::span<std::byte, kFrameHeaderBytes> out) {
  put(kMagic, out, 0);
  put(kFormatVersion, out, 2);
  put(header.checksummed ? kChecksummed : std::uint8_t{0}, out, 3);
  put(header.codec, out, 4);
  put(header.epoch, out, 8);
  put(std::uint64_t{payload.size()}, out, 16);
  put(header.checksummed ? short_checksum(payload) : 0u, out, kPayloadChecksumAt);
  put(short_checksum(out.first(kHeaderChecksumAt)), out, kHeaderChecksumAt);
}

Expected<FrameHeader> read_frame_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrameHeaderBytes) {
    return corrupt(fmt::format("frame of {} bytes is shorter than a header of {} bytes",
                               bytes.size(), kFrameHeaderBytes));
  }
  if (get<std::uint16_t>(bytes, 0) != kMagic) return corrupt("wrong magic number: not a frame");
  if (const auto version = get<std::uint8_t>(bytes, 2); version != kFormatVersion) {
    return Status(
        ErrorCode::kForeignFrame,
        fmt::format("frame of format version {}, this build reads {}", version, kFormatVersion));
  }
  if (get<std::uint32_t>(bytes, kHeaderChecksumAt) !=
      short_checksum(bytes.first(kHeaderChecksumAt))) {
    return corrupt("frame header fails its checksum");
  }
  const auto flags = get<std::uint8_t>(bytes, 3);
  if ((flags & ~kChecksummed) != 0) return corrupt(fmt::format("unknown frame flags {:#x}", flags));
  if (flags == 0 && get<std::uint32_t>(bytes, kPayloadChecksumAt) != 0) {
    return corrupt("frame payload checksum is set, but the checksum flag is not");
  }
  return FrameHeader{.codec = get<std::uint32_t>(bytes, 4),
                     .epoch = get<std::uint64_t>(bytes, 8),
                     .length = get<std::uint64_t>(bytes, 16),
                     .checksummed = flags == kChecksummed};
}

Expected<std::span<const std::byte>> open_frame(std::span<const std::byte> frame,
                                                std::uint32_t codec, std::uint64_t epoch) {
  const Expected<FrameHeader> header = read_frame_header(frame);
  if (!header) return header.status();
  const auto payload = frame.subspan(kFrameHeaderBytes);
  if (header->length != payload.size()) {
    return corrupt(fmt::format("frame has {} payload bytes, expected {} from its header",
                               payload.size(), header->length));
  }
  if (header->checksummed &&
      get<std::uint32_t>(frame, kPayloadChecksumAt) != short_checksum(payload)) {
    return corrupt("frame payload fails its checksum");
  }
  if (header->codec != codec) {
    return Status(ErrorCode::kForeignFrame,
                  fmt::format("frame of codec {:#010x}, expected {:#010x}", header->codec, codec));
  }
  if (header->epoch != epoch) {
    return Status(ErrorCode::kForeignFrame,
                  fmt::format("frame of epoch {}, expected {}", header->epoch, epoch));
  }
  return payload;
}

}  // namespace nf
