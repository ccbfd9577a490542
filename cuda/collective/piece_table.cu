#include "cuda/collective/piece_table.h"

#include <algorithm>

#include "cuda/base/launch.h"

namespace nf::cuda {
namespace {

constexpr unsigned kThreads = 256;

// The addresses of some gradients by value, so that a launch needs no table.
struct Addresses {
  static constexpr std::uint32_t kMax = 256;

  std::uint32_t first = 0;  // gradient
  std::uint32_t count = 0;
  std::byte* of[kMax] = {};
};

__global__ void __launch_bounds__(kThreads)
    set_values(DevicePiece* pieces, std::uint32_t count, const PieceSource* sources,
               __grid_constant__ const Addresses addresses) {
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const PieceSource source = sources[i];
  const std::uint32_t gradient = source.gradient - addresses.first;  // wraps if it is before
  if (gradient >= addresses.count) return;
  pieces[i].values = addresses.of[gradient] + source.offset;
}

}  // namespace

PieceTable::PieceTable(std::span<const Gradient> gradients) { set_addresses(gradients); }

void PieceTable::set_addresses(std::span<const Gradient> gradients) {
  addresses_.clear();
  for (const Gradient& gradient : gradients) {
    addresses_.push_back(static_cast<std::byte*>(gradient.values.data));
  }
}

void PieceTable::add(DevicePiece piece, const PieceSource& source) {
  piece.values = addresses_[source.gradient] + source.offset;
  pieces_.push_back(piece);
  sources_.push_back(source);
}

void PieceTable::add_to(DeviceTables& tables) {
  tables.add(pieces_, &on_device_);
  tables.add(sources_, &sources_on_device_);
}

Status PieceTable::move_to(std::span<const Gradient> gradients, cudaStream_t stream) {
  const auto is_at = [](const Gradient& gradient, const std::byte* address) {
    return gradient.values.data == address;
  };
  if (std::equal(gradients.begin(), gradients.end(), addresses_.begin(), addresses_.end(), is_at)) {
    return {};
  }
  set_addresses(gradients);
  Addresses some;
  for (std::size_t first = 0; first < addresses_.size(); first += some.count) {
    some.first = static_cast<std::uint32_t>(first);
    some.count = static_cast<std::uint32_t>(
        std::min<std::size_t>(Addresses::kMax, addresses_.size() - first));
    std::copy_n(addresses_.begin() + static_cast<std::ptrdiff_t>(first), some.count, some.of);
    const Status status =
        launch("set_values", set_values, grid_of(size(), kThreads), kThreads, stream, on_device_,
               static_cast<std::uint32_t>(size()), sources_on_device_, some);
    if (!status.ok()) {
      addresses_.clear();
      return status;
    }
  }
  return {};
}

}  // namespace nf::cuda
