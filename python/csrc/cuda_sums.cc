// Sums on CUDA devices over NCCL: a communicator and a stream of our own, memory from torch's
// caching allocator.
#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>

#include <cstring>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "cuda/device_path.h"
#include "cuda/nccl_transport.h"
#include "device_sums.h"
#include "engine.h"

namespace nf::torch_front {
namespace {

cudaStream_t native(const c10::Stream& stream) {
  return static_cast<cudaStream_t>(stream.native_handle());
}

// Blocks of torch's caching allocator, for work on one stream: memory that torch has free is ours,
// and the other way round.
class CachingAllocator final : public cuda::DeviceAllocator {
 public:
  explicit CachingAllocator(c10::Stream stream) : stream_(stream) {}

  void* allocate(std::size_t size, cudaStream_t) override {
    try {
      const c10::StreamGuard guard(stream_);
      c10::DataPtr block = c10::GetAllocator(c10::DeviceType::CUDA)->allocate(size);
      void* memory = block.get();
      const std::lock_guard lock(mutex_);
      blocks_.emplace(memory, std::move(block));
      return memory;
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  void free(void* memory) override {
    const std::lock_guard lock(mutex_);
    blocks_.erase(memory);
  }

 private:
  const c10::Stream stream_;
  std::mutex mutex_;
  std::unordered_map<void*, c10::DataPtr> blocks_;
};

// Rank 0 makes the identity, the others find it in the store.
Expected<ncclUniqueId> agree_on_identity(const Surroundings& surroundings) {
  const std::string key = surroundings.prefix + "/nccl";
  if (surroundings.own->getRank() == 0) {
    const Expected<ncclUniqueId> made = cuda::NcclTransport::make_identity();
    if (!made) return made.status();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&*made);
    surroundings.store->set(key, std::vector<std::uint8_t>(bytes, bytes + sizeof *made));
    return made;
  }
  const std::vector<std::uint8_t> bytes = surroundings.store->get(key);
  ncclUniqueId identity;
  if (bytes.size() != sizeof identity) {
    return Status(ErrorCode::kDisagreement, "rank 0 has another version of NCCL");
  }
  std::memcpy(&identity, bytes.data(), sizeof identity);
  return identity;
}

Status check(const FabricOptions& options, Topology topology, std::uint32_t ranks) {
  for (const TrainingPhase& phase : options.profile.phases) {
    for (const auto& [region, route] : phase.routes) {
      if (route == kDenseRoute) continue;
      NF_RETURN_IF_ERROR(
          cuda::DeviceAllReduce::check({.codec = route, .topology = topology}, ranks));
    }
  }
  return {};
}

class CudaSums final : public DeviceSums {
 public:
  CudaSums(c10::Device device, const Surroundings& surroundings, const FabricOptions& options,
           Topology topology, LookAround look_around,
           std::unique_ptr<cuda::NcclTransport> transport)
      : device_(device),
        streams_(device.type()),
        stream_(streams_.getStreamFromGlobalPool(device, /*isHighPriority=*/true)),
        topology_(topology),
        look_around_(std::move(look_around)),
        allocator_(stream_),
        engine_(surroundings.training, options.timeout, stream_),
        transport_(std::move(transport)) {}

  Expected<std::unique_ptr<Fabric>> make_fabric(Transport& control,
                                                FabricOptions options) override {
    const c10::DeviceGuard guard(device_);
    options.topology = topology_;
    return cuda::create_fabric(control,
                               {.transport = *transport_,
                                .engine = engine_,
                                .stream = native(stream_),
                                .allocator = &allocator_,
                                .producer = [this] { return native(streams_.getStream(device_)); },
                                .look_around = look_around_},
                               std::move(options));
  }

  DenseSum& engine() override { return engine_; }
  c10::Stream stream() const override { return stream_; }
  void abort() override {
    transport_->abort({ErrorCode::kAborted, "this rank has given up"});
    engine_.abort();
  }

 private:
  const c10::Device device_;
  const c10::impl::VirtualGuardImpl streams_;
  const c10::Stream stream_;
  const Topology topology_;
  const LookAround look_around_;
  CachingAllocator allocator_;
  Engine engine_;
  const std::unique_ptr<cuda::NcclTransport> transport_;
};

}  // namespace

const char* DeviceSums::kind() { return "cuda"; }

std::unique_ptr<DeviceSums> DeviceSums::create(const Model& model, const Surroundings& surroundings,
                                               const FabricOptions& options, LookAround look_around,
                                               std::string& why_not) {
  const c10::Device device = model.device();
  if (device.type() != c10::DeviceType::CUDA) {
    why_not = c10::str("there are no sums on devices of type ", c10::DeviceTypeName(device.type()));
    return nullptr;
  }
  const auto ranks = static_cast<std::uint32_t>(surroundings.own->getSize());
  const Topology topology =
      options.topology.value_or(ranks <= kMostDirectRanks ? Topology::kDirect : Topology::kRing);
  if (const Status status = check(options, topology, ranks); !status.ok()) {
    why_not = status.message();
    return nullptr;
  }
  const c10::DeviceGuard guard(device);
  const Expected<ncclUniqueId> identity = agree_on_identity(surroundings);
  if (!identity) throw std::runtime_error(identity.status().message());
  Expected<std::unique_ptr<cuda::NcclTransport>> transport = cuda::NcclTransport::create(
      *identity, static_cast<std::uint32_t>(surroundings.own->getRank()), ranks);
  if (!transport) throw std::runtime_error(transport.status().message());
  return std::make_unique<CudaSums>(device, surroundings, options, topology, std::move(look_around),
                                    std::move(*transport));
}

}  // namespace nf::torch_front
