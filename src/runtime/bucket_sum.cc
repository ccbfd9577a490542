#include "runtime/bucket_sum.h"

#include <cstring>
#include <utility>

namespace nf {

PlannedSum::PlannedSum(const Bucket& bucket, Plan plan, std::shared_ptr<Step> step)
    : bucket_(bucket),
      plan_(std::move(plan)),
      step_(std::move(step)),
      runs_(runs_of(plan_.dense)),
      traffic_(step_->traffic.size()) {}

Values PlannedSum::values(std::size_t offset, std::size_t count) const {
  return {static_cast<std::byte*>(bucket_.values.data) + offset * size_of(bucket_.values.type),
          count, bucket_.values.type};
}

Values PlannedSum::dense() {
  if (plan_.is_dense()) return bucket_.values;
  const DataType type = bucket_.values.type;
  return {copy_.data(), copy_.size() / size_of(type), type};
}

void PlannedSum::gather() {
  if (!is_copied()) return;
  const std::size_t size = size_of(bucket_.values.type);
  std::size_t count = 0;
  for (const Run& run : runs_) count += run.count;
  copy_.resize(count * size);
  std::byte* out = copy_.data();
  for (const Run& run : runs_) {
    std::memcpy(out, values(run.offset, run.count).data, run.count * size);
    out += run.count * size;
  }
}

void PlannedSum::scatter() {
  if (!is_copied()) return;
  const std::size_t size = size_of(bucket_.values.type);
  const std::byte* from = copy_.data();
  for (const Run& run : runs_) {
    std::memcpy(values(run.offset, run.count).data, from, run.count * size);
    from += run.count * size;
  }
}

}  // namespace nf
