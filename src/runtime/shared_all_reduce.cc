#include "runtime/shared_all_reduce.h"

#include <utility>

namespace nf {
namespace {

constexpr std::size_t kLine = 64;

}  // namespace

bool SharedAllReduce::supports(const std::string& codec) {
  const Expected<std::unique_ptr<Codec>> made = make_codec(codec);
  return made && !(*made)->keeps_residual() && SharedReducer::check(**made).ok();
}

// Two bits per value, scales included, and a few partially filled lines per piece.
std::size_t SharedAllReduce::capacity(std::span<const std::size_t> counts, std::uint32_t ranks) {
  std::size_t bytes = 0;
  for (const std::size_t count : counts) bytes += count / 4 + 4 * kLine;
  return bytes + std::size_t{ranks} * 4 * kLine;
}

Expected<std::unique_ptr<AllReduce>> SharedAllReduce::create(Transport& transport,
                                                             SharedReducer& reducer,
                                                             const AllReduceOptions& options) {
  Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  NF_RETURN_IF_ERROR(SharedReducer::check(**codec));
  return std::unique_ptr<AllReduce>(
      new SharedAllReduce(transport, reducer, options, std::move(*codec)));
}

SharedAllReduce::SharedAllReduce(Transport& transport, SharedReducer& reducer,
                                 const AllReduceOptions& options, std::unique_ptr<Codec> codec)
    : transport_(transport),
      reducer_(reducer),
      options_(options),
      codec_(std::move(codec)),
      plan_(*codec_, {.ranks = transport.ranks(), .shape = SumShape::kChain}),
      schedule_(make_schedule(Topology::kRing, transport.ranks(), transport.rank())) {
  for (std::uint32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
    const ChunkPath path = chunk_path(Topology::kRing, transport.ranks(), chunk);
    first_rank_.push_back(path.reduce.empty() ? 0 : path.reduce.front().from);
  }
}

// The same chunks as the ring.
void SharedAllReduce::cut(const AllReduceCall& call) {
  std::vector<Piece> domain;
  std::vector<std::size_t> counts;
  for (const Gradient& gradient : call.gradients) {
    counts.push_back(gradient.values.count);
    domain.push_back({.parameter = domain.size(), .first = 0, .count = counts.back()});
  }
  plan_.cut(domain, counts, schedule_.chunks, options_.tile_bytes);
  parts_.clear();
  std::size_t own = 0;
  std::size_t sum = 0;
  std::vector<Piece> pieces;
  for (std::uint32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
    plan_.tiles().pieces_of(chunk, pieces);
    for (const Piece& piece : pieces) {
      const Gradient& gradient = call.gradients[piece.parameter];
      const std::size_t size = size_of(gradient.values.type);
      Part part{.values = {static_cast<std::byte*>(gradient.values.data) + piece.first * size,
                           piece.count, gradient.values.type},
                .slice = {.seed = options_.seed,
                          .step = call.step,
                          .parameter = gradient.parameter,
                          .first = piece.first,
                          .count = piece.count,
                          .ranks = transport_.ranks()},
                .chunk = chunk,
                .own = own,
                .sum = sum};
      own += codec_->encoded_size(part.slice, 1);
      sum += codec_->encoded_size(part.slice, transport_.ranks());
      parts_.push_back(part);
    }
  }
  own_.resize(own);
  sum_.resize(sum);
}

Status SharedAllReduce::start(const AllReduceCall& call) {
  if (transport_.ranks() == 1) return {};
  cut(call);
  messages_.clear();
  for (const Part& part : parts_) {
    const std::uint32_t ranks = transport_.ranks();
    const SharedMessage message{
        .slice = part.slice,
        .own = std::span(own_).subspan(part.own, codec_->encoded_size(part.slice, 1)),
        .sum = std::span(sum_).subspan(part.sum, codec_->encoded_size(part.slice, ranks)),
        .first_rank = first_rank_[part.chunk]};
    NF_RETURN_IF_ERROR(codec_->encode(part.slice, {.encoder = transport_.rank()}, part.values,
                                      std::span(own_).subspan(part.own, message.own.size())));
    messages_.push_back(message);
  }
  const std::uint64_t before = reducer_.bytes_written();
  NF_RETURN_IF_ERROR(reducer_.sum(*codec_, messages_));
  traffic_.payload += reducer_.bytes_written() - before;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Origin origin{schedule_.owners[parts_[i].chunk], transport_.ranks()};
    NF_RETURN_IF_ERROR(codec_->decode(parts_[i].slice, origin, messages_[i].sum, parts_[i].values));
  }
  return {};
}

Status SharedAllReduce::load_memory(std::span<const MemoryEntry> memory) {
  if (memory.empty()) return {};
  return {ErrorCode::kInvalidArgument, "an all-reduce at the shared reducer keeps no memory"};
}

}  // namespace nf
