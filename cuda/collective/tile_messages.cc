#include "cuda/collective/tile_messages.h"

namespace nf::cuda {

Status TileMessages::compute(const DeviceLayout& layout, const CallDraws& draws, std::uint32_t tile,
                             std::size_t round, cudaStream_t stream) {
  const DeviceRounds& rounds = context_.rounds;
  const std::uint32_t rank = context_.rank;
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

Status TileMessages::make_message(const Place& place, std::uint32_t contributions,
                                  const MessageSlot& slot, cudaStream_t stream) {
  return maker_.make({.layout = place.layout,
                      .messages = messages_.data(),
                      .chunk = place.chunk,
                      .tile = place.tile,
                      .own = place.batch(),
                      .origin = {context_.rank, contributions},
                      .out = bytes_of(slot, place.tile)},
                     stream);
}

Status TileMessages::add_messages(const Place& place, cudaStream_t stream) {
  return maker_.add({.layout = place.layout,
                     .messages = messages_.data(),
                     .chunk = place.chunk,
                     .tile = place.tile,
                     .own = place.batch()},
                    stream);
}

Status TileMessages::decode(const Place& place, Origin origin, cudaStream_t stream) {
  const std::byte* bytes = bytes_of(place.layout.finished(place.chunk), place.tile);
  const ConstDeviceMessage message =
      place.layout.plan().message(place.chunk, place.tile, origin, bytes);
  return context_.codecs[context_.plan.stage(origin.contributions)]->decode(place.batch(), message,
                                                                            stream);
}

void TileMessages::add_transfers(const DeviceLayout& layout, std::uint32_t tile, std::size_t round,
                                 StreamTransfers& transfers) {
  const bool gathers = round >= context_.rounds.reduce_rounds;
  const DevicePlan& plan = layout.plan();
  const auto transfer = [&](const Step& step, const MessageSlot& slot) {
    return StreamTransfer{step.peer, bytes_of(slot, tile),
                          plan.message_size(step.chunk, tile, step.contributions)};
  };
  for (const Step& step : context_.rounds.rounds[round].sends) {
    if (!plan.has_message(step.chunk, tile)) continue;
    transfers.sends.push_back(
        transfer(step, gathers ? layout.finished(step.chunk) : layout.partial(step.chunk)));
    bytes_sent_ += transfers.sends.back().size;
    if (gathers) sum_bytes_sent_ += transfers.sends.back().size;
  }
  for (const auto& [step, index] : context_.rounds.rounds[round].receives) {
    if (!plan.has_message(step.chunk, tile)) continue;
    transfers.receives.push_back(
        transfer(step, gathers ? layout.finished(step.chunk) : layout.incoming(step.chunk, index)));
  }
}

}  // namespace nf::cuda
