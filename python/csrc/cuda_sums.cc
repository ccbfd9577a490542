// Sums on CUDA devices over NCCL: lanes with a communicator and a stream each, memory from torch's
// caching allocator.
#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cuda/device_path.h"
#include "cuda/device_sum.h"
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

  // In the order of its own stream.
  void free(void* memory, cudaStream_t) override {
    const std::lock_guard lock(mutex_);
    blocks_.erase(memory);
  }

 private:
  const c10::Stream stream_;
  std::mutex mutex_;
  std::unordered_map<void*, c10::DataPtr> blocks_;
};

constexpr std::size_t kLanes = 2;
constexpr std::size_t kMostLanes = 8;

// NF_LANES of rank 0 where it is set: 1 holds half the memory, 2 keep the wire busy.
std::size_t wanted_lanes() {
  const char* text = std::getenv("NF_LANES");
  if (text == nullptr) return kLanes;
  char* end = nullptr;
  const unsigned long lanes = std::strtoul(text, &end, 10);
  if (end == text || *end != '\0' || lanes < 1 || lanes > kMostLanes) {
    throw std::runtime_error(
        c10::str("NF_LANES is '", text, "'; it is a number from 1 to ", kMostLanes));
  }
  return lanes;
}

std::vector<ncclUniqueId> make_identities() {
  std::vector<ncclUniqueId> identities(wanted_lanes());
  for (ncclUniqueId& identity : identities) {
    const Expected<ncclUniqueId> made = cuda::NcclTransport::make_identity();
    if (!made) throw std::runtime_error(made.status().message());
    identity = *made;
  }
  return identities;
}

// One a lane. Rank 0 makes them, and so says how many there are; the others find them in the store,
// or there, under `why`, why there are none.
std::vector<ncclUniqueId> agree_on_identities(const Surroundings& surroundings) {
  using Bytes = std::vector<std::uint8_t>;
  const std::string key = surroundings.prefix + "/nccl";
  const std::string why = key + "/why";
  c10d::Store& store = *surroundings.store;
  if (surroundings.own->getRank() == 0) {
    try {
      const std::vector<ncclUniqueId> identities = make_identities();
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(identities.data());
      store.set(key, Bytes(bytes, bytes + identities.size() * sizeof(ncclUniqueId)));
      return identities;
    } catch (const std::exception& error) {
      const std::string_view words = error.what();
      store.set(why, Bytes(words.begin(), words.end()));
      store.set(key, Bytes());
      throw;
    }
  }
  const Bytes bytes = store.get(key);
  if (bytes.empty()) {
    const Bytes words = store.get(why);
    throw std::runtime_error("rank 0: " + std::string(words.begin(), words.end()));
  }
  if (bytes.size() % sizeof(ncclUniqueId) != 0) {
    throw std::runtime_error("rank 0 has another version of NCCL");
  }
  std::vector<ncclUniqueId> identities(bytes.size() / sizeof(ncclUniqueId));
  std::memcpy(identities.data(), bytes.data(), bytes.size());
  return identities;
}

// What a cuda::Lane borrows.
struct OwnLane {
  OwnLane(c10::Stream own, std::unique_ptr<cuda::NcclTransport> made)
      : stream(own), allocator(own), transport(std::move(made)) {}

  const c10::Stream stream;
  CachingAllocator allocator;
  const std::unique_ptr<cuda::NcclTransport> transport;
};
using OwnLanes = std::vector<std::unique_ptr<OwnLane>>;

c10::Stream make_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type())
      .getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

OwnLanes make_lanes(c10::Device device, const Surroundings& surroundings, Duration timeout,
                    const DeviceSums::LookAround& look_around) {
  OwnLanes lanes;
  for (const ncclUniqueId& identity : agree_on_identities(surroundings)) {
    Expected<std::unique_ptr<cuda::NcclTransport>> transport = cuda::NcclTransport::create(
        {.identity = identity,
         .rank = static_cast<std::uint32_t>(surroundings.own->getRank()),
         .ranks = static_cast<std::uint32_t>(surroundings.own->getSize()),
         .timeout = timeout,
         .look_around = [&](Duration waited) { return look_around(0, waited); }});
    if (!transport) throw std::runtime_error(transport.status().message());
    lanes.push_back(std::make_unique<OwnLane>(make_stream(device), std::move(*transport)));
  }
  return lanes;
}

class CudaSums final : public DeviceSums {
 public:
  CudaSums(c10::Device device, const Surroundings& surroundings, const FabricOptions& options,
           LookAround look_around, OwnLanes lanes)
      : device_(device),
        streams_(device.type()),
        stream_(make_stream(device)),
        engine_stream_(make_stream(device)),
        look_around_(std::move(look_around)),
        allocator_(stream_),
        engine_(surroundings.training, options.timeout, engine_stream_),
        lanes_(std::move(lanes)) {}

  Expected<std::unique_ptr<Fabric>> make_fabric(Transport& control,
                                                FabricOptions options) override {
    const c10::DeviceGuard guard(device_);
    std::vector<cuda::Lane> lanes;
    for (const auto& lane : lanes_) {
      lanes.push_back({.transport = *lane->transport,
                       .stream = native(lane->stream),
                       .allocator = &lane->allocator});
    }
    return cuda::create_fabric(control,
                               {.lanes = std::move(lanes),
                                .engine = engine_,
                                .engine_stream = native(engine_stream_),
                                .stream = native(stream_),
                                .allocator = &allocator_,
                                .producer = [this] { return native(streams_.getStream(device_)); },
                                .look_around = look_around_},
                               std::move(options));
  }

  DenseSum& engine() override { return engine_; }
  c10::Stream stream() const override { return stream_; }
  void hold(const at::Tensor& bucket) override {
    for (const auto& lane : lanes_) bucket.record_stream(lane->stream);
    bucket.record_stream(engine_stream_);
    bucket.record_stream(stream_);
  }
  void abort() override {
    if (is_given_up_.exchange(true)) return;
    for (const auto& lane : lanes_) {
      lane->transport->abort({ErrorCode::kAborted, "this rank has given up"});
    }
    engine_.abort();
  }

 private:
  const c10::Device device_;
  const c10::impl::VirtualGuardImpl streams_;
  const c10::Stream stream_;
  const c10::Stream engine_stream_;
  const LookAround look_around_;
  CachingAllocator allocator_;
  Engine engine_;
  const OwnLanes lanes_;
  std::atomic<bool> is_given_up_ = false;
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
  const Topology topology = topology_of(options, options.profile, ranks);
  if (const Status status = cuda::DevicePath::check(options, options.profile, topology, ranks);
      !status.ok()) {
    why_not = status.message();
    return nullptr;
  }
  const c10::DeviceGuard guard(device);
  OwnLanes lanes = make_lanes(device, surroundings, options.timeout, look_around);
  return std::make_unique<CudaSums>(device, surroundings, options, std::move(look_around),
                                    std::move(lanes));
}

}  // namespace nf::torch_front
