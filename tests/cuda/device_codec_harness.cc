#include "cuda/device_codec_harness.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <span>

#include "base/float16.h"
#include "cuda/device_codec.h"
#include "neuron_fabric/codec.h"
#include "support/generator.h"

namespace nf::test {
namespace {

constexpr std::byte kPoison{0xa5};
constexpr std::size_t kFence = 256;
// Behind the last piece of every message.
constexpr std::size_t kSlack = 1000;
// Of another batch, before this one in its table.
constexpr std::uint32_t kForeignBlocks = 3;

using Bytes = std::vector<std::byte>;

void expect_ok(const Status& status, const char* what) {
  EXPECT_TRUE(status.ok()) << what << ": " << to_string(status);
}

void expect_cuda(cudaError_t error) { EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

// Device memory with the contents of host memory.
class DeviceCopy {
 public:
  explicit DeviceCopy(std::span<const std::byte> bytes) : size_(bytes.size()) {
    expect_cuda(cudaMalloc(&memory_, std::max<std::size_t>(size_, 1)));
    expect_cuda(cudaMemcpy(memory_, bytes.data(), size_, cudaMemcpyHostToDevice));
  }
  template <typename T>
  explicit DeviceCopy(const std::vector<T>& items) : DeviceCopy(std::as_bytes(std::span(items))) {}
  ~DeviceCopy() { cudaFree(memory_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  Bytes bytes() const {
    Bytes copy(size_);
    expect_cuda(cudaMemcpy(copy.data(), memory_, size_, cudaMemcpyDeviceToHost));
    return copy;
  }

 private:
  void* memory_ = nullptr;
  std::size_t size_;
};

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  char two[4];
  for (const std::byte byte : bytes) {
    std::snprintf(two, sizeof two, "%02x ", std::to_integer<unsigned>(byte));
    text += two;
  }
  return text;
}

void expect_same(const char* what, std::span<const std::byte> actual,
                 std::span<const std::byte> expected) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const auto at = static_cast<std::size_t>(
      std::mismatch(actual.begin(), actual.end(), expected.begin()).first - actual.begin());
  if (at == actual.size()) return;
  const std::size_t wrong =
      actual.size() -
      static_cast<std::size_t>(std::inner_product(
          actual.begin(), actual.end(), expected.begin(), std::ptrdiff_t{0}, std::plus<>(),
          [](std::byte a, std::byte b) -> std::ptrdiff_t { return a == b ? 1 : 0; }));
  const std::size_t from = at / 8 * 8;
  const std::size_t size = std::min<std::size_t>(24, actual.size() - from);
  ADD_FAILURE() << what << ": " << wrong << " of " << actual.size()
                << " bytes differ, the first at " << at << "\n  device "
                << hex(actual.subspan(from, size)) << "\n  cpu    "
                << hex(expected.subspan(from, size));
}

// NaN has many forms in FP32, of which none is part of a format.
Bytes with_one_nan(Bytes values, DataType type) {
  if (type != DataType::kFloat32) return values;
  for (std::size_t at = 0; at + 4 <= values.size(); at += 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, values.data() + at, 4);
    if ((bits & kMagnitudeMask) <= kInfinityBits) continue;
    bits = 0x7fc00000u;
    std::memcpy(values.data() + at, &bits, 4);
  }
  return values;
}

struct Parameter {
  std::uint64_t key = 0;
  std::size_t count = 0;
  std::size_t first = 0;  // of the piece
  std::size_t held = 0;   // by the piece
  std::size_t at = 0;     // of its values in an arena, in bytes
  std::vector<Bytes> by_rank;
  Bytes statistics;
  std::vector<std::uint8_t> widths;       // of messages on their way
  std::vector<std::uint8_t> last_widths;  // of the finished sum
};

// Where the pieces of one message lie, on the host and for the device.
struct Layout {
  std::vector<std::uint64_t> piece_at;
  std::vector<std::size_t> sizes;
  std::vector<cuda::SuperGroupPlace> places;
  std::size_t size = 0;
};

class Check {
 public:
  explicit Check(const DeviceCase& test) : test_(test), random_(test.seed) {}

