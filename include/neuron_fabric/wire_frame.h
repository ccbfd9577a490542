// A frame wraps one message: 32 bytes of header, then the payload (docs/wire_format.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "neuron_fabric/status.h"

namespace nf {

inline constexpr std::size_t kFrameHeaderBytes = 32;

struct FrameHeader {
  std::uint32_t codec = 0;   // codec_fingerprint() of the spelling
  std::uint64_t epoch = 0;   // the epoch of the decisions in effect when the frame was encoded
  std::uint64_t length = 0;  // payload bytes
  bool checksummed = true;

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

// A hash of a codec spec, the same on every host. Different specs have different fingerprints with
// high probability.
std::uint32_t codec_fingerprint(std::string_view spelling);

// Writes the header of `payload` to `out`. Ignores header.length and uses the payload's size.
void write_frame_header(FrameHeader header, std::span<const std::byte> payload,
                        std::span<std::byte, kFrameHeaderBytes> out);

// Reads a header without its payload, so that a receiver knows the payload's length. Fails if the
// header is truncated or damaged, if its magic number, version or flags are unknown, or if its
// flags contradict its checksum.
Expected<FrameHeader> read_frame_header(std::span<const std::byte> bytes);

// Checks a whole frame (header and payload, nothing else) and returns its payload. Fails with
// kForeignFrame if the codec or the epoch differs from the expected one, and with kCorruptFrame if
// the length or the checksum is wrong.
Expected<std::span<const std::byte>> open_frame(std::span<const std::byte> frame,
                                                std::uint32_t codec, std::uint64_t epoch);

}  // namespace nf
