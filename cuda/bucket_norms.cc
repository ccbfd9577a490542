#include "cuda/bucket_norms.h"

#include <utility>

#include "cuda/launch.h"

namespace nf::cuda {

Status BucketNorms::add(const Bucket& bucket, std::uint32_t regions, DeviceNorm* norms) {
  const Expected<Table*> found = find(bucket);
  if (!found) return found.status();
  const Table& table = **found;
  std::byte* partial = table.room.data() + aligned(table.chunks * sizeof(NormChunk));
  return add_norms(bucket.values, table.room.as<NormChunk>(), table.chunks, regions,
                   reinterpret_cast<DeviceNorm*>(partial), norms, stream_);
}

Expected<BucketNorms::Table*> BucketNorms::find(const Bucket& bucket) {
  if (tables_.size() <= bucket.index) tables_.resize(bucket.index + 1);
  std::unique_ptr<Table>& table = tables_[bucket.index];
  if (table != nullptr && table->slots == bucket.slots) return table.get();
  std::vector<std::uint32_t> regions;
  for (const BucketSlot& slot : bucket.slots) regions.push_back(binding_.region_of(slot.parameter));
  const std::vector<NormChunk> chunks = norm_chunks(bucket.slots, regions);
  auto made = std::make_unique<Table>(allocator_);
  made->slots = bucket.slots;
  made->chunks = static_cast<std::uint32_t>(chunks.size());
  const std::size_t size = chunks.size() * sizeof(NormChunk);
  NF_RETURN_IF_ERROR(
      made->room.reserve(aligned(size) + chunks.size() * sizeof(DeviceNorm) + 1, stream_));
  // From memory that is not pinned: it has been read when the call returns.
  NF_RETURN_IF_ERROR(to_status(
      cudaMemcpyAsync(made->room.data(), chunks.data(), size, cudaMemcpyHostToDevice, stream_),
      "table of norms"));
  table = std::move(made);
  return table.get();
}

std::size_t BucketNorms::size() const {
  std::size_t bytes = 0;
  for (const auto& table : tables_) bytes += table == nullptr ? 0 : table->room.size();
  return bytes;
}

}  // namespace nf::cuda
