// The size of the tiles of a sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collective/tile_map.h"
#include "neuron_fabric/codec.h"

namespace nf {

// The tile size for the values of `domain` in `chunks`, given AllReduceOptions::tile_bytes.
//
// The messages of a dense codec are large, and each costs CPU time besides that of its bytes. A
// dense chunk has about four tiles, which is enough for encoding, sending and decoding to overlap,
// but tiles of at most 4 * tile_bytes, so that they stay in a cache. Sums do not depend on the
// tiles of a dense codec. Those of other codecs may, so their tiles have tile_bytes.
//
// Depends on sizes only, so it is equal on all ranks.
std::size_t tile_size(const Codec& codec, std::span<const Piece> domain, std::uint32_t chunks,
                      std::size_t tile_bytes);

}  // namespace nf