  void run() {
    auto codec = make_codec(test_.codec);
    ASSERT_TRUE(codec) << to_string(codec.status());
    codec_ = std::move(*codec);
    auto device = cuda::make_device_codec(*codec_);
    ASSERT_TRUE(device) << to_string(device.status());
    device_ = std::move(*device);
    make_parameters();
    check_statistics();
    choose_widths();
    check_messages();
  }

 private:
  void make_parameters() {
    std::size_t at = kFence;
    for (const TestPiece& piece : test_.pieces) {
      Parameter parameter;
      parameter.key = random_.bits();
      parameter.first = piece.granules_before * codec_->granule();
      parameter.held = piece.count;
      parameter.count = parameter.first + piece.count + piece.behind;
      parameter.at = at;
      for (std::uint32_t rank = 0; rank < test_.ranks; ++rank) {
        parameter.by_rank.push_back(make_values(random_, test_.type, test_.input, parameter.count));
      }
      at += (parameter.count * size_of(test_.type) + 2 * kFence) / kFence * kFence;
      parameters_.push_back(std::move(parameter));
    }
    arena_size_ = at + kFence;
  }

  std::size_t value_size() const { return size_of(test_.type); }

  // All parameters' values of one rank, poison between and behind them.
  Bytes arena(std::uint32_t rank) const {
    Bytes bytes(arena_size_, kPoison);
    for (const Parameter& parameter : parameters_) {
      std::copy(parameter.by_rank[rank].begin(), parameter.by_rank[rank].end(),
                bytes.begin() + static_cast<std::ptrdiff_t>(parameter.at));
    }
    return bytes;
  }

  std::uint32_t blocks_of(std::size_t count) const {
    return static_cast<std::uint32_t>((count + codec_->granule() - 1) / codec_->granule());
  }

  // The batch of all pieces, or of whole parameters, in an arena of the device.
  struct DeviceBatch {
    std::unique_ptr<DeviceCopy> pieces;
    std::unique_ptr<DeviceCopy> bounds;
    cuda::Batch batch;
  };
  bool has_bounds() const { return test_.has_bounds && codec_->width_count(1) > 0; }
  DeviceBatch batch_of(const DeviceCopy& arena, bool whole) const {
    std::vector<cuda::DevicePiece> pieces;
    const bool is_part = !whole && has_bounds();
    const cuda::DevicePiece foreign{
        .count = static_cast<std::uint32_t>(kForeignBlocks * codec_->granule())};
    if (is_part) pieces.push_back(foreign);
    std::uint32_t blocks = is_part ? kForeignBlocks : 0;
    std::size_t statistics_at = 0;
    for (const Parameter& parameter : parameters_) {
      const std::size_t first = whole ? 0 : parameter.first;
      const std::size_t count = whole ? parameter.count : parameter.held;
      pieces.push_back({.values = arena.as<std::byte>() + parameter.at + first * value_size(),
                        .statistics = statistics_ == nullptr
                                          ? nullptr
                                          : statistics_->as<std::byte>() + statistics_at +
                                                codec_->statistics_size(first),
                        .parameter = parameter.key,
                        .first = first,
                        .count = static_cast<std::uint32_t>(count),
                        .first_block = blocks});
      blocks += blocks_of(count);
      statistics_at += codec_->statistics_size(parameter.count);
    }
    cuda::BatchBounds bounds{.piece_count = static_cast<std::uint32_t>(parameters_.size())};
    if (is_part) {
      bounds.first_piece = 1;
      bounds.first_block = kForeignBlocks;
      bounds.blocks = blocks - kForeignBlocks;
      pieces.push_back(foreign);
      pieces.back().first_block = blocks;
    }
    DeviceBatch result{std::make_unique<DeviceCopy>(pieces),
                       std::make_unique<DeviceCopy>(std::vector{bounds}),
                       {}};
    result.batch = {.pieces = result.pieces->as<cuda::DevicePiece>(),
                    .piece_count = static_cast<std::uint32_t>(pieces.size()),
                    .blocks = blocks,
                    .type = test_.type,
                    .seed = kSeed,
                    .step = kStep,
                    .ranks = test_.ranks,
                    .bounds = is_part ? result.bounds->as<cuda::BatchBounds>() : nullptr};
    return result;
  }

