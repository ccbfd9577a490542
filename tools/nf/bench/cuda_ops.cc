#include "nf/bench/cuda_ops.h"

#include "cuda/codec/sparse_plan.h"

namespace nf::cli {
namespace {

constexpr Origin kFirst{.encoder = 0, .contributions = 1};
constexpr Origin kSecond{.encoder = 1, .contributions = 2};
// Messages that fold_encode adds to the values: those of the other ranks of a job of four.
constexpr std::size_t kFolded = 3;

using cuda::to_status;

Status copy_to_host(const void* from, std::span<std::byte> to) {
  return to_status(cudaMemcpy(to.data(), from, to.size(), cudaMemcpyDeviceToHost),
                   "copy from the device");
}

}  // namespace

Status DeviceOps::fill(std::size_t rank) {
  NF_RETURN_IF_ERROR(values_[rank].resize(count_ * size_of(type_)));
  const ConstValues from = gradients_.values(rank);
  const std::size_t bytes = from.count * size_of(type_);
  for (std::size_t at = 0; at < values_[rank].size(); at += bytes) {
    const std::size_t size = std::min(bytes, values_[rank].size() - at);
    NF_RETURN_IF_ERROR(
        to_status(cudaMemcpy(values_[rank].bytes() + at, from.data, size, cudaMemcpyHostToDevice),
                  "copy to the device"));
  }
  return put_piece(values_[rank], pieces_[rank]);
}

Status DeviceOps::put_piece(const DeviceMemory& values, DeviceMemory& pieces) const {
  const cuda::DevicePiece piece{
      .values = values.bytes(),
      .statistics = statistics_.size() == 0 ? nullptr : statistics_.bytes(),
      .parameter = 1,
      .count = static_cast<std::uint32_t>(count_)};
  return pieces.assign<cuda::DevicePiece>({&piece, 1});
}

Status DeviceOps::prepare(const std::string& spelling) {
  Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
  if (!codec) return codec.status();
  codec_ = std::move(*codec);
  auto device = cuda::make_device_codec(*codec_);
  if (!device) return device.status();
  device_ = std::move(*device);
  blocks_ = static_cast<std::uint32_t>((count_ + codec_->granule() - 1) / codec_->granule());
  NF_RETURN_IF_ERROR(statistics_.resize(codec_->statistics_size(count_)));
  for (std::size_t rank = 0; rank < kRanks; ++rank) NF_RETURN_IF_ERROR(fill(rank));
  NF_RETURN_IF_ERROR(decoded_.resize(values_[0].size()));
  NF_RETURN_IF_ERROR(put_piece(decoded_, decoded_piece_));
  NF_RETURN_IF_ERROR(share_statistics());
  slice_ = {.seed = 1,
            .step = 1,
            .parameter = 1,
            .count = count_,
            .ranks = kRanks,
            .statistics = host_statistics_,
            .widths = widths_};
  NF_RETURN_IF_ERROR(compute_offsets());
  NF_RETURN_IF_ERROR(message_.resize(codec_->encoded_size(slice_, 1)));
  NF_RETURN_IF_ERROR(sum_.resize(codec_->encoded_size(slice_, kRanks)));
  Slice folded = slice_;
  folded.ranks = kFolded + 1;
  NF_RETURN_IF_ERROR(folded_.resize(codec_->encoded_size(folded, kFolded + 1)));
  return device_->encode(batch(pieces_[0]), message<std::byte>(message_, kFirst), nullptr);
}

Status DeviceOps::share_statistics() {
  const std::size_t size = statistics_.size();
  NF_RETURN_IF_ERROR(by_rank_.resize(kRanks * size));
  if (size == 0) return {};
  NF_RETURN_IF_ERROR(scratch_.resize(device_->statistics_scratch_size(batch(pieces_[0]))));
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    NF_RETURN_IF_ERROR(device_->statistics(batch(pieces_[rank]), by_rank_.bytes() + rank * size,
                                           scratch_.bytes(), nullptr));
  }
  NF_RETURN_IF_ERROR(device_->combine_statistics(batch(pieces_[0]), kRanks, by_rank_.bytes(), size,
                                                 statistics_.bytes(), nullptr));
  host_statistics_.resize(size);
  NF_RETURN_IF_ERROR(copy_to_host(statistics_.bytes(), host_statistics_));
  widths_.resize(codec_->width_count(count_));
  if (widths_.empty()) return {};
  const WidthRequest request{.count = count_, .statistics = host_statistics_, .widths = widths_};
  return codec_->choose_widths({&request, 1}, {.ranks = kRanks});
}

