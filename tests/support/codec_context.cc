#include "support/codec_context.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace nf::test {
namespace {

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << to_string(status); }

// Calls `write` with guarded bytes.
template <typename Write>
Message written(std::size_t size, std::size_t offset, Write write) {
  GuardedBytes out(size, offset);
  expect_ok(write(out.bytes()));
  EXPECT_TRUE(out.guards_intact()) << "wrote outside its " << size << " bytes";
  return out.copy();
}

// The same for values that start as `initial`.
template <typename Write>
std::vector<float> updated(const TypedValues& initial, std::size_t offset, Write write) {
  const std::size_t size = initial.count() * size_of(initial.type());
  GuardedBytes memory(size, offset);
  if (size > 0) std::memcpy(memory.bytes().data(), initial.data(), size);
  expect_ok(write(Values(memory.bytes().data(), initial.count(), initial.type())));
  EXPECT_TRUE(memory.guards_intact()) << "wrote outside its " << initial.count() << " values";
  TypedValues result = initial;
  if (size > 0) std::memcpy(result.view().data, memory.bytes().data(), size);
  return result.widened();
}

}  // namespace

std::vector<TypedValues> ranks_of(Generator& random, std::size_t ranks, std::size_t count,
                                  DataType type) {
  const std::vector<float> common = random.mixture(count);
  std::vector<TypedValues> by_rank;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<float> values = random.mixture(count);
    for (std::size_t i = 0; i < count; ++i) values[i] += common[i];
    by_rank.emplace_back(type, values);
  }
  return by_rank;
}

CodecContext::CodecContext(const Codec& codec, std::span<const TypedValues> by_rank) {
  combine(codec, by_rank);
  const WidthRequest request{.count = count_, .statistics = statistics_, .widths = widths_};
  expect_ok(codec.choose_widths({&request, 1}, {.ranks = ranks_}));
}

std::vector<CodecContext> CodecContext::for_parameters(
    const Codec& codec, std::span<const std::vector<TypedValues>> parameters) {
  std::vector<CodecContext> contexts;
  for (const std::vector<TypedValues>& by_rank : parameters) {
    CodecContext context;
    context.parameter += contexts.size();
    context.combine(codec, by_rank);
    contexts.push_back(std::move(context));
  }
  std::vector<WidthRequest> requests;
  for (CodecContext& context : contexts) {
    requests.push_back({context.count_, context.statistics_, context.widths_});
  }
  if (!contexts.empty())
    expect_ok(codec.choose_widths(requests, {.ranks = contexts.front().ranks_}));
  return contexts;
}

void CodecContext::combine(const Codec& codec, std::span<const TypedValues> by_rank) {
  count_ = by_rank.front().count();
  ranks_ = static_cast<std::uint32_t>(by_rank.size());
  statistics_.resize(codec.statistics_size(count_));
  widths_.resize(codec.width_count(count_));
  std::vector<Message> local;
  for (const TypedValues& values : by_rank) local.push_back(statistics_of(codec, values.view()));
  const std::vector<std::span<const std::byte>> spans(local.begin(), local.end());
  expect_ok(codec.combine_statistics(count_, spans, statistics_));
}

Slice CodecContext::part(std::size_t first, std::size_t count) const {
  return {.seed = seed,
          .step = step,
          .parameter = parameter,
          .first = first,
          .count = count,
          .ranks = ranks_,
          .statistics = statistics_,
          .widths = widths_};
}

Message statistics_of(const Codec& codec, ConstValues values, std::size_t offset) {
  return written(codec.statistics_size(values.count), offset,
                 [&](std::span<std::byte> out) { return codec.statistics(values, out); });
}

Message encode(const Codec& codec, const Slice& slice, Origin origin, ConstValues values,
               std::size_t offset) {
  return written(
      codec.encoded_size(slice, origin.contributions), offset,
      [&](std::span<std::byte> out) { return codec.encode(slice, origin, values, out); });
}

std::vector<float> decode(const Codec& codec, const Slice& slice, Origin origin,
                          std::span<const std::byte> wire, DataType type, std::size_t offset) {
  // The previous contents must not matter: NaN would propagate.
  const std::vector<float> previous(slice.count, std::numeric_limits<float>::quiet_NaN());
  return updated(TypedValues(type, previous), offset,
                 [&](Values values) { return codec.decode(slice, origin, wire, values); });
}

std::vector<float> decode_add(const Codec& codec, const Slice& slice, Origin origin,
                              std::span<const std::byte> wire, const TypedValues& values,
                              std::size_t offset) {
  return updated(values, offset,
                 [&](Values sum) { return codec.decode_add(slice, origin, wire, sum); });
}

Message decode_add_encode(const Codec& codec, const Slice& slice, Origin origin,
                          std::span<const std::byte> wire, ConstValues values,
                          std::uint32_t encoder, std::size_t offset) {
  return written(codec.encoded_size(slice, origin.contributions + 1), offset,
                 [&](std::span<std::byte> out) {
                   return codec.decode_add_encode(slice, origin, wire, values,
                                                  {encoder, origin.contributions + 1}, out);
                 });
}

Message merge(const Codec& codec, const Slice& slice, Origin first,
              std::span<const std::byte> first_wire, Origin second,
              std::span<const std::byte> second_wire, std::uint32_t encoder, std::size_t offset) {
  return written(codec.encoded_size(slice, first.contributions + second.contributions), offset,
                 [&](std::span<std::byte> out) {
                   return codec.merge(slice, first, first_wire, second, second_wire, encoder, out);
                 });
}

Message chain(const Codec& codec, const Slice& slice, std::span<const TypedValues> by_rank,
              std::span<const std::uint32_t> order) {
  Origin origin{.encoder = order.front(), .contributions = 1};
  Message message = encode(codec, slice, origin, by_rank[origin.encoder].view());
  for (const std::uint32_t rank : order.subspan(1)) {
    message = decode_add_encode(codec, slice, origin, message, by_rank[rank].view(), rank);
    origin = {.encoder = rank, .contributions = origin.contributions + 1};
  }
  return message;
}

}  // namespace nf::test
