#include "support/fabric_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/host_path.h"
#include "support/normal.h"

namespace nf::test {

Status reduce_rows(const Transport& transport, OwnDenseEngine& gather, const Bucket& bucket,
                   const std::function<Status(const Bucket& rows)>& reduce) {
  const std::uint32_t ranks = transport.ranks();
  std::size_t row_size = 0;
  for (const BucketSlot& slot : bucket.slots) row_size += (slot.count + ranks - 1) / ranks;
  std::vector<float> rows(row_size * ranks, 0.0f);
  Bucket sharded{.index = bucket.index,
                 .is_last = bucket.is_last,
                 .reduction = bucket.reduction,
                 .values = Values(rows)};
  auto* flat = static_cast<float*>(bucket.values.data);
  const auto for_each_part = [&](auto visit) {
    std::size_t at = 0;
    for (const BucketSlot& slot : bucket.slots) {
      const std::size_t size = (slot.count + ranks - 1) / ranks;
      for (std::uint32_t row = 0; row < ranks; ++row) {
        const std::size_t first = std::min(row * size, slot.count);
        const std::size_t count = std::min(size, slot.count - first);
        visit(slot.parameter, flat + slot.offset + first, row * row_size + at, count);
      }
      at += size;
    }
  };
  for_each_part([&](std::uint32_t parameter, float* from, std::size_t to, std::size_t count) {
    std::copy_n(from, count, &rows[to]);
    if (count > 0) {
      sharded.slots.push_back({.parameter = parameter, .offset = to, .count = count});
    }
  });
  NF_RETURN_IF_ERROR(reduce(sharded));
  const auto own = std::span(rows).subspan(transport.rank() * row_size, row_size);
  std::fill(rows.begin(), rows.begin() + (own.data() - rows.data()), 0.0f);
  std::fill(rows.begin() + (own.data() - rows.data()) + own.size(), rows.end(), 0.0f);
  NF_RETURN_IF_ERROR(gather.sum(Values(rows)));
  for_each_part([&](std::uint32_t, float* to, std::size_t from, std::size_t count) {
    std::copy_n(&rows[from], count, to);
  });
  return {};
}

OwnDenseEngine::OwnDenseEngine(Transport& transport) : transport_(transport) {
  auto made = AllReduce::create(transport, {.codec = "fp32", .topology = Topology::kRing});
  EXPECT_TRUE(made) << to_string(made.status());
  all_reduce_ = std::move(*made);
  auto scatter = ReduceScatter::create(transport, {.codec = "fp32", .topology = Topology::kRing});
  EXPECT_TRUE(scatter) << to_string(scatter.status());
  reduce_scatter_ = std::move(*scatter);
}

Status OwnDenseEngine::reduce_scatter(Values rows, Reduction reduction) {
  const std::uint32_t ranks = transport_.ranks();
  const std::size_t size = rows.count / ranks;
  auto* first = static_cast<float*>(rows.data);
  std::vector<Gradient> gradients;
  for (std::uint32_t row = 0; row < ranks; ++row) {
    gradients.push_back({.parameter = 2, .values = Values(std::span(first + row * size, size))});
  }
  std::vector<Shard> shards;
  for (const Gradient& gradient : gradients) shards.push_back({std::span(&gradient, 1)});
  NF_RETURN_IF_ERROR(reduce_scatter_->run({.step = calls_++, .shards = shards}));
  if (reduction == Reduction::kSum) return {};
  for (float& value : std::span(first + transport_.rank() * size, size)) {
    value *= 1.0f / static_cast<float>(ranks);
  }
  return {};
}

Status OwnDenseEngine::sum(Values values) {
  const Gradient gradient{.parameter = 1, .values = values};
  return all_reduce_->run({.step = calls_++, .gradients = std::span(&gradient, 1)});
}

Expected<std::unique_ptr<Fabric>> make_fabric(Transport& transport, DenseEngine& engine,
                                              FabricOptions options) {
  constexpr ProbeSize kProbe = {.shape = {.count = 8 << 10, .rows = 64}, .max_bytes = 64 << 10};
  return create_fabric(transport, std::move(options), host_path(transport, engine, {}, kProbe));
}

std::vector<ModelParameter> small_model() {
  return {{.name = "block1.weight", .module_type = "Linear", .count = 64 * 64, .rows = 64},
          {.name = "block2.weight", .module_type = "Linear", .count = 48 * 64, .rows = 48},
          {.name = "norm.weight", .module_type = "LayerNorm", .count = 64, .rows = 0},
          {.name = "head.weight", .module_type = "Linear", .count = 10 * 128, .rows = 10},
          {.name = "head.bias", .module_type = "Linear", .count = 10, .rows = 0}};
}

Profile short_profile(const std::string& route) {
  Profile profile;
  profile.name = "short";
  profile.regions = {{.name = "head", .names = {"head.*"}}, {.name = "backbone"}};
  profile.phases = {{.from_step = 0, .routes = {{"head", "fp32"}, {"backbone", route}}}};
  profile.health = {.warm_up_steps = 4,
                    .cool_down_steps = 3,
                    .probation_steps = 3,
                    .most_fallbacks = 2,
                    .lock_out_window_steps = 1000};
  return profile;
}

FabricOptions short_options(const std::string& route, Admit admit) {
  return {.profile = short_profile(route), .admit = admit, .timeout = std::chrono::seconds(30)};
}

FabricRank::FabricRank(Transport& transport, FabricOptions options)
    : transport_(transport),
      engine_(std::make_unique<OwnDenseEngine>(transport)),
      average_([&transport, this, collective = options.collective](Fabric& fabric,
                                                                   const Bucket& bucket) {
        const auto reduce = [&](const Bucket& own) { return fabric.all_reduce(own); };
        return collective == Collective::kReduceScatter
                   ? reduce_rows(transport, *engine_, bucket, reduce)
                   : reduce(bucket);
      }),
      model_(small_model()) {
  options.parameters = model_;
  auto made = make_fabric(transport, *engine_, std::move(options));
  EXPECT_TRUE(made) << to_string(made.status());
  fabric_ = std::move(*made);
}

FabricRank::FabricRank(Transport& transport, FabricOptions options, const MakeFabric& make,
                       Average average)
    : transport_(transport), average_(std::move(average)), model_(small_model()) {
  options.parameters = model_;
  auto made = make(std::move(options));
  EXPECT_TRUE(made) << to_string(made.status());
  fabric_ = std::move(*made);
}

Status FabricRank::run_step(const std::function<void(Gradients&)>& modify) {
  gradients_.clear();
  for (std::size_t i = 0; i < model_.size(); ++i) {
    std::mt19937 random(
        static_cast<std::uint32_t>(fabric_->step() * 1000 + i * 100 + transport_.rank()));
    Normal normal;
    std::vector<float>& values = gradients_.emplace_back(model_[i].count);
    std::ranges::generate(values, [&] { return normal(random); });
  }
  if (modify) modify(gradients_);
  // Like DDP, from the last parameter to the first.
  const std::vector<std::vector<std::uint32_t>> buckets = {{4, 3, 2}, {1, 0}};
  for (std::uint32_t index = 0; index < buckets.size(); ++index) {
    std::vector<float> flat;
    Bucket bucket{
        .index = index, .is_last = index + 1 == buckets.size(), .values = {}, .slots = {}};
    for (const std::uint32_t parameter : buckets[index]) {
      const std::vector<float>& values = gradients_[parameter];
      bucket.slots.push_back(
          {.parameter = parameter, .offset = flat.size(), .count = values.size()});
      flat.insert(flat.end(), values.begin(), values.end());
    }
    bucket.values = Values(flat);
    NF_RETURN_IF_ERROR(average_(*fabric_, bucket));
    for (const BucketSlot& slot : bucket.slots) {
      std::copy_n(flat.begin() + static_cast<std::ptrdiff_t>(slot.offset), slot.count,
                  gradients_[slot.parameter].begin());
    }
  }
  return {};
}

const std::vector<std::string>& FabricRank::records() {
  for (std::string& record : fabric_->drain()) records_.push_back(std::move(record));
  return records_;
}

std::string FabricRank::decision(const std::string& region) {
  const std::vector<std::string>& all = records();
  for (auto record = all.rbegin(); record != all.rend(); ++record) {
    const auto json = nlohmann::json::parse(*record);
    if (json["event"] != "step") continue;
    for (const auto& item : json["regions"]) {
      if (item["name"] == region) {
        return item["route"].get<std::string>() + " " + item["reason"].get<std::string>();
      }
    }
  }
  return "none";
}

void run_steps(FabricRank& rank, int steps) {
  for (int i = 0; i < steps; ++i) {
    const Status status = rank.run_step();
    ASSERT_TRUE(status.ok()) << to_string(status);
  }
}

}  // namespace nf::test
