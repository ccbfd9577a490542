#include "cuda/collective/device_executor.h"

namespace nf::cuda {

DeviceExecutor::DeviceExecutor(const Parts& parts, DeviceAllocator& allocator)
    : parts_(parts),
      maker_({.plan = parts.plan,
              .codecs = parts.codecs,
              .rounds = parts.rounds,
              .rank = parts.transport.rank(),
              .merges = parts.merges,
              .feedback = parts.feedback}),
      messages_(allocator),
      pipeline_(parts.wire) {}

Status DeviceExecutor::prepare() { return pipeline_.prepare(); }

Status DeviceExecutor::reserve(const DeviceLayout& layout, cudaStream_t stream) {
  NF_RETURN_IF_ERROR(messages_.reserve(layout.message_bytes(), stream));
  return pipeline_.reserve(layout.plan().max_tiles());
}

Status DeviceExecutor::run(const DeviceLayout& layout, const CallDraws& draws,
                           cudaStream_t stream) {
  return pipeline_.run(
      layout.plan().max_tiles(), parts_.rounds.rounds.size(), stream,
      [&](std::uint32_t tile, std::size_t round) {
        return compute(layout, draws, tile, round, stream);
      },
      [&](std::uint32_t tile, std::size_t round, cudaStream_t wire) {
        return exchange(layout, tile, round, wire);
      });
}

Status DeviceExecutor::compute(const DeviceLayout& layout, const CallDraws& draws,
                               std::uint32_t tile, std::size_t round, cudaStream_t stream) {
  const DeviceRounds& rounds = parts_.rounds;
  const std::uint32_t rank = parts_.transport.rank();
  const auto has_message = [&](std::uint32_t chunk) {
    return layout.plan().has_message(chunk, tile);
  };
  if (round < rounds.reduce_rounds) {
    for (const Step& step : rounds.rounds[round].sends) {
      // All messages for the chunk have been received in earlier rounds.
      if (!has_message(step.chunk)) continue;
      NF_RETURN_IF_ERROR(make_message({layout, draws, step.chunk, tile}, step.contributions,
                                      layout.partial(step.chunk), stream));
    }
    return {};
  }
  for (const auto& [chunk, owner] : rounds.finished) {
    if (!has_message(chunk)) continue;
    const Place place{layout, draws, chunk, tile};
    if (round == rounds.reduce_rounds && owner == rank) {
      NF_RETURN_IF_ERROR(make_message(place, rounds.ranks, layout.finished(chunk), stream));
    }
    if (round == rounds.rounds.size()) {
      NF_RETURN_IF_ERROR(decode(place, {owner, rounds.ranks}, stream));
    }
  }
  for (const std::uint32_t chunk : rounds.kept) {
    if (has_message(chunk)) {
      NF_RETURN_IF_ERROR(add_messages({layout, draws, chunk, tile}, stream));
    }
  }
  return {};
}

Status DeviceExecutor::make_message(const Place& place, std::uint32_t contributions,
                                    const MessageSlot& slot, cudaStream_t stream) {
  return maker_.make({.layout = place.layout,
                      .messages = messages_.data(),
                      .chunk = place.chunk,
                      .tile = place.tile,
                      .own = place.batch(),
                      .origin = {parts_.transport.rank(), contributions},
                      .out = bytes_of(slot, place.tile)},
                     stream);
}

Status DeviceExecutor::add_messages(const Place& place, cudaStream_t stream) {
  return maker_.add({.layout = place.layout,
                     .messages = messages_.data(),
                     .chunk = place.chunk,
                     .tile = place.tile,
                     .own = place.batch()},
                    stream);
}

Status DeviceExecutor::decode(const Place& place, Origin origin, cudaStream_t stream) {
  const std::byte* bytes = bytes_of(place.layout.finished(place.chunk), place.tile);
  const ConstDeviceMessage message =
      place.layout.plan().message(place.chunk, place.tile, origin, bytes);
  return parts_.codecs[parts_.plan.stage(origin.contributions)]->decode(place.batch(), message,
                                                                        stream);
}

Status DeviceExecutor::exchange(const DeviceLayout& layout, std::uint32_t tile, std::size_t round,
                                cudaStream_t wire) {
  const bool gathers = round >= parts_.rounds.reduce_rounds;
  const DevicePlan& plan = layout.plan();
  const auto transfer = [&](const Step& step, const MessageSlot& slot) {
    return StreamTransfer{step.peer, bytes_of(slot, tile),
                          plan.message_size(step.chunk, tile, step.contributions)};
  };
  sends_.clear();
  receives_.clear();
  for (const Step& step : parts_.rounds.rounds[round].sends) {
    if (!plan.has_message(step.chunk, tile)) continue;
    sends_.push_back(
        transfer(step, gathers ? layout.finished(step.chunk) : layout.partial(step.chunk)));
    bytes_sent_ += sends_.back().size;
    if (gathers) sum_bytes_sent_ += sends_.back().size;
  }
  for (const auto& [step, index] : parts_.rounds.rounds[round].receives) {
    if (!plan.has_message(step.chunk, tile)) continue;
    receives_.push_back(
        transfer(step, gathers ? layout.finished(step.chunk) : layout.incoming(step.chunk, index)));
  }
  return parts_.transport.exchange(sends_, receives_, wire);
}

}  // namespace nf::cuda
