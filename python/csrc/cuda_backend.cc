// CUDA devices over NCCL: each channel has its own communicator and stream; memory comes from
// torch's caching allocator.
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

#include "cuda/collective/device_collective.h"
#include "cuda/runtime/device_path.h"
#include "cuda/transport/nccl_transport.h"
#include "device_backend.h"
#include "process_group_engine.h"

namespace nf::torch_front {
namespace {

cudaStream_t native(const c10::Stream& stream) {
  return static_cast<cudaStream_t>(stream.native_handle());
}

// Blocks of torch's caching allocator, for work on one stream. Both sides share the free memory.
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

  // Reused in the order of its stream.
  void free(void* memory, cudaStream_t) override {
    const std::lock_guard lock(mutex_);
    blocks_.erase(memory);
  }

 private:
  const c10::Stream stream_;
  std::mutex mutex_;
  std::unordered_map<void*, c10::DataPtr> blocks_;
};

constexpr std::size_t kDefaultChannels = 2;
constexpr std::size_t kMaxChannels = 8;

// NF_CHANNELS of rank 0 if it is set: 1 channel uses half the memory, 2 keep the link busy.
// NF_LANES is its deprecated name.
std::size_t wanted_channels() {
  const char* name = "NF_CHANNELS";
  const char* text = std::getenv(name);
  if (text == nullptr) {
    name = "NF_LANES";
    text = std::getenv(name);
  }
  if (text == nullptr) return kDefaultChannels;
  char* end = nullptr;
  const unsigned long channels = std::strtoul(text, &end, 10);
  if (end == text || *end != '\0' || channels < 1 || channels > kMaxChannels) {
    throw std::runtime_error(
        c10::str(name, " is '", text, "'; expected a number from 1 to ", kMaxChannels));
  }
  return channels;
}

std::vector<ncclUniqueId> make_identities() {
  std::vector<ncclUniqueId> identities(wanted_channels());
  for (ncclUniqueId& identity : identities) {
    const Expected<ncclUniqueId> made = cuda::NcclTransport::make_identity();
    if (!made) throw std::runtime_error(made.status().message());
    identity = *made;
  }
  return identities;
}

// One per channel. Rank 0 creates them and so decides their number. The others read them from the
// store, or from the key `why` the reason why there are none.
std::vector<ncclUniqueId> agree_on_identities(const JobContext& context) {
  using Bytes = std::vector<std::uint8_t>;
  const std::string key = context.prefix + "/nccl";
  const std::string why = key + "/why";
  c10d::Store& store = *context.store;
  if (context.own->getRank() == 0) {
    try {
      const std::vector<ncclUniqueId> identities = make_identities();
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(identities.data());
      store.set(key, Bytes(bytes, bytes + identities.size() * sizeof(ncclUniqueId)));
      return identities;
    } catch (const std::exception& error) {
      const std::string_view reason = error.what();
      store.set(why, Bytes(reason.begin(), reason.end()));
      store.set(key, Bytes());
      throw;
    }
  }
  const Bytes bytes = store.get(key);
  if (bytes.empty()) {
    const Bytes reason = store.get(why);
    throw std::runtime_error("rank 0: " + std::string(reason.begin(), reason.end()));
  }
  if (bytes.size() % sizeof(ncclUniqueId) != 0) {
    throw std::runtime_error("rank 0 uses another version of NCCL");
  }
  std::vector<ncclUniqueId> identities(bytes.size() / sizeof(ncclUniqueId));
  std::memcpy(identities.data(), bytes.data(), bytes.size());
  return identities;
}

// Owns the parts of a cuda::Channel.
struct OwnChannel {
  OwnChannel(c10::Stream own, std::unique_ptr<cuda::NcclTransport> made)
      : stream(own), allocator(own), transport(std::move(made)) {}

  const c10::Stream stream;
  CachingAllocator allocator;
  const std::unique_ptr<cuda::NcclTransport> transport;
};
using OwnChannels = std::vector<std::unique_ptr<OwnChannel>>;

c10::Stream make_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type())
      .getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

