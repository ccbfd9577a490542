// Frames: arbitrary bytes never open by accident, and a written frame opens unless it is damaged.
#include <cstring>

#include "check.h"
#include "input.h"
#include "neuron_fabric/wire_frame.h"

namespace nf::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

// A frame that opens equals the output of write_frame_header() for its fields.
void open_anything(const Bytes& frame) {
  const Expected<FrameHeader> header = read_frame_header(frame);
  if (!header) {
    NF_FUZZ_CHECK(!header.status().message().empty(), "no reason");
    NF_FUZZ_CHECK(!open_frame(frame, 0, 0), "opens without a header");
    return;
  }
  const auto payload = open_frame(frame, header->codec, header->epoch);
  if (!payload) return;
  NF_FUZZ_CHECK(payload->size() == header->length, "%zu bytes", payload->size());
  NF_FUZZ_CHECK(payload->size() + kFrameHeaderBytes == frame.size(), "%zu bytes", frame.size());
  Bytes again(kFrameHeaderBytes);
  write_frame_header(*header, *payload, std::span<std::byte, kFrameHeaderBytes>(again));
  NF_FUZZ_CHECK(std::memcmp(again.data(), frame.data(), kFrameHeaderBytes) == 0,
                "different header");
  NF_FUZZ_CHECK(!open_frame(frame, header->codec + 1, header->epoch), "opens for another codec");
  NF_FUZZ_CHECK(!open_frame(frame, header->codec, header->epoch + 1), "opens for another epoch");
}

void damage_one(Input input) {
  const FrameHeader header{.codec = input.number<std::uint32_t>(),
                           .epoch = input.number<std::uint64_t>(),
                           .checksummed = true};
  const auto bit = input.number<std::uint16_t>();
  const Bytes payload = input.bytes(input.size());
  Bytes frame(kFrameHeaderBytes);
  write_frame_header(header, payload, std::span<std::byte, kFrameHeaderBytes>(frame));
  frame.insert(frame.end(), payload.begin(), payload.end());
  NF_FUZZ_CHECK(open_frame(frame, header.codec, header.epoch), "rejects a valid frame");
  frame[bit / 8 % frame.size()] ^= static_cast<std::byte>(1u << bit % 8);
  NF_FUZZ_CHECK(!open_frame(frame, header.codec, header.epoch), "opens with bit %d flipped", bit);
}

}  // namespace
}  // namespace nf::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nf::fuzz::Input input(data, size);
  if (input.number<std::uint8_t>() % 2 == 0) {
    nf::fuzz::open_anything(input.bytes(input.size()));
  } else {
    nf::fuzz::damage_one(input);
  }
  return 0;
}
