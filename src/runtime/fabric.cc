#include "neuron_fabric/fabric.h"

#include <utility>

#include "runtime/host_path.h"
#include "runtime/runtime_fabric.h"

namespace nf {

Expected<std::unique_ptr<Fabric>> Fabric::create(Transport& transport, DenseEngine& engine,
                                                 FabricOptions options) {
  const MakePath on_host = [&](const PathRequest& request) {
    return Expected<std::unique_ptr<BucketPath>>(
        std::make_unique<HostPath>(transport, engine, request));
  };
  return RuntimeFabric::create(transport, engine, std::move(options), on_host);
}

Status Fabric::all_reduce(const Bucket& bucket) {
  Expected<std::unique_ptr<BucketSum>> sum = begin(bucket);
  if (!sum) return sum.status();
  if ((*sum)->has_low_bit()) NF_RETURN_IF_ERROR(sum_low_bit(**sum));
  if (const Values dense = (*sum)->dense(); dense.count > 0) {
    if (Status status = engine().sum(dense); !status.ok()) {
      return remember_failure(std::move(status));
    }
  }
  NF_RETURN_IF_ERROR(finish(**sum));
  return bucket.is_last ? end_step() : Status();
}

}  // namespace nf
