#include "neuron_fabric/fabric.h"

#include <utility>

#include "runtime/runtime_fabric.h"

namespace nf {

Expected<std::unique_ptr<Fabric>> Fabric::create(Transport& transport, DenseSum& engine,
                                                 FabricOptions options) {
  Expected<Binding> binding =
      Binding::make(std::move(options.profile), std::move(options.parameters));
  if (!binding) return binding.status();
  Expected<Exchange> exchange = Exchange::create(transport, options.seed, options.timeout);
  if (!exchange) return exchange.status();
  auto fabric = std::make_unique<RuntimeFabric>(transport, engine, std::move(options),
                                                std::move(*binding), std::move(*exchange));
  NF_RETURN_IF_ERROR(fabric->measure());
  return std::unique_ptr<Fabric>(std::move(fabric));
}

Status Fabric::all_reduce(const Bucket& bucket) {
  Expected<std::unique_ptr<BucketSum>> sum = begin(bucket);
  if (!sum) return sum.status();
  if ((*sum)->has_low_bit()) NF_RETURN_IF_ERROR(sum_low_bit(**sum));
  if (const Values dense = (*sum)->dense(); dense.count > 0) {
    NF_RETURN_IF_ERROR(engine().sum(dense));
  }
  NF_RETURN_IF_ERROR(finish(**sum));
  return bucket.is_last ? end_step() : Status();
}

}  // namespace nf
