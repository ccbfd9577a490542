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
  std::uint64_t epoch = 0;   // of the decisions this frame was made under
  std::uint64_t length = 0;  // payload bytes
  bool checksummed = true;

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

// The same for the same spelling everywhere; distinct spellings differ with high probability.
std::uint32_t codec_fingerprint(std::string_view spelling);

// Writes the header for `payload` into `out`; header.length is taken from the payload.
void write_frame_header(FrameHeader header, std::span<const std::byte> payload,
                        std::span<std::byte, kFrameHeaderBytes> out);

// Reads a header alone, so that a receiver knows how much follows. Fails on truncation, a foreign
// magic number or version, flags that are unknown or do not fit, or a damaged header.
Expected<FrameHeader> read_frame_header(std::span<const std::byte> bytes);

// Checks a whole frame (header and payload, nothing after) against what the receiver expects and
// returns its payload. Fails with kForeignFrame on another codec or epoch and with kCorruptFrame
// on a wrong length or checksum.
Expected<std::span<const std::byte>> open_frame(std::span<const std::byte> frame,
                                                std::uint32_t codec, std::uint64_t epoch);

}  // namespace nf