OwnChannels make_channels(c10::Device device, const JobContext& context, Duration timeout,
                          const DeviceBackend::CheckPeers& check_peers) {
  OwnChannels channels;
  for (const ncclUniqueId& identity : agree_on_identities(context)) {
    Expected<std::unique_ptr<cuda::NcclTransport>> transport = cuda::NcclTransport::create(
        {.identity = identity,
         .rank = static_cast<std::uint32_t>(context.own->getRank()),
         .ranks = static_cast<std::uint32_t>(context.own->getSize()),
         .timeout = timeout,
         .check_peers = [&](Duration waited) { return check_peers(0, waited); }});
    if (!transport) throw std::runtime_error(transport.status().message());
    channels.push_back(std::make_unique<OwnChannel>(make_stream(device), std::move(*transport)));
  }
  return channels;
}

class CudaBackend final : public DeviceBackend {
 public:
  CudaBackend(c10::Device device, const JobContext& context, const FabricOptions& options,
              CheckPeers check_peers, OwnChannels channels)
      : device_(device),
        streams_(device.type()),
        stream_(make_stream(device)),
        engine_stream_(make_stream(device)),
        check_peers_(std::move(check_peers)),
        allocator_(stream_),
        engine_(context.training, options.timeout, engine_stream_),
        channels_(std::move(channels)) {}

  Expected<std::unique_ptr<Fabric>> make_fabric(Transport& control,
                                                FabricOptions options) override {
    const c10::DeviceGuard guard(device_);
    std::vector<cuda::Channel> channels;
    for (const auto& channel : channels_) {
      channels.push_back({.transport = *channel->transport,
                          .stream = native(channel->stream),
                          .allocator = &channel->allocator});
    }
    return cuda::create_fabric(control,
                               {.channels = std::move(channels),
                                .engine = engine_,
                                .engine_stream = native(engine_stream_),
                                .stream = native(stream_),
                                .allocator = &allocator_,
                                .producer = [this] { return native(streams_.getStream(device_)); },
                                .check_peers = check_peers_},
                               std::move(options));
  }

  c10::Stream stream() const override { return stream_; }
  void hold(const at::Tensor& bucket) override {
    for (const auto& channel : channels_) bucket.record_stream(channel->stream);
    bucket.record_stream(engine_stream_);
    bucket.record_stream(stream_);
  }
  void abort() override {
    if (is_aborted_.exchange(true)) return;
    for (const auto& channel : channels_) {
      channel->transport->abort({ErrorCode::kAborted, "this rank has aborted"});
    }
    engine_.abort();
  }

 private:
  const c10::Device device_;
  const c10::impl::VirtualGuardImpl streams_;
  const c10::Stream stream_;
  const c10::Stream engine_stream_;
  const CheckPeers check_peers_;
  CachingAllocator allocator_;
  ProcessGroupEngine engine_;
  const OwnChannels channels_;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace

const char* DeviceBackend::kind() { return "cuda"; }

const char* DeviceBackend::architectures() { return NF_CUDA_ARCHITECTURES; }

std::unique_ptr<DeviceBackend> DeviceBackend::create(Request request, std::string& why_not) {
  const c10::Device device = request.model.device();
  const FabricOptions& options = request.options;
  if (device.type() != c10::DeviceType::CUDA) {
    why_not =
        c10::str("devices of type ", c10::DeviceTypeName(device.type()), " are not supported");
    return nullptr;
  }
  if (request.has_reducer) {
    why_not = "the memory-side reducer sums in host memory";
    return nullptr;
  }
  const auto ranks = static_cast<std::uint32_t>(request.context.own->getSize());
  const Topology topology = cuda::device_topology_of(options, ranks);
  if (const Status status = cuda::DevicePath::check(options, options.profile, topology, ranks);
      !status.ok()) {
    why_not = status.message();
    return nullptr;
  }
  const c10::DeviceGuard guard(device);
  OwnChannels channels =
      make_channels(device, request.context, options.timeout, request.check_peers);
  return std::make_unique<CudaBackend>(device, request.context, options,
                                       std::move(request.check_peers), std::move(channels));
}

}  // namespace nf::torch_front
