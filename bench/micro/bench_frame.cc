// The overhead of a frame: the checksum, writing the header and opening the frame, with and without
// a checksum of the payload. Bytes per second are those of the payload, if the time depends on it.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/checksum.h"
#include "neuron_fabric/wire_frame.h"

namespace nf {
namespace {

constexpr std::uint64_t kEpoch = 1;

// A frame of `size` bytes of payload with arbitrary contents.
Buffer filled_frame(std::size_t size) {
  Buffer frame(kFrameHeaderBytes + size);
  std::uint8_t next = 0;
  for (std::byte& byte : frame.bytes()) byte = static_cast<std::byte>(next += 37);
  return frame;
}

FrameHeader header(bool checksummed) {
  return {.codec = codec_fingerprint("waterfill:4"), .epoch = kEpoch, .checksummed = checksummed};
}

void write(const FrameHeader& header, Buffer& frame) {
  write_frame_header(header, frame.bytes().subspan(kFrameHeaderBytes),
                     frame.bytes().first<kFrameHeaderBytes>());
}

void count_payload(benchmark::State& state) {
  state.SetBytesProcessed(state.range(0) * static_cast<std::int64_t>(state.iterations()));
}

void bench_checksum(benchmark::State& state) {
  const Buffer frame = filled_frame(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(checksum(frame.bytes().subspan(kFrameHeaderBytes)));
  }
  count_payload(state);
}

void bench_write_header(benchmark::State& state) {
  Buffer frame = filled_frame(static_cast<std::size_t>(state.range(0)));
  const FrameHeader made = header(state.range(1) != 0);
  for (auto _ : state) {
    write(made, frame);
    benchmark::ClobberMemory();
  }
  if (made.checksummed) count_payload(state);
}

void bench_open_frame(benchmark::State& state) {
  Buffer frame = filled_frame(static_cast<std::size_t>(state.range(0)));
  const FrameHeader made = header(state.range(1) != 0);
  write(made, frame);
  for (auto _ : state) {
    const auto payload = open_frame(frame.bytes(), made.codec, kEpoch);
    if (!payload) {
      state.SkipWithError(payload.status().message().c_str());
      return;
    }
    benchmark::DoNotOptimize(payload->data());
  }
  if (made.checksummed) count_payload(state);
}

const std::vector<std::int64_t> kSizes{1 << 10, 1 << 16, 1 << 20, 1 << 24};

BENCHMARK(bench_checksum)->ArgName("bytes")->ArgsProduct({kSizes});
BENCHMARK(bench_write_header)->ArgNames({"bytes", "checksum"})->ArgsProduct({kSizes, {0, 1}});
BENCHMARK(bench_open_frame)->ArgNames({"bytes", "checksum"})->ArgsProduct({kSizes, {0, 1}});

}  // namespace
}  // namespace nf

BENCHMARK_MAIN();