  void check_statistics() {
    std::size_t size = 0;
    for (Parameter& parameter : parameters_) {
      parameter.statistics.resize(codec_->statistics_size(parameter.count));
      size += parameter.statistics.size();
    }
    if (codec_->statistics_size(1) == 0) return;
    Bytes by_rank;
    for (std::uint32_t rank = 0; rank < test_.ranks; ++rank) {
      const std::size_t start = by_rank.size();
      for (const Parameter& parameter : parameters_) {
        Bytes own(parameter.statistics.size());
        expect_ok(
            codec_->statistics({parameter.by_rank[rank].data(), parameter.count, test_.type}, own),
            "statistics");
        by_rank.insert(by_rank.end(), own.begin(), own.end());
      }
      const DeviceCopy values(arena(rank));
      const DeviceCopy out(Bytes(size + kFence, kPoison));
      const DeviceBatch whole = batch_of(values, true);
      expect_ok(device_->statistics(whole.batch, out.as<std::byte>(), nullptr), "statistics");
      Bytes expected(by_rank.begin() + static_cast<std::ptrdiff_t>(start), by_rank.end());
      expected.resize(size + kFence, kPoison);
      expect_same("statistics", out.bytes(), expected);
    }
    Bytes combined;
    std::size_t at = 0;
    for (Parameter& parameter : parameters_) {
      std::vector<std::span<const std::byte>> own;
      for (std::uint32_t rank = 0; rank < test_.ranks; ++rank) {
        own.push_back(std::span(by_rank).subspan(rank * size + at, parameter.statistics.size()));
      }
      expect_ok(codec_->combine_statistics(parameter.count, own, parameter.statistics),
                "combine_statistics");
      combined.insert(combined.end(), parameter.statistics.begin(), parameter.statistics.end());
      at += parameter.statistics.size();
    }
    {
      const DeviceCopy values(arena(0));
      const DeviceCopy in(by_rank);
      const DeviceCopy out(Bytes(size + kFence, kPoison));
      const DeviceBatch whole = batch_of(values, true);
      expect_ok(device_->combine_statistics(whole.batch, test_.ranks, in.as<std::byte>(), size,
                                            out.as<std::byte>(), nullptr),
                "combine_statistics");
      Bytes expected = combined;
      expected.resize(size + kFence, kPoison);
      expect_same("combine_statistics", out.bytes(), expected);
    }
    statistics_ = std::make_unique<DeviceCopy>(combined);
  }

  void choose_widths() {
    if (codec_->width_count(1) == 0) return;
    std::vector<std::size_t> counts;
    for (const Parameter& parameter : parameters_) counts.push_back(parameter.count);
    const std::size_t capacity = codec_->payload_capacity(counts);
    for (const bool last : {false, true}) {
      std::vector<WidthRequest> requests;
      for (Parameter& parameter : parameters_) {
        auto& widths = last ? parameter.last_widths : parameter.widths;
        widths.resize(codec_->width_count(parameter.count));
        requests.push_back({parameter.count, parameter.statistics, widths});
      }
      expect_ok(codec_->choose_widths(requests, {.ranks = test_.ranks},
                                      last ? capacity + capacity / 4 : capacity),
                "choose_widths");
    }
  }

  Slice slice(const Parameter& parameter, bool last) const {
    return {.seed = kSeed,
            .step = kStep,
            .parameter = parameter.key,
            .first = parameter.first,
            .count = parameter.held,
            .ranks = test_.ranks,
            .statistics = parameter.statistics,
            .widths = last ? parameter.last_widths : parameter.widths};
  }

  Layout layout(std::uint32_t contributions, bool last) const {
    Layout layout;
    if (has_bounds()) layout.places.resize(kForeignBlocks);
    for (const Parameter& parameter : parameters_) {
      const Slice own = slice(parameter, last);
      layout.piece_at.push_back(layout.size);
      layout.sizes.push_back(codec_->encoded_size(own, contributions));
      if (codec_->width_count(1) > 0) place(own, layout);
      layout.size += layout.sizes.back();
    }
    return layout;
  }

