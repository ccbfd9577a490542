#include "runtime/bucket_work.h"

#include <utility>

namespace nf {

BucketWork::BucketWork(const Bucket& bucket, Plan plan, std::shared_ptr<TrainingStep> step,
                       BucketRows rows)
    : bucket_(bucket),
      plan_(std::move(plan)),
      step_(std::move(step)),
      rows_(rows),
      dense_(runs_of(plan_.dense, row_size(), rows_.count)),
      traffic_(step_->traffic.size()),
      norms_(step_->traffic.size()) {}

Values BucketWork::values(std::size_t offset, std::size_t count) const {
  return {static_cast<std::byte*>(bucket_.values.data) + offset * size_of(bucket_.values.type),
          count, bucket_.values.type};
}

std::size_t BucketWork::gathered_count() const {
  return plan_.is_dense() ? 0 : dense_.row_size * rows_.count;
}

bool BucketWork::joins_dense(std::size_t max_bytes) const {
  const std::size_t count = gathered_count();
  return count > 0 && count * size_of(bucket_.values.type) <= max_bytes;
}

std::vector<BucketSlot> BucketWork::result_slots() const {
  std::vector<BucketSlot> slots = in_parameter_order(bucket_.slots);
  std::erase_if(slots, [this](const BucketSlot& slot) {
    return slot.count == 0 || row_of(slot) != rows_.own;
  });
  return slots;
}

void BucketWork::set_gathered(Values gathered, std::shared_ptr<void> buffer) {
  gathered_ = gathered;
  buffer_ = std::move(buffer);
}

}  // namespace nf