// All values are one piece.
Status DeviceOps::compute_offsets() {
  const std::uint64_t start = 0;
  NF_RETURN_IF_ERROR(piece_at_.assign<std::uint64_t>({&start, 1}));
  if (widths_.empty()) return {};
  if (codec_->kind() == CodecKind::kSparse) {
    return offsets_.assign<cuda::SuperGroupOffsets>(cuda::block_offsets(*codec_, slice_, 0));
  }
  const std::size_t granule = codec_->granule();
  const std::size_t scales = codec_->granule_size(1) - 2 - granule / 8;
  const auto held = [&](std::size_t j) { return std::min(granule, count_ - j * granule); };
  std::size_t sent = 0;
  std::size_t scale_bytes = 0;
  for (std::size_t j = 0; j < widths_.size(); ++j) {
    if (widths_[j] == 0) continue;
    ++sent;
    scale_bytes += (held(j) * scales + granule - 1) / granule;
  }
  std::size_t codes = (2 * sent + scale_bytes + 15) / 16 * 16;
  std::size_t index = 0;
  std::vector<cuda::SuperGroupOffsets> offsets;
  for (std::size_t j = 0; j < widths_.size(); ++j) {
    offsets.push_back({.units = static_cast<std::uint32_t>(2 * index),
                       .scales = static_cast<std::uint32_t>(2 * sent + scales * index),
                       .codes = static_cast<std::uint32_t>(codes),
                       .width = widths_[j]});
    if (widths_[j] == 0) continue;
    ++index;
    codes += (held(j) + 31) / 32 * 4 * widths_[j];
  }
  return offsets_.assign<cuda::SuperGroupOffsets>(offsets);
}

Expected<double> DeviceOps::vnmse(std::size_t first, std::size_t ranks) const {
  const std::size_t count = std::min(count_, gradients_.count());
  std::vector<std::byte> actual(count * size_of(type_));
  if (Status status = copy_to_host(decoded_.bytes(), actual); !status.ok()) return status;
  std::vector<ConstValues> exact;
  for (std::size_t rank = first; rank < first + ranks; ++rank) {
    exact.emplace_back(gradients_.values(rank).data, count, type_);
  }
  return vnmse_of(exact, {actual.data(), count, type_});
}

std::vector<CodecOp> DeviceOps::ops() {
  std::vector<CodecOp> ops;
  const std::size_t values = values_[0].size();
  if (statistics_.size() > 0) {
    ops.push_back({.name = "statistics", .bytes = values + statistics_.size(), .run = [this] {
                     return device_->statistics(batch(pieces_[0]), by_rank_.bytes(),
                                                scratch_.bytes(), nullptr);
                   }});
  }
  const auto decode = [this](const DeviceMemory& memory, Origin origin) {
    return device_->decode(batch(decoded_piece_), message<const std::byte>(memory, origin),
                           nullptr);
  };
  const auto error_of_message = [this, decode]() -> Expected<double> {
    if (Status status = decode(message_, kFirst); !status.ok()) return status;
    return vnmse(0, 1);
  };
  ops.push_back({.name = "encode",
                 .bytes = values + message_.size(),
                 .bits = bits_of(message_.size()),
                 .run =
                     [this] {
                       return device_->encode(batch(pieces_[0]),
                                              message<std::byte>(message_, kFirst), nullptr);
                     },
                 .vnmse = error_of_message});
  ops.push_back({.name = "decode",
                 .bytes = message_.size() + values,
                 .bits = bits_of(message_.size()),
                 .run = [this, decode] { return decode(message_, kFirst); },
                 .vnmse = error_of_message});
  const auto decode_add = [this] {
    return device_->decode_add(batch(decoded_piece_), message<const std::byte>(message_, kFirst),
                               nullptr);
  };
  ops.push_back({.name = "decode_add",
                 .bytes = message_.size() + 2 * values,
                 .bits = bits_of(message_.size()),
                 .run = decode_add,
                 .vnmse = [this, decode_add]() -> Expected<double> {
                   if (Status status =
                           to_status(cudaMemcpy(decoded_.bytes(), values_[1].bytes(),
                                                decoded_.size(), cudaMemcpyDeviceToDevice),
                                     "copy on the device");
                       !status.ok()) {
                     return status;
                   }
                   if (Status status = decode_add(); !status.ok()) return status;
                   return vnmse(0, 2);
                 }});
  ops.push_back({.name = "decode_add_encode",
                 .bytes = message_.size() + values + sum_.size(),
                 .bits = bits_of(sum_.size()),
                 .run =
                     [this] {
                       return device_->decode_add_encode(
                           batch(pieces_[1]), message<const std::byte>(message_, kFirst),
                           message<std::byte>(sum_, kSecond), nullptr);
                     },
                 .vnmse = [this, decode]() -> Expected<double> {
                   if (Status status = decode(sum_, kSecond); !status.ok()) return status;
                   return vnmse(0, 2);
                 }});
  // Folds the same message several times: the time does not depend on the values.
  ops.push_back({.name = "fold_encode",
                 .bytes = kFolded * message_.size() + values + folded_.size(),
                 .bits = bits_of(folded_.size()),
                 .run = [this] {
                   const std::vector in(kFolded, message<const std::byte>(message_, kFirst));
                   cuda::Batch own = batch(pieces_[1]);
                   own.ranks = kFolded + 1;
                   return device_->fold_encode(
                       own, in,
                       message<std::byte>(folded_, {.encoder = 1, .contributions = kFolded + 1}),
                       nullptr);
                 }});
  return ops;
}

}  // namespace nf::cli
