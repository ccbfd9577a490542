#include "cuda/runtime/bucket_norms.h"

#include <utility>

#include "cuda/codec/device_tables.h"

namespace nf::cuda {

Status BucketNorms::add(const BucketWork& work, DeviceNorm* norms) {
  const Expected<Table*> found = find(work.bucket().index, work.result_slots());
  if (!found) return found.status();
  const Table& table = **found;
  const auto regions = static_cast<std::uint32_t>(binding_.profile().regions.size());
  return add_norms(work.bucket().values, table.chunks, table.count, regions, table.norms, norms,
                   stream_);
}

Expected<BucketNorms::Table*> BucketNorms::find(std::uint32_t bucket,
                                                std::vector<BucketSlot> slots) {
  if (tables_.size() <= bucket) tables_.resize(bucket + 1);
  std::unique_ptr<Table>& table = tables_[bucket];
  if (table != nullptr && table->slots == slots) return table.get();
  std::vector<std::uint32_t> regions;
  for (const BucketSlot& slot : slots) regions.push_back(binding_.region_of(slot.parameter));
  const std::vector<NormChunk> chunks = norm_chunks(slots, regions);
  auto made = std::make_unique<Table>(allocator_);
  made->slots = std::move(slots);
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