  // The super-groups of a slice, whose message starts at layout.size.
  void place(const Slice& slice, Layout& layout) const {
    const std::size_t blocks = blocks_of(slice.count);
    const auto widths = slice.widths.subspan(slice.first / 256, blocks);
    const std::size_t scales = codec_->granule_size(1) - 2 - 32;
    std::size_t sent = 0;
    std::size_t scale_bytes = 0;
    const auto held = [&](std::size_t j) {
      return std::min<std::size_t>(256, slice.count - 256 * j);
    };
    for (std::size_t j = 0; j < blocks; ++j) {
      if (widths[j] == 0) continue;
      ++sent;
      scale_bytes += (held(j) * scales + 255) / 256;
    }
    std::size_t codes = layout.size + (2 * sent + scale_bytes + 15) / 16 * 16;
    std::size_t index = 0;
    for (std::size_t j = 0; j < blocks; ++j) {
      layout.places.push_back(
          {.units = static_cast<std::uint32_t>(layout.size + 2 * index),
           .scales = static_cast<std::uint32_t>(layout.size + 2 * sent + scales * index),
           .codes = static_cast<std::uint32_t>(codes),
           .width = widths[j]});
      if (widths[j] == 0) continue;
      ++index;
      codes += (held(j) + 31) / 32 * 4 * widths[j];
    }
  }

  // A layout in device memory.
  struct DeviceLayout {
    std::unique_ptr<DeviceCopy> piece_at;
    std::unique_ptr<DeviceCopy> places;

    explicit DeviceLayout(const Layout& layout) {
      if (!layout.places.empty()) {
        places = std::make_unique<DeviceCopy>(layout.places);
      } else {
        piece_at = std::make_unique<DeviceCopy>(layout.piece_at);
      }
    }
    template <typename Byte>
    cuda::DeviceMessageOf<Byte> message(const DeviceCopy& bytes, std::size_t size,
                                        Origin origin) const {
      return {.bytes = bytes.as<std::byte>(),
              .size = size,
              .piece_at = piece_at == nullptr ? nullptr : piece_at->as<std::uint64_t>(),
              .places = places == nullptr ? nullptr : places->as<cuda::SuperGroupPlace>(),
              .origin = origin};
    }
  };

  // Calls work(parameter, index) and puts the message that it writes into its place.
  template <typename Work>
  Bytes cpu_message(const Layout& layout, Work work) const {
    Bytes bytes(layout.size + kSlack);
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      work(parameters_[p], p, std::span(bytes).subspan(layout.piece_at[p], layout.sizes[p]));
    }
    return bytes;
  }
  static std::span<const std::byte> part(const Layout& layout, std::size_t p,
                                         const Bytes& message) {
    return std::span(message).subspan(layout.piece_at[p], layout.sizes[p]);
  }
  ConstValues piece_values(const Parameter& parameter, std::uint32_t rank) const {
    return {parameter.by_rank[rank].data() + parameter.first * value_size(), parameter.held,
            test_.type};
  }

  // Runs an operation that writes a message, over the values of `rank`, and compares.
  template <typename Operation>
  void expect_message(const char* what, std::uint32_t rank, const Layout& layout, Origin origin,
                      const Bytes& expected, Operation operation) const {
    const Bytes before = arena(rank);
    const DeviceCopy values(before);
    const DeviceBatch pieces = batch_of(values, false);
    const DeviceLayout places(layout);
    const DeviceCopy out(Bytes(expected.size() + kFence, kPoison));
    expect_ok(operation(pieces.batch, places.message<std::byte>(out, expected.size(), origin)),
              what);
    Bytes fenced = expected;
    fenced.resize(expected.size() + kFence, kPoison);
    expect_same(what, out.bytes(), fenced);
    expect_same("values of that", values.bytes(), before);
  }

