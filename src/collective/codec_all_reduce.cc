#include "collective/codec_all_reduce.h"

#include <utility>

namespace nf {

Expected<std::unique_ptr<CodecAllReduce>> CodecAllReduce::create(Transport& transport,
                                                                 const AllReduceOptions& options,
                                                                 Collective collective) {
  Expected<std::unique_ptr<ExchangePart>> part =
      ExchangePart::create(options, collective, transport.rank(), transport.ranks());
  if (!part) return part.status();
  return std::unique_ptr<CodecAllReduce>(
      new CodecAllReduce(transport, options, collective, std::move(*part)));
}

CodecAllReduce::CodecAllReduce(Transport& transport, const AllReduceOptions& options,
                               Collective collective, std::unique_ptr<ExchangePart> part)
    : transport_(transport),
      timeout_(options.timeout),
      part_(std::move(part)),
      exchange_(transport, options, collective) {}

Status CodecAllReduce::start_as(const AllReduceCall& call, const CallDescription& agreed) {
  const Exchange::Input input{.part = part_.get(), .gradients = call.gradients};
  return exchange_.start_as(call, std::span(&input, 1), agreed);
}

Status CodecAllReduce::start_agreed(const AllReduceCall& call) {
  const Exchange::Input input{.part = part_.get(), .gradients = call.gradients};
  return exchange_.start_agreed(call, std::span(&input, 1));
}

Status CodecAllReduce::start_shards(const AllReduceCall& call,
                                    std::span<const std::size_t> shards) {
  const Exchange::Input input{.part = part_.get(), .gradients = call.gradients, .shards = shards};
  return exchange_.start(call, std::span(&input, 1));
}

}  // namespace nf
