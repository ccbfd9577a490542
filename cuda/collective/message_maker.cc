#include "cuda/collective/message_maker.h"

#include <algorithm>

namespace nf::cuda {
namespace {

ConstDeviceMessage to_read(const DeviceMessage& message) {
  return {.bytes = message.bytes,
          .size = message.size,
          .piece_at = message.piece_at,
          .offsets = message.offsets,
          .origin = message.origin};
}

}  // namespace

void MessageMaker::find_incoming(const Request& request) {
  const DeviceLayout& layout = request.layout;
  in_.clear();
  for (const Origin& from : context_.rounds.added[request.chunk]) {
    const std::byte* bytes =
        request.messages + layout.incoming(request.chunk, in_.size()).of(request.tile);
    in_.push_back(layout.plan().message(request.chunk, request.tile, from, bytes));
  }
}

Status MessageMaker::add(const Request& request, cudaStream_t stream) {
  find_incoming(request);
  std::span<const ConstDeviceMessage> rest = in_;
  while (!rest.empty()) {
    const auto some = rest.first(std::min(rest.size(), DeviceCodec::kMaxFolded));
    const DeviceCodec& own = codec(some.front().origin.contributions);
    NF_RETURN_IF_ERROR(own.fold_add(request.own, some, stream));
    rest = rest.subspan(some.size());
  }
  return {};
}

Status MessageMaker::make(const Request& request, cudaStream_t stream) {
  find_incoming(request);
  const DeviceMessage out =
      request.layout.plan().message(request.chunk, request.tile, request.origin, request.out);
  if (context_.feedback != nullptr) return make_with_residual(request, out, stream);
  const std::uint32_t total = request.origin.contributions;
  if (in_.empty()) return codec(total).encode(request.own, out, stream);
  if (!can_fold(context_.rounds.added[request.chunk])) {
    return context_.merges ? merge_one_by_one(request, {}, out, stream)
                           : add_one_by_one(request, out, stream);
  }
  if (in_.size() == 1 && context_.plan.is_one_stage(in_[0].origin.contributions, total)) {
    return codec(total).decode_add_encode(request.own, in_[0], out, stream);
  }
  return codec(total).fold_encode(request.own, in_, out, stream);
}

// Adds all messages but the last to the values in place, like the CPU.
Status MessageMaker::add_one_by_one(const Request& request, const DeviceMessage& out,
                                    cudaStream_t stream) const {
  const std::span<const ConstDeviceMessage> in = in_;
  for (const ConstDeviceMessage& one : in.first(in.size() - 1)) {
    NF_RETURN_IF_ERROR(codec(one.origin.contributions).decode_add(request.own, one, stream));
  }
  const ConstDeviceMessage& last = in.back();
  const std::uint32_t total = out.origin.contributions;
  if (context_.plan.is_one_stage(last.origin.contributions, total)) {
    return codec(total).decode_add_encode(request.own, last, out, stream);
  }
  return codec(total).fold_encode(request.own, {&last, 1}, out, stream);
}

// Merges every message into the partial sum `held`, or into the values if `held` is empty.
Status MessageMaker::merge_one_by_one(const Request& request, ConstDeviceMessage held,
                                      const DeviceMessage& out, cudaStream_t stream) const {
  std::uint32_t sum = 1;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const ConstDeviceMessage& in = in_[i];
    sum += in.origin.contributions;
    const bool is_last = i + 1 == in_.size();
    const DeviceMessage made =
        is_last ? out
                : request.layout.plan().message(request.chunk, request.tile, {context_.rank, sum},
                                                request.messages + request.layout.growing(i));
    NF_RETURN_IF_ERROR(held.bytes == nullptr
                           ? codec(sum).decode_add_encode(request.own, in, made, stream)
                           : codec(sum).merge(request.own, held, in, made, stream));
    held = to_read(made);
  }
  return {};
}

// The residual is that of this rank's values, or of a sum that has replaced them, so no message may
// be added while encoding.
Status MessageMaker::make_with_residual(const Request& request, const DeviceMessage& out,
                                        cudaStream_t stream) const {
  if (context_.merges && !in_.empty()) {
    // The next partial sum uses growing(0).
    const DeviceMessage alone =
        request.layout.plan().message(request.chunk, request.tile, {context_.rank, 1},
                                      request.messages + request.layout.growing(1));
    NF_RETURN_IF_ERROR(encode_with_residual(request, alone, stream));
    return merge_one_by_one(request, to_read(alone), out, stream);
  }
  for (const ConstDeviceMessage& one : in_) {
    NF_RETURN_IF_ERROR(codec(one.origin.contributions).decode_add(request.own, one, stream));
  }
  return encode_with_residual(request, out, stream);
}

Status MessageMaker::encode_with_residual(const Request& request, const DeviceMessage& out,
                                          cudaStream_t stream) const {
  const DeviceCodec& own = codec(out.origin.contributions);
  NF_RETURN_IF_ERROR(own.encode(request.own, out, stream));
  return context_.feedback->store_residual(own, request.own, to_read(out), stream);
}

}  // namespace nf::cuda