  // Runs decode() or decode_add() over the values of `rank`, and compares.
  void expect_values(const char* what, std::uint32_t rank, bool last, bool adds,
                     const Layout& layout, Origin origin, const Bytes& message) const {
    Bytes expected = arena(rank);
    if (!adds) std::fill(expected.begin(), expected.end(), kPoison);
    const DeviceCopy values(expected);
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const Parameter& parameter = parameters_[p];
      const Values own(expected.data() + parameter.at + parameter.first * value_size(),
                       parameter.held, test_.type);
      const Slice facts = slice(parameter, last);
      expect_ok(adds ? codec_->decode_add(facts, origin, part(layout, p, message), own)
                     : codec_->decode(facts, origin, part(layout, p, message), own),
                what);
    }
    const DeviceBatch pieces = batch_of(values, false);
    const DeviceLayout places(layout);
    const DeviceCopy in(message);
    const auto incoming = places.message<const std::byte>(in, message.size(), origin);
    expect_ok(adds ? device_->decode_add(pieces.batch, incoming, nullptr)
                   : device_->decode(pieces.batch, incoming, nullptr),
              what);
    expect_same(what, with_one_nan(values.bytes(), test_.type), with_one_nan(expected, test_.type));
  }

  void check_messages() {
    const bool merges = merges_messages(codec_->kind());
    const Layout one = layout(1, false);
    std::vector<Bytes> first;  // by rank
    for (std::uint32_t rank = 0; rank < test_.ranks; ++rank) {
      const Origin origin{.encoder = rank, .contributions = 1};
      first.push_back(cpu_message(one, [&](const Parameter& p, std::size_t, auto out) {
        expect_ok(codec_->encode(slice(p, false), origin, piece_values(p, rank), out), "encode");
      }));
      expect_message("encode", rank, one, origin, first.back(),
                     [&](const cuda::Batch& batch, const cuda::DeviceMessage& out) {
                       return device_->encode(batch, out, nullptr);
                     });
    }
    expect_values("decode", 0, false, false, one, {0, 1}, first[0]);
    expect_values("decode_add", test_.ranks - 1, false, true, one, {0, 1}, first[0]);
    if (test_.ranks < 2) return;

    const Layout two = layout(2, false);
    const Origin total{.encoder = 1, .contributions = 2};
    const Bytes sum = cpu_message(two, [&](const Parameter& p, std::size_t i, auto out) {
      expect_ok(codec_->decode_add_encode(slice(p, false), {0, 1}, part(one, i, first[0]),
                                          piece_values(p, 1), total, out),
                "decode_add_encode");
    });
    const DeviceCopy in(first[0]);
    const DeviceLayout places(one);
    expect_message("decode_add_encode", 1, two, total, sum,
                   [&](const cuda::Batch& batch, const cuda::DeviceMessage& out) {
                     return device_->decode_add_encode(
                         batch, places.message<const std::byte>(in, first[0].size(), {0, 1}), out,
                         nullptr);
                   });
    expect_values("decode of a sum", 0, false, false, two, total, sum);
    expect_values("decode_add of a sum", 0, false, true, two, total, sum);
    if (merges) check_merge(one, two, first);
    check_fold(one, first, merges);
  }

  void check_merge(const Layout& one, const Layout& two, const std::vector<Bytes>& first) const {
    const Origin total{.encoder = 1, .contributions = 2};
    const Bytes merged = cpu_message(two, [&](const Parameter& p, std::size_t i, auto out) {
      expect_ok(codec_->merge(slice(p, false), {0, 1}, part(one, i, first[0]), {1, 1},
                              part(one, i, first[1]), total.encoder, out),
                "merge");
    });
    const DeviceLayout places(one);
    const DeviceCopy a(first[0]);
    const DeviceCopy b(first[1]);
    expect_message("merge", 0, two, total, merged,
                   [&](const cuda::Batch& batch, const cuda::DeviceMessage& out) {
                     return device_->merge(
                         batch, places.message<const std::byte>(a, first[0].size(), {0, 1}),
                         places.message<const std::byte>(b, first[1].size(), {1, 1}), out, nullptr);
                   });
  }

