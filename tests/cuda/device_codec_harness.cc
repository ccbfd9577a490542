#include "cuda/device_codec_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <span>

#include "cuda/device_case_batches.h"
#include "cuda/device_copy.h"
#include "support/typed_values.h"

namespace nf::test {
namespace {

// Bytes after the last piece of every message.
constexpr std::size_t kSlack = 1000;

class Check : CaseBatches {
 public:
  explicit Check(const DeviceCase& test) : CaseBatches(test) {}

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
      const DeviceCopy scratch(Bytes(device_->statistics_scratch_size(whole.batch), kPoison));
      expect_ok(
          device_->statistics(whole.batch, out.as<std::byte>(), scratch.as<std::byte>(), nullptr),
          "statistics");
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

  // Calls work(parameter, index, bytes) to write the message of each parameter.
  template <typename Work>
  Bytes cpu_message(const Layout& layout, Work work) const {
    Bytes bytes(layout.size + kSlack);
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      work(parameters_[p], p, std::span(bytes).subspan(layout.piece_at[p], layout.sizes[p]));
    }
    return bytes;
  }
  // Runs an operation that writes a message of the values of `rank`, and compares.
  template <typename Operation>
  void expect_message(const char* what, std::uint32_t rank, const Layout& layout, Origin origin,
                      const Bytes& expected, Operation operation) const {
    const Bytes before = arena(rank);
    const DeviceCopy values(before);
    const DeviceBatch pieces = batch_of(values, false);
    const DeviceLayout on_device(layout);
    const DeviceCopy out(Bytes(expected.size() + kFence, kPoison));
    expect_ok(operation(pieces.batch, on_device.message<std::byte>(out, expected.size(), origin)),
              what);
    Bytes fenced = expected;
    fenced.resize(expected.size() + kFence, kPoison);
    expect_same(what, out.bytes(), fenced);
    expect_same("input values", values.bytes(), before);
  }

  // Runs decode() or decode_add() on the values of `rank`, and compares.
  void expect_values(const char* what, std::uint32_t rank, bool last, bool adds,
                     const Layout& layout, Origin origin, const Bytes& message) const {
    Bytes expected = arena(rank);
    if (!adds) std::fill(expected.begin(), expected.end(), kPoison);
    const DeviceCopy values(expected);
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const Parameter& parameter = parameters_[p];
      const Values own(expected.data() + parameter.at + parameter.first * value_size(),
                       parameter.held, test_.type);
      const Slice own_slice = slice(parameter, last);
      expect_ok(adds ? codec_->decode_add(own_slice, origin, part(layout, p, message), own)
                     : codec_->decode(own_slice, origin, part(layout, p, message), own),
                what);
    }
    const DeviceBatch pieces = batch_of(values, false);
    const DeviceLayout on_device(layout);
    const DeviceCopy in(message);
    const auto incoming = on_device.message<const std::byte>(in, message.size(), origin);
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
    const DeviceLayout on_device(one);
    expect_message("decode_add_encode", 1, two, total, sum,
                   [&](const cuda::Batch& batch, const cuda::DeviceMessage& out) {
                     return device_->decode_add_encode(
                         batch, on_device.message<const std::byte>(in, first[0].size(), {0, 1}),
                         out, nullptr);
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
    const DeviceLayout on_device(one);
    const DeviceCopy a(first[0]);
    const DeviceCopy b(first[1]);
    expect_message("merge", 0, two, total, merged,
                   [&](const cuda::Batch& batch, const cuda::DeviceMessage& out) {
                     return device_->merge(
                         batch, on_device.message<const std::byte>(a, first[0].size(), {0, 1}),
                         on_device.message<const std::byte>(b, first[1].size(), {1, 1}), out,
                         nullptr);
                   });
  }

  // The last rank adds the messages of all others to its values and writes the finished sum.
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
      // If the codec has no widths, the last message is added like in a hop.
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
    const DeviceLayout on_device(one);
    std::vector<std::unique_ptr<DeviceCopy>> copies;
    std::vector<cuda::ConstDeviceMessage> in;
    for (std::uint32_t rank = 0; rank < owner; ++rank) {
      copies.push_back(std::make_unique<DeviceCopy>(first[rank]));
      in.push_back(
          on_device.message<const std::byte>(*copies.back(), first[rank].size(), {rank, 1}));
    }
    expect_message("fold_encode", owner, all, total, sum,
                   [&](const cuda::Batch& batch, const cuda::DeviceMessage& out) {
                     return device_->fold_encode(batch, in, out, nullptr);
                   });
    expect_values("decode of the finished sum", 0, last, false, all, total, sum);
    check_fold_add(one, first, in);
  }

