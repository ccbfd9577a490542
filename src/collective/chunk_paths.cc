#include "collective/chunk_paths.h"

namespace nf {

std::vector<Edge> reverse_edges(const std::vector<Edge>& reduce, std::uint32_t ranks) {
  std::vector<Edge> gather;
  gather.reserve(reduce.size());
  for (auto edge = reduce.rbegin(); edge != reduce.rend(); ++edge) {
    gather.push_back({.round = reduce.back().round - edge->round,
                      .from = edge->to,
                      .to = edge->from,
                      .contributions = ranks});
  }
  return gather;
}

}  // namespace nf