  // The last rank adds the messages of all others to its values, and writes the finished sum.
  void check_fold(const Layout& one, const std::vector<Bytes>& first, bool merges) const {
    const std::uint32_t owner = test_.ranks - 1;
    const Origin total{.encoder = owner, .contributions = test_.ranks};
    const bool last = !merges;
    const Layout all = layout(test_.ranks, last);
    const Bytes sum = cpu_message(all, [&](const Parameter& p, std::size_t i, auto out) {
      if (merges) {
        merge_all(p, i, one, first, out);
        return;
      }
      std::vector<float> values(p.held);
      for (std::size_t e = 0; e < p.held; ++e) values[e] = widened(piece_values(p, owner), e);
      // Where widths do not change on the way, the last message is added as it would be in a hop.
      const bool is_hop = codec_->width_count(1) == 0;
      for (std::uint32_t rank = 0; rank < owner; ++rank) {
        const Origin origin{.encoder = rank, .contributions = 1};
        const auto message = part(one, i, first[rank]);
        expect_ok(
            is_hop && rank + 1 == owner
                ? codec_->decode_add_encode(slice(p, false), origin, message, values, total, out)
                : codec_->decode_add(slice(p, false), origin, message, std::span(values)),
            "decode_add");
      }
      if (!is_hop) expect_ok(codec_->encode(slice(p, last), total, values, out), "encode");
    });
    const DeviceLayout places(one);
    std::vector<std::unique_ptr<DeviceCopy>> copies;
    std::vector<cuda::ConstDeviceMessage> in;
    for (std::uint32_t rank = 0; rank < owner; ++rank) {
      copies.push_back(std::make_unique<DeviceCopy>(first[rank]));
      in.push_back(places.message<const std::byte>(*copies.back(), first[rank].size(), {rank, 1}));
    }
    expect_message("fold_encode", owner, all, total, sum,
                   [&](const cuda::Batch& batch, const cuda::DeviceMessage& out) {
                     return device_->fold_encode(batch, in, out, nullptr);
                   });
    expect_values("decode of the finished sum", 0, last, false, all, total, sum);
  }

  // The owner adds its values to the first message, and merges that with the others.
  void merge_all(const Parameter& p, std::size_t i, const Layout& one,
                 const std::vector<Bytes>& first, std::span<std::byte> out) const {
    const Slice facts = slice(p, false);
    const std::uint32_t owner = test_.ranks - 1;
    Bytes sum(codec_->encoded_size(facts, 2));
    expect_ok(codec_->decode_add_encode(facts, {0, 1}, part(one, i, first[0]),
                                        piece_values(p, owner), {owner, 2}, sum),
              "decode_add_encode");
    for (std::uint32_t rank = 1; rank < owner; ++rank) {
      Bytes next(codec_->encoded_size(facts, rank + 2));
      expect_ok(codec_->merge(facts, {owner, rank + 1}, sum, {rank, 1}, part(one, i, first[rank]),
                              owner, next),
                "merge");
      sum = std::move(next);
    }
    std::copy(sum.begin(), sum.end(), out.begin());
  }

  static float widened(ConstValues values, std::size_t i) {
    if (values.type == DataType::kFloat32) return static_cast<const float*>(values.data)[i];
    std::uint16_t bits = 0;
    std::memcpy(&bits, static_cast<const std::byte*>(values.data) + 2 * i, 2);
    return values.type == DataType::kBfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
  }

  static constexpr std::uint64_t kSeed = 0x5eed;
  static constexpr std::uint64_t kStep = 17;

  const DeviceCase& test_;
  Generator random_;
  std::unique_ptr<Codec> codec_;
  std::unique_ptr<cuda::DeviceCodec> device_;
  std::vector<Parameter> parameters_;
  std::size_t arena_size_ = 0;
  std::unique_ptr<DeviceCopy> statistics_;
};

}  // namespace

void PrintTo(const DeviceCase& device_case, std::ostream* out) {
  *out << device_case.codec << " of " << to_string(device_case.type) << ", input "
       << static_cast<int>(device_case.input) << ", seed " << device_case.seed << ", pieces";
  for (const TestPiece& piece : device_case.pieces) {
    *out << ' ' << piece.granules_before << '/' << piece.count << '/' << piece.behind;
  }
  if (device_case.has_bounds) *out << ", within bounds";
}

bool has_device() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

void check_on_device(const DeviceCase& device_case) {
  SCOPED_TRACE(testing::PrintToString(device_case));
  Check(device_case).run();
}

}  // namespace nf::test
