#include "runtime/bucket_work.h"

#include <utility>

namespace nf {

BucketWork::BucketWork(const Bucket& bucket, Plan plan, std::shared_ptr<TrainingStep> step)
    : bucket_(bucket),
      plan_(std::move(plan)),
      step_(std::move(step)),
      runs_(runs_of(plan_.dense)),
      traffic_(step_->traffic.size()),
      norms_(step_->traffic.size()) {}

Values BucketWork::values(std::size_t offset, std::size_t count) const {
  return {static_cast<std::byte*>(bucket_.values.data) + offset * size_of(bucket_.values.type),
          count, bucket_.values.type};
}

std::size_t BucketWork::gathered_count() const {
  if (plan_.is_dense()) return 0;
  std::size_t count = 0;
  for (const DenseRun& run : runs_) count += run.count;
  return count;
}

void BucketWork::set_gathered(Values gathered, std::shared_ptr<void> buffer) {
  gathered_ = gathered;
  buffer_ = std::move(buffer);
}

}  // namespace nf
