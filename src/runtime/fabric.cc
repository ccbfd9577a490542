#include "neuron_fabric/fabric.h"

#include <utility>

#include "runtime/fabric_impl.h"
#include "runtime/host_path.h"

namespace nf {

Status DenseEngine::reduce_scatter(Values /*rows*/, Reduction /*reduction*/) {
  return {ErrorCode::kUnsupported, "the engine has no reduce_scatter"};
}

Expected<std::unique_ptr<Fabric>> create_fabric(Transport& transport, FabricOptions options,
                                                const MakePath& make_path) {
  Expected<std::unique_ptr<FabricImpl>> impl =
      FabricImpl::create(transport, std::move(options), make_path);
  if (!impl) return impl.status();
  return std::make_unique<Fabric>(std::move(*impl));
}

Expected<std::unique_ptr<Fabric>> Fabric::create(Transport& transport, DenseEngine& engine,
                                                 FabricOptions options) {
  return create_fabric(transport, std::move(options), host_path(transport, engine));
}

Fabric::Fabric(std::unique_ptr<FabricImpl> impl) : impl_(std::move(impl)) {}
Fabric::~Fabric() = default;

Status Fabric::all_reduce(const Bucket& bucket) {
  NF_RETURN_IF_ERROR(reduce_bucket(bucket));
  return bucket.is_last ? end_step() : Status();
}

Status Fabric::reduce_bucket(const Bucket& bucket) { return impl_->reduce_bucket(bucket); }

Expected<std::unique_ptr<BucketWork>> Fabric::begin(const Bucket& bucket) {
  return impl_->begin(bucket);
}
Status Fabric::sum_low_bit(BucketWork& work) { return impl_->sum_low_bit(work); }
Status Fabric::finish(BucketWork& work) { return impl_->finish(work); }
Status Fabric::end_step() { return impl_->end_step(); }

void Fabric::observe_loss(double loss) { impl_->observe_loss(loss); }
void Fabric::set_loss_scale(float scale) { impl_->set_loss_scale(scale); }
void Fabric::report_capacity_breach() { impl_->report_capacity_breach(); }
void Fabric::detach() { impl_->detach(); }

std::optional<bool> Fabric::should_step() const { return impl_->should_step(); }
std::uint64_t Fabric::step() const { return impl_->step(); }
const Binding& Fabric::binding() const { return impl_->binding(); }
Topology Fabric::topology() const { return impl_->topology(); }
std::size_t Fabric::held_bytes() const { return impl_->held_bytes(); }
std::vector<std::string> Fabric::drain() { return impl_->drain(); }

std::string Fabric::state() const { return impl_->state(); }
Status Fabric::load_state(std::string_view state) { return impl_->load_state(state); }
Expected<std::vector<Fabric::Memory>> Fabric::memory() const { return impl_->memory(); }
Status Fabric::load_memory(std::span<const Memory> memory) { return impl_->load_memory(memory); }

}  // namespace nf
