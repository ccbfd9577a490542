// make_corpus FOLDER: writes the seeds of the fuzzers: valid inputs that reach deep into the code.
// The functions at the end of each fuzz_*.cc define their layout.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <type_traits>

#include "check.h"
#include "codec_forms.h"
#include "neuron_fabric/wire_frame.h"

namespace nf::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

class Seed {
 public:
  template <typename Number>
  requires std::is_arithmetic_v<Number> Seed& add(Number number) {
    return add(std::as_bytes(std::span(&number, 1)));
  }
  Seed& add(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  void write(const std::filesystem::path& folder, const std::string& name) const {
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes_.data()),
               static_cast<std::streamsize>(bytes_.size()));
  }

 private:
  Bytes bytes_;
};

std::vector<float> values_of(std::size_t count) {
  std::vector<float> values(count);
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
  }
  return values;
}

std::string file_name(std::string spelling) {
  for (char& c : spelling) {
    if (c == ':' || c == '+' || c == '=') c = '_';
  }
  return spelling;
}

// Two valid messages per codec.
void write_decode_seeds(const std::filesystem::path& folder) {
  constexpr std::uint16_t kCount = 290;
  const std::vector<float> values = values_of(kCount);
  const auto codecs = all_forms();
  for (std::size_t index = 0; index < codecs.size(); ++index) {
    const Codec& codec = *codecs[index].forms.front().codec;
    Bytes statistics(codec.statistics_size(kCount));
    std::vector<std::uint8_t> widths(codec.width_count(kCount));
    NF_FUZZ_CHECK(codec.statistics(ConstValues(values), statistics).ok(), "statistics");
    const std::span<const std::byte> by_rank[] = {statistics};
    Bytes combined(statistics.size());
    NF_FUZZ_CHECK(codec.combine_statistics(kCount, by_rank, combined).ok(), "combine");
    const WidthRequest request{kCount, combined, widths};
    NF_FUZZ_CHECK(codec.choose_widths({&request, 1}, {.ranks = 2}).ok(), "widths");
    const Slice slice{.count = kCount, .ranks = 2, .statistics = combined, .widths = widths};
    Bytes message(codec.encoded_size(slice, 1));
    NF_FUZZ_CHECK(codec.encode(slice, {7, 1}, ConstValues(values), message).ok(), "encode");
    Seed()
        .add(static_cast<std::uint8_t>(index))
        .add(std::uint8_t{0})  // flags: FP32, widths by choose_widths, whole message
        .add(kCount)
        .add(std::uint8_t{0})   // first
        .add(std::uint16_t{2})  // ranks
        .add(std::uint16_t{1})  // contributions
        .add(std::uint8_t{7})   // encoder
        .add(combined)
        .add(message)
        .add(std::uint16_t{1})  // contributions of the other message
        .add(message)
        .write(folder, file_name(codecs[index].spelling));
  }
}

// Values of several kinds per codec.
void write_differential_seeds(const std::filesystem::path& folder) {
  const auto codecs = all_forms();
  for (std::size_t index = 0; index < codecs.size(); ++index) {
    const auto count = static_cast<std::uint16_t>(290 + 31 * index % 300);
    std::vector<float> values = values_of(64);
    values[index % 64] = index % 3 == 0 ? NAN : index % 3 == 1 ? INFINITY : 1e-40f;
    Seed()
        .add(static_cast<std::uint8_t>(index))
        .add(static_cast<std::uint8_t>(index % 3))  // flags: type, widths by the input
        .add(count)
        .add(std::uint8_t{7})  // encoder
        .add(std::uint8_t{5})  // skew
        .add(Bytes(codecs[index].forms.front().codec->width_count(count), std::byte{3}))
        .add(std::as_bytes(std::span(values)))
        .write(folder, file_name(codecs[index].spelling));
  }
}

void write_frame_seeds(const std::filesystem::path& folder) {
  for (const bool checksummed : {false, true}) {
    const Bytes payload(20, std::byte{0x42});
    Bytes frame(kFrameHeaderBytes);
    write_frame_header(
        {.codec = codec_fingerprint("waterfill:4"), .epoch = 3, .checksummed = checksummed},
        payload, std::span<std::byte, kFrameHeaderBytes>(frame));
    Seed()
        .add(std::uint8_t{0})
        .add(frame)
        .add(payload)
        .write(folder, checksummed ? "checksummed" : "unchecked");
  }
  Seed()
      .add(std::uint8_t{1})
      .add(std::uint32_t{5})
      .add(std::uint64_t{6})
      .add(std::uint16_t{70})
      .add(Bytes(9, std::byte{1}))
      .write(folder, "damaged");
}

void write_spelling_seeds(const std::filesystem::path& folder) {
  for (const Forms& forms : all_forms()) {
    Seed().add(std::as_bytes(std::span(forms.spelling))).write(folder, file_name(forms.spelling));
  }
  const std::string several = "waterfill:1e2+alpha=0.5+width=4+ef";
  Seed().add(std::as_bytes(std::span(several))).write(folder, "several_options");
}

}  // namespace
}  // namespace nf::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_corpus FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  nf::fuzz::write_decode_seeds(folder / "fuzz_decode");
  nf::fuzz::write_differential_seeds(folder / "fuzz_differential");
  nf::fuzz::write_frame_seeds(folder / "fuzz_frame");
  nf::fuzz::write_spelling_seeds(folder / "fuzz_codec_spec");
  return 0;
}
