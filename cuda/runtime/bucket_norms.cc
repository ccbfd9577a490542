#include "cuda/runtime/bucket_norms.h"

#include <utility>

#include "cuda/codec/device_tables.h"

namespace nf::cuda {

Status BucketNorms::add(const Bucket& bucket, std::uint32_t regions, DeviceNorm* norms) {
  const Expected<Table*> found = find(bucket);
  if (!found) return found.status();
  const Table& table = **found;
  return add_norms(bucket.values, table.chunks, table.count, regions, table.norms, norms, stream_);
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
  made->count = static_cast<std::uint32_t>(chunks.size());
  DeviceTables tables;
  tables.add(chunks, &made->chunks);
  tables.reserve(chunks.size(), &made->norms);
  NF_RETURN_IF_ERROR(tables.upload(made->buffer, stream_));
  table = std::move(made);
  return table.get();
}

std::size_t BucketNorms::size() const {
  std::size_t bytes = 0;
  for (const auto& table : tables_) bytes += table == nullptr ? 0 : table->buffer.size();
  return bytes;
}

}  // namespace nf::cuda
