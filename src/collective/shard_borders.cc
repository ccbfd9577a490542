#include "collective/shard_borders.h"

#include <fmt/format.h>

namespace nf {

Status ShardBorders::assign(std::span<const std::size_t> shards, std::uint32_t ranks,
                            std::uint32_t positions, std::uint32_t rank) {
  if (shards.size() != ranks) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("the call has {} shards for {} ranks; give each rank a shard, which may be "
                        "empty",
                        shards.size(), ranks)};
  }
  const std::uint32_t hosts = ranks / positions;
  const std::uint32_t own_first = rank % positions * hosts;
  by_position.clear();
  by_host.clear();
  std::size_t border = 0;
  for (std::uint32_t i = 0; i <= ranks; ++i) {
    if (i % hosts == 0) by_position.push_back(border);
    if (i >= own_first && i <= own_first + hosts) by_host.push_back(border);
    if (i < ranks) border += shards[i];
  }
  return {};
}

}  // namespace nf
