// Exchanges of several codecs, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collective/exchange.h"
#include "collective/host_groups.h"
#include "neuron_fabric/reduce_scatter.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf::test {

struct Case {
  std::string name = {};
  Collective collective = Collective::kAllReduce;
  Topology topology = Topology::kDirect;
  std::uint32_t ranks = 4;
  std::uint32_t host_group_size = 0;
  std::size_t tile_bytes = 256 << 10;
  DataType type = DataType::kFloat32;

  AllReduceOptions options(const std::string& codec = "fp32") const {
    return {.codec = codec,
            .topology = topology,
            .host_group_size = host_group_size,
            .seed = 11,
            .tile_bytes = tile_bytes};
  }
  bool scatters() const { return collective == Collective::kReduceScatter; }
};

inline void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

// Codecs of all kinds: with statistics and without, with widths, merging, with memory.
inline const std::vector<std::string> kCodecs = {"waterfill:4", "marsit+ef", "waterfill:2+ef",
                                                 "g_binary",    "topkc:2",   "g_ternary+ef",
                                                 "mxfp4",       "fp32"};

// The values of one codec on one rank, in the order of a call.
class PartValues {
 public:
  // In a reduce-scatter, one shard has no parameters, and another one empty values.
  PartValues(const Case& one, std::uint32_t part, std::uint64_t step, std::uint32_t rank) {
    test::Generator random(1 + step * 1000 + part * 10 + rank);
    const auto add = [&](std::uint64_t key, std::size_t count) {
      keys_.push_back(key);
      values_.emplace_back(one.type, random.normal(count));
    };
    const std::size_t sizes[] = {part == 3 ? 5 : 3000 + 700 * part, part, 257};
    if (!one.scatters()) {
      for (std::size_t i = 0; i < std::size(sizes); ++i) add(100 * part + i, sizes[i]);
    } else {
      for_each_owner(one.ranks, positions_of(one.options()), [&](std::uint32_t owner) {
        const std::size_t parameters = owner == 1 ? 0 : std::size(sizes);
        for (std::size_t i = 0; i < parameters; ++i) {
          add(shard_key(100 * part + i, owner), owner == 2 ? 0 : sizes[i] / one.ranks);
        }
        shards_.push_back(parameters);
      });
    }
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      gradients_.push_back({.parameter = keys_[i], .values = values_[i].view()});
    }
  }

  std::span<const Gradient> gradients() const { return gradients_; }
  std::span<const std::size_t> shards() const { return shards_; }

  // The results that this rank gets.
  std::vector<std::vector<float>> results(const Case& one, std::uint32_t rank) const {
    std::vector<std::vector<float>> all;
    std::size_t at = 0;
    if (!one.scatters()) {
      for (const TypedValues& values : values_) all.push_back(values.widened());
      return all;
    }
    std::size_t index = 0;
    for_each_owner(one.ranks, positions_of(one.options()), [&](std::uint32_t owner) {
      for (std::size_t i = 0; i < shards_[index]; ++i, ++at) {
        if (owner == rank) all.push_back(values_[at].widened());
      }
      ++index;
    });
    return all;
  }

 private:
  std::vector<std::uint64_t> keys_;
  std::vector<TypedValues> values_;
  std::vector<std::size_t> shards_;
  std::vector<Gradient> gradients_;
};

inline AllReduceCall call_of(std::uint64_t step) { return {.step = step, .epoch = 3}; }

// One rank with an exchange of all codecs.
class Together {
 public:
  Together(Transport& transport, const Case& one, std::vector<std::string> codecs = kCodecs)
      : transport_(transport), case_(one) {
    for (const std::string& codec : codecs) {
      auto part = ExchangePart::create(one.options(codec), one.collective, transport.rank(),
                                       transport.ranks());
      EXPECT_TRUE(part) << to_string(part.status());
      parts_.push_back(std::move(*part));
    }
    exchange_ = std::make_unique<Exchange>(transport, one.options(), one.collective);
  }

  Status run(std::uint64_t step) {
    values_.clear();
    for (std::uint32_t part = 0; part < parts_.size(); ++part) {
      values_.emplace_back(case_, part, step, transport_.rank());
    }
    return run(call_of(step), values_);
  }
  Status run(const AllReduceCall& call, std::vector<PartValues>& values) {
    std::vector<Exchange::Input> inputs;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      inputs.push_back({.part = parts_[part].get(),
                        .gradients = values[part].gradients(),
                        .shards = values[part].shards()});
    }
    return exchange_->run(call, inputs);
  }

  std::size_t size() const { return parts_.size(); }
  ExchangePart& part(std::size_t index) { return *parts_[index]; }
  std::vector<std::vector<float>> results(std::size_t part) const {
    return values_[part].results(case_, transport_.rank());
  }

 private:
  Transport& transport_;
  const Case case_;
  std::vector<std::unique_ptr<ExchangePart>> parts_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<PartValues> values_;
};

}  // namespace nf::test