  // The last rank replaces its values by the sum.
  void check_fold_add(const Layout& one, const std::vector<Bytes>& first,
                      std::span<const cuda::ConstDeviceMessage> in) const {
    const std::uint32_t owner = test_.ranks - 1;
    Bytes expected = arena(owner);
    const DeviceCopy values(expected);
    const DeviceBatch pieces = batch_of(values, false);
    const Status status = device_->fold_add(pieces.batch, in, nullptr);
    if (merges_messages(codec_->kind())) {
      EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
      return;
    }
    expect_ok(status, "fold_add");
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const Parameter& parameter = parameters_[p];
      std::vector<float> sums(parameter.held);
      for (std::size_t e = 0; e < sums.size(); ++e) {
        sums[e] = widened(piece_values(parameter, owner), e);
      }
      for (std::uint32_t rank = 0; rank < owner; ++rank) {
        expect_ok(codec_->decode_add(slice(parameter, false), {.encoder = rank, .contributions = 1},
                                     part(one, p, first[rank]), std::span(sums)),
                  "decode_add");
      }
      const TypedValues rounded(test_.type, sums);
      std::copy_n(rounded.data(), sums.size() * value_size(),
                  expected.data() + parameter.at + parameter.first * value_size());
    }
    expect_same("fold_add", with_one_nan(values.bytes(), test_.type),
                with_one_nan(expected, test_.type));
  }

  // The owner adds its values to the first message and merges the result with the others.
  void merge_all(const Parameter& p, std::size_t i, const Layout& one,
                 const std::vector<Bytes>& first, std::span<std::byte> out) const {
    const Slice own_slice = slice(p, false);
    const std::uint32_t owner = test_.ranks - 1;
    Bytes sum(codec_->encoded_size(own_slice, 2));
    expect_ok(codec_->decode_add_encode(own_slice, {0, 1}, part(one, i, first[0]),
                                        piece_values(p, owner), {owner, 2}, sum),
              "decode_add_encode");
    for (std::uint32_t rank = 1; rank < owner; ++rank) {
      Bytes next(codec_->encoded_size(own_slice, rank + 2));
      expect_ok(codec_->merge(own_slice, {owner, rank + 1}, sum, {rank, 1},
                              part(one, i, first[rank]), owner, next),
                "merge");
      sum = std::move(next);
    }
    std::copy(sum.begin(), sum.end(), out.begin());
  }

  std::unique_ptr<cuda::DeviceCodec> device_;
};

}  // namespace

void PrintTo(const DeviceCase& device_case, std::ostream* out) {
  *out << device_case.codec << " of " << to_string(device_case.type) << ", input "
       << static_cast<int>(device_case.input) << ", seed " << device_case.seed << ", pieces";
  for (const TestPiece& piece : device_case.pieces) {
    *out << ' ' << piece.granules_before << '/' << piece.count << '/' << piece.after;
  }
  if (device_case.has_bounds) *out << ", within bounds";
}

void check_on_device(const DeviceCase& device_case) {
  SCOPED_TRACE(testing::PrintToString(device_case));
  Check(device_case).run();
}

}  // namespace nf::test
