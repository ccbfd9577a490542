#include "nf/bench/rank_sync.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace nf::cli {
namespace {

// Long, because rank 0 computes exact sums while the others wait. A lost rank is detected
// immediately.
constexpr Duration kTimeout = std::chrono::minutes(30);

constexpr std::size_t kBlockBytes = std::size_t{16} << 20;  // compared at a time

}  // namespace

Status RankSync::barrier() {
  std::byte token{};
  const Expected<std::vector<std::byte>> all = gather(token);
  if (!all) return all.status();
  return share(token);
}

Status RankSync::gather_bytes(std::span<std::byte> own, std::span<std::byte> all) {
  if (transport_.rank() != 0) return send(0, own);
  std::copy(own.begin(), own.end(), all.begin());
  for (std::uint32_t peer = 1; peer < transport_.ranks(); ++peer) {
    NF_RETURN_IF_ERROR(receive(peer, all.subspan(peer * own.size(), own.size())));
  }
  return {};
}

Status RankSync::share_bytes(std::span<std::byte> bytes) {
  if (transport_.rank() != 0) return receive(0, bytes);
  // Start all sends before waiting, so that all ranks leave the barrier at about the same time.
  std::vector<Transfer> sends(transport_.ranks());
  for (std::uint32_t peer = 1; peer < transport_.ranks(); ++peer) {
    sends[peer] = {.peer = peer, .bytes = bytes};
    NF_RETURN_IF_ERROR(transport_.send(sends[peer]));
  }
  for (std::uint32_t peer = 1; peer < transport_.ranks(); ++peer) {
    NF_RETURN_IF_ERROR(finish(sends[peer]));
  }
  return {};
}

Expected<std::uint64_t> RankSync::count_differences(std::span<const std::byte> own,
                                                    std::size_t element) {
  std::uint64_t differences = 0;
  std::vector<std::byte> part;
  std::vector<bool> differs;
  const std::size_t step = kBlockBytes / element * element;
  for (std::size_t at = 0; at < own.size(); at += step) {
    const std::span<const std::byte> held = own.subspan(at, std::min(step, own.size() - at));
    part.assign(held.begin(), held.end());
    if (transport_.rank() != 0) {
      if (Status status = send(0, part); !status.ok()) return status;
      continue;
    }
    differs.assign(held.size() / element, false);
    for (std::uint32_t peer = 1; peer < transport_.ranks(); ++peer) {
      if (Status status = receive(peer, part); !status.ok()) return status;
      for (std::size_t i = 0; i < differs.size(); ++i) {
        const std::size_t offset = i * element;
        if (std::memcmp(&held[offset], &part[offset], element) != 0) differs[i] = true;
      }
    }
    differences += static_cast<std::uint64_t>(std::count(differs.begin(), differs.end(), true));
  }
  return differences;
}

Status RankSync::send(std::uint32_t peer, std::span<std::byte> bytes) {
  Transfer transfer{.peer = peer, .bytes = bytes};
  NF_RETURN_IF_ERROR(transport_.send(transfer));
  return finish(transfer);
}

Status RankSync::receive(std::uint32_t peer, std::span<std::byte> bytes) {
  Transfer transfer{.peer = peer, .bytes = bytes};
  NF_RETURN_IF_ERROR(transport_.receive(transfer));
  return finish(transfer);
}

Status RankSync::finish(const Transfer& transfer) {
  while (!transfer.is_done) {
    Status status = transport_.wait(transport_.now() + kTimeout);
    if (status.ok()) continue;
    transport_.abort(status);  // the transport must not touch the transfer again
    return status;
  }
  return {};
}

}  // namespace nf::cli
